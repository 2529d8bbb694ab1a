// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import Testing

/// Types that request the nested container of one field several times.
@Suite(.timeLimit(.minutes(60)))
struct ReopenedContainerTests {
  /// A coding key of any name.
  struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(_ name: String) { stringValue = name }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  /// A value of numbers, maps and lists.
  enum Tree: Codable, Equatable {
    case number(Int)
    case map([String: Tree])
    case list([Int])

    init(from decoder: any Decoder) throws {
      if let number = try? decoder.singleValueContainer().decode(Int.self) {
        self = .number(number)
      } else if let list = try? [Int](from: decoder) {
        self = .list(list)
      } else {
        self = .map(try [String: Tree](from: decoder))
      }
    }

    func encode(to encoder: any Encoder) throws {
      switch self {
      case .number(let number): try number.encode(to: encoder)
      case .map(let fields): try fields.encode(to: encoder)
      case .list(let numbers): try numbers.encode(to: encoder)
      }
    }
  }

  /// One write in a container that is requested from the outermost one again.
  struct Step {
    enum Action {
      case write(String, Tree)
      case append(String, Int)
      case open(String)
      case fail(String)
    }
    var path: [String]
    var action: Action
  }

  struct Script: Encodable {
    struct Failure: Error {}
    struct Failing: Encodable {
      func encode(to encoder: any Encoder) throws {
        var map = encoder.container(keyedBy: Name.self)
        var inner = map.nestedContainer(keyedBy: Name.self, forKey: Name("a"))
        try inner.encode(1, forKey: Name("a"))
        throw Failure()
      }
    }
    var steps: [Step]

    func encode(to encoder: any Encoder) throws {
      let root = encoder.container(keyedBy: Name.self)
      for step in steps {
        var map = root
        for name in step.path { map = map.nestedContainer(keyedBy: Name.self, forKey: Name(name)) }
        switch step.action {
        case .write(let name, let tree): try map.encode(tree, forKey: Name(name))
        case .append(let name, let number):
          var list = map.nestedUnkeyedContainer(forKey: Name(name))
          try list.encode(number)
        case .open(let name): _ = map.nestedContainer(keyedBy: Name.self, forKey: Name(name))
        case .fail(let name): try? map.encode(Failing(), forKey: Name(name))
        }
      }
    }
  }

  /// Performs a step, or returns false if it requests a container of another kind than a field has.
  static func perform(_ step: Step, on fields: inout [String: Tree]) -> Bool {
    if let name = step.path.first {
      guard case .map(var inner) = fields[name] ?? .map([:]) else { return false }
      let rest = Step(path: Array(step.path.dropFirst()), action: step.action)
      let isDone = perform(rest, on: &inner)
      fields[name] = .map(inner)
      return isDone
    }
    switch step.action {
    case .write(let name, let tree): fields[name] = tree
    case .append(let name, let number):
      guard case .list(let list) = fields[name] ?? .list([]) else { return false }
      fields[name] = .list(list + [number])
    case .open(let name):
      guard case .map(let inner) = fields[name] ?? .map([:]) else { return false }
      fields[name] = .map(inner)
    case .fail: break
    }
    return true
  }

  static func randomStep(_ random: inout SeededGenerator) -> Step {
    // Names of several lengths, so that their order is not that of the letters.
    let names = ["a", "b", "c", "aa", "b\u{E9}", "bbbb"]
    func tree(_ depth: Int, _ random: inout SeededGenerator) -> Tree {
      switch Int.random(in: 0..<(depth == 0 ? 2 : 4), using: &random) {
      case 0: return .number(Int.random(in: 0..<1000, using: &random))
      case 1: return .list((0..<Int.random(in: 0..<30, using: &random)).map { $0 })
      default:
        var fields: [String: Tree] = [:]
        for name in names where Bool.random(using: &random) {
          fields[name] = tree(depth - 1, &random)
        }
        return .map(fields)
      }
    }
    let name = names.randomElement(using: &random)!
    let path = (0..<Int.random(in: 0...2, using: &random)).map { _ in
      names.randomElement(using: &random)!
    }
    switch Int.random(in: 0..<8, using: &random) {
    case 0: return Step(path: path, action: .write(name, tree(2, &random)))
    case 1: return Step(path: path, action: .open(name))
    case 2: return Step(path: path, action: .fail(name))
    case 3: return Step(path: path, action: .write(name, .map(["a": .number(1)])))
    default: return Step(path: path, action: .append(name, Int.random(in: 0..<100, using: &random)))
    }
  }

