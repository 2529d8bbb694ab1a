// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderObjects
import LarderTesting
import Testing

private struct Number: Storable, Equatable {
  let id: Int
  var value: Int
  var text = ""
  static let storedName = "Number"
  static let indexes = [
    Index<Number>("value", \.value), Index<Number>("words", fullText: \.text),
  ]
}

private struct NeverStored: Storable {
  let id: Int
  var value = 0
  static let storedName = "NeverStored"
}

/// Conditions with very many parts, or very many levels.
@Suite(.timeLimit(.minutes(60)))
struct LargePredicateTests {
  private static func deep(_ levels: Int) -> ObjectPredicate<Number> {
    var predicate: ObjectPredicate<Number> = \.value == 0
    for level in 1..<levels {
      predicate = level % 2 == 0 ? (predicate || \.value == level) : (predicate && \.value < 1000)
    }
    return predicate
  }

  private static func code(_ body: () throws -> Void) -> ObjectError.Code? {
    do { try body() } catch { return (error as? ObjectError)?.code }
    return nil
  }

  @Test(arguments: [200, 8_000, 200_000])
  func `A condition with too many levels is a typed error of each use`(levels: Int) throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.save((0..<20).map { Number(id: $0, value: $0) })
    let predicate = Self.deep(levels)
    let query = store.objects(Number.self).where(predicate)
    #expect(Self.code { _ = try query.fetch() } == .invalidPredicate)
    #expect(Self.code { _ = try query.count() } == .invalidPredicate)
    #expect(Self.code { _ = try query.first() } == .invalidPredicate)
    #expect(Self.code { _ = try query.values(of: \.id) } == .invalidPredicate)
    #expect(Self.code { _ = try query.delete() } == .invalidPredicate)
    #expect(Self.code { _ = try query.sorted(by: \.value).page(size: 2) } == .invalidPredicate)
    for other in [!predicate, predicate && \.id == 1, \.id == 1 || predicate] {
      #expect(
        Self.code { _ = try store.objects(Number.self).where(other).fetch() } == .invalidPredicate)
      #expect(other.description.contains("128 levels"))
    }
    #expect(!predicate.holds(for: Number(id: 0, value: 0)))
    #expect(Self.code { try store.write { _ = try $0.fetch(query) } } == .invalidPredicate)
    #expect(Self.code { try store.read { _ = try $0.fetch(query) } } == .invalidPredicate)
    #expect(try store.objects(Number.self).count() == 20)
    var unused: ObjectPredicate<NeverStored> = \.value == 0
    for level in 0..<levels {
      unused = level % 2 == 0 ? (unused || \.value == 1) : (unused && \.value == 2)
    }
    let nothing = store.objects(NeverStored.self).where(unused)
    #expect(Self.code { _ = try nothing.fetch() } == .invalidPredicate)
  }

  @Test func `A condition with as many levels as permitted selects what it describes`() throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.save((0..<200).map { Number(id: $0, value: $0) })
    let predicate = Self.deep(128)
    let expected = (0..<200).filter { predicate.holds(for: Number(id: $0, value: $0)) }
    #expect(!expected.isEmpty)
    #expect(try store.objects(Number.self).where(predicate).fetch().map(\.id).sorted() == expected)
  }

  @Test func `Any number of negations of negations is one level`() throws {
    let ground = try StoreFixture()
    try ground.store.save((0..<3).map { Number(id: $0, value: $0) })
    var predicate: ObjectPredicate<Number> = \.value == 1
    for _ in 0..<100_000 { predicate = !predicate }
    let numbers = ground.store.objects(Number.self)
    #expect(try numbers.where(predicate).fetch().map(\.id) == [1])
    #expect(try numbers.where(!predicate).fetch().map(\.id) == [0, 2])
  }

  @Test(arguments: [false, true])
  func `Thousands of alternatives select what they name`(isFirst: Bool) throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.save((0..<20).map { Number(id: $0, value: $0) })
    var any: ObjectPredicate<Number> = \.value == 3
    var all: ObjectPredicate<Number> = \.value < 15
    for value in 10..<12_000 {
      let one: ObjectPredicate<Number> = \.value == value
      let other: ObjectPredicate<Number> = \.value != value + 2
      any = isFirst ? one || any : any || one
      all = isFirst ? other && all : all && other
    }
    let numbers = store.objects(Number.self)
    #expect(try numbers.where(any).fetch().map(\.id) == [3] + Array(10..<20))
    #expect(try numbers.where(all).count() == 12)
    #expect(try numbers.where(!any).count() == 9)
    #expect(try numbers.where(any && all).fetch().map(\.id) == [3, 10, 11])
    var query = numbers
    for value in 0..<5_000 { query = query.where(\.value != value * 2) }
    #expect(try query.count() == 10)
  }

  @Test func `Composed in any order, a condition is the flat list of its parts`() {
    var random = SeededRandom(seed: Seed.announce().value)
    for _ in 0..<200 {
      var parts: [(predicate: ObjectPredicate<Number>, texts: [String])] = []
      for number in 0..<Int.random(in: 1...60, using: &random) {
        parts.append((\.id == number, ["id == \(number)"]))
      }
      while parts.count > 1 {
        let position = Int.random(in: 0..<parts.count - 1, using: &random)
        let second = parts.remove(at: position + 1)
        parts[position].predicate = parts[position].predicate || second.predicate
        parts[position].texts += second.texts
      }
      let (predicate, texts) = parts[0]
      #expect(
        predicate.description.filter { !"()\\.".contains($0) }
          == texts.joined(separator: " || "))
    }
  }

  @Test func `A hundred thousand values are found on an index and without one`() throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.save((0..<50).map { Number(id: $0, value: $0 * 3_000) })
    let values = Array(stride(from: 0, to: 200_000, by: 2))
    let expected = Array(0..<50)
    let numbers = store.objects(Number.self)
    let found = numbers.where { $0.value.isIn(values) }
    #expect(try found.fetch().map(\.id).sorted() == expected)
    #expect(try found.count() == expected.count)
    #expect(try found.sorted(by: \.value, .descending).limit(2).fetch().map(\.id) == [49, 48])
    #expect(try found.sorted(by: \.value).limit(2).fetch().map(\.id) == [0, 1])
    #expect(try found.where { $0.value.isIn(values.map { $0 + 6_000 }) }.count() == 48)
    #expect(try numbers.where { $0.id.isIn(values) }.count() == 25)
    #expect(try numbers.where { !$0.id.isIn(values) }.count() == 25)
  }

  @Test func `Values on an index are found whatever is between them`() throws {
    var random = SeededRandom(seed: Seed.announce().value)
    let ground = try StoreFixture()
    let store = ground.store
    let stored = (0..<300).map { id in
      Number(id: id, value: Int.random(in: 0..<500, using: &random))
    }
    try store.save(stored)
    for _ in 0..<200 {
      let values = (0..<Int.random(in: 0..<200, using: &random)).map { _ in
        Int.random(in: -20..<520, using: &random)
      }
      let low = Int.random(in: -20..<520, using: &random)
      let query = store.objects(Number.self).where { $0.value.isIn(values) && $0.value >= low }
      let expected = stored.filter { values.contains($0.value) && $0.value >= low }.map(\.id)
      #expect(try query.fetch().map(\.id).sorted() == expected)
      #expect(try query.count() == expected.count)
      let sorted = try query.sorted(by: \.value, .descending).limit(7).fetch().map(\.value)
      let values7 = expected.map { stored[$0].value }.sorted(by: >).prefix(7)
      #expect(sorted == Array(values7))
    }
  }

  @Test func `Very many searches of one query are a typed error`() throws {
    let ground = try StoreFixture()
    try ground.store.save(Number(id: 1, value: 1, text: "a b"))
    var query = ground.store.objects(Number.self)
    for _ in 0..<100 { query = query.matching("a") }
    #expect(try query.count() == 1)
    for _ in 0..<5_000 { query = query.matching(words: "b") }
    #expect(Self.code { _ = try query.fetch() } == .invalidTextQuery)
  }
}
