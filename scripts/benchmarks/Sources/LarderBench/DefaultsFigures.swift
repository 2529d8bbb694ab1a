// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import Synchronization

extension DefaultsKeys {
  fileprivate static let absent = DefaultsKey<Int>("bench.absent", default: 1)
  fileprivate static let number = DefaultsKey<Int>("bench.number", default: 0)
  fileprivate static let text = DefaultsKey<String>("bench.text", default: "")
}

extension Defaults {
  fileprivate var benchProperty: Int {
    get { get(or: 0) }
    set { set(newValue) }
  }
}

/// What a default costs to read, and a suite of 10,000 to open.
struct DefaultsFigures {
  let directory: String
  let isQuick: Bool

  private var rounds: Int { isQuick ? 7 : 41 }

  /// The slowest of four ways to read: a property, a typed key of a number and of a text, and a
  /// key nobody has set.
  func read() throws -> Figure {
    let defaults = try Defaults(at: directory + "/read")
    defer { defaults.close() }
    for index in 0..<100 { try defaults.setValue(index, forKey: "other\(index)") }
    defaults.benchProperty = 3
    defaults[.number] = 4
    defaults[.text] = "hello"
    let guarded = Mutex<[String: Int]>(["bench.number": 4])
    let count = isQuick ? 50_000 : 200_000
    func time(_ expected: Int, _ body: () -> Int) throws -> Double {
      var sum = 0
      let time = Rounds.nanoseconds { for _ in 0..<count { sum &+= body() } }
      guard sum == expected * count else { throw BenchFailure("A default was misread.") }
      return time / Double(count)
    }
    var ways: [[Double]] = [[], [], [], []]
    let result = try Rounds.compare(count: rounds) { _ in
      ways[0].append(try time(3) { defaults.benchProperty })
      ways[1].append(try time(4) { defaults[.number] })
      ways[2].append(try time(5) { defaults[.text].utf8.count })
      ways[3].append(try time(1) { defaults[.absent] })
      return ways.map { $0.last! }.max()!
    } rival: { _ in
      try time(4) { guarded.withLock { $0["bench.number"]! } }
    }
    let names = ["property", "number", "text", "absent"]
    let each = zip(names, ways).map { "\($0) \(Int(Rounds.median($1)))" }
    return Figure(
      id: "defaults.read_ns", value: result.own, unit: "ns", bar: .atMost(150), own: result.own,
      rival: "a Dictionary in a Mutex (ns: \(each.joined(separator: ", ")))",
      rivalValue: result.rival, rivalUnit: "ns", spread: result.ownSpread)
  }

  /// Opening a suite of 10,000 keys and reading the first, files closed before.
  func open() throws -> Figure {
    let path = directory + "/open"
    var values: [String: String] = [:]
    for index in 0..<10_000 { values["key \(index)"] = "value \(index)" }
    let list = try PropertyListSerialization.data(
      fromPropertyList: values, format: .binary, options: 0)
    let first = try Defaults(at: path)
    try first.importPropertyList(list)
    first.close()
    let result = try Rounds.compare(count: isQuick ? 7 : 31) { round in
      var read: String?
      var opened: Defaults?
      let time = try Rounds.nanoseconds {
        let defaults = try Defaults(at: path)
        read = try defaults.value(String.self, forKey: "key \(round)")
        opened = defaults
      }
      opened?.close()
      guard read == "value \(round)" else { throw BenchFailure("A default is missing.") }
      return time / 1e6
    } rival: { round in
      var read: String?
      let time = try Rounds.nanoseconds {
        let all = try PropertyListSerialization.propertyList(from: list, format: nil)
        read = (all as? [String: Any])?["key \(round)"] as? String
      }
      guard read == "value \(round)" else { throw BenchFailure("The property list is broken.") }
      return time / 1e6
    }
    return Figure(
      id: "defaults.open_ms", value: result.own, unit: "ms", bar: .atMost(10), own: result.own,
      rival: "a property list of them, parsed", rivalValue: result.rival, rivalUnit: "ms",
      spread: result.ownSpread)
  }
}