  @Test func `A nested container that is requested again is continued, as in JSON`() throws {
    var random = SeededGenerator(seed: printedSeed())
    var refused = 0
    for _ in 0..<400 {
      var fields: [String: Tree] = [:]
      var steps: [Step] = []
      for _ in 0..<Int.random(in: 1..<25, using: &random) {
        let step = Self.randomStep(&random)
        var tried = fields
        if Self.perform(step, on: &tried) {
          fields = tried
          steps.append(step)
        } else {
          // The container would lose the value that the field has.
          refused += 1
          #expect(
            failureCode { _ = try CBOREncoder().encode(Script(steps: steps + [step])) }
              == .encodingFailed)
        }
      }
      let script = Script(steps: steps)
      let expected = Tree.map(fields)
      let bytes = try CBOREncoder().encode(script)
      #expect(try CBORDecoder().decode(Tree.self, from: bytes) == expected, "\(steps)")
      #expect(try bytes == CBOREncoder().encode(expected), "\(steps)")
      if !steps.contains(where: { if case .fail = $0.action { true } else { false } }) {
        let json = try JSONEncoder().encode(script)
        #expect(try JSONDecoder().decode(Tree.self, from: json) == expected, "\(steps)")
      }
    }
    #expect(refused > 20)
  }

  @Test func `Two handles of one nested container write to the same one`() throws {
    struct Handles: Encodable {
      func encode(to encoder: any Encoder) throws {
        var map = encoder.container(keyedBy: Name.self)
        var first = map.nestedUnkeyedContainer(forKey: Name("list"))
        try first.encode(1)
        try map.encode(0, forKey: Name("a"))
        var second = map.nestedUnkeyedContainer(forKey: Name("list"))
        #expect(second.count == 1)
        try second.encode(2)
        try first.encode(3)
        #expect(first.count == 3)
        #expect(second.count == 3)
      }
    }
    let bytes = try CBOREncoder().encode([Handles()])
    #expect(
      try CBORDecoder().decode([Tree].self, from: bytes)
        == [.map(["a": .number(0), "list": .list([1, 2, 3])])])
  }

  @Test func `A caught failure in a container that was requested again leaves the rest`() throws {
    struct Tolerant: Encodable {
      func encode(to encoder: any Encoder) throws {
        var map = encoder.container(keyedBy: Name.self)
        var first = map.nestedContainer(keyedBy: Name.self, forKey: Name("b"))
        try first.encode(1, forKey: Name("x"))
        try? map.encode(Script.Failing(), forKey: Name("a"))
        var second = map.nestedContainer(keyedBy: Name.self, forKey: Name("b"))
        try? second.encode(Script.Failing(), forKey: Name("a"))
        try second.encode(2, forKey: Name("y"))
      }
    }
    let bytes = try CBOREncoder().encode(Tolerant())
    #expect(
      try CBORDecoder().decode(Tree.self, from: bytes)
        == .map(["b": .map(["x": .number(1), "y": .number(2)])]))
  }

  @Test func `Thousands of nested containers in no order are each continued`() throws {
    struct Many: Encodable {
      let count: Int
      func encode(to encoder: any Encoder) throws {
        var map = encoder.container(keyedBy: Name.self)
        for round in 0..<2 {
          for number in 0..<count {
            let name = Name(String(number &* 7919 % count))
            var list = map.nestedUnkeyedContainer(forKey: name)
            try list.encode(round)
          }
        }
      }
    }
    let bytes = try CBOREncoder().encode(Many(count: 20_000))
    let lists = try CBORDecoder().decode([String: [Int]].self, from: bytes)
    #expect(lists.count == 20_000)
    #expect(lists.values.allSatisfy { $0 == [0, 1] })
  }
}
