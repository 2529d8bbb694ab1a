// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

/// Counts what is decoded.
private let decodes = Atomic<Int>(0)

/// Fields of many kinds under other names than their properties, which the type declares.
private struct Sample: DeclaresSchema, Equatable {
  static let storedName = "Sample"
  struct Place: Codable, Sendable, Equatable {
    var city: String
    var zip: Int
  }

  let id: Int
  var name: String
  var count: Int8
  var big: UInt64
  var ratio: Float
  var price: Double?
  var isOn: Bool
  var note: String?
  var day: Date
  var key: UUID
  var tags: [String]
  var place: Place
  var probe: Probe

  enum CodingKeys: String, CodingKey {
    case id, big, ratio, isOn, day, key, tags, place, probe
    case name = "n"
    case count = "name"
    case price = "note"
    case note = "price"
  }

  static var schema: ObjectSchema<Sample> {
    ObjectSchema(
      [
        .field("id", \.id), .field("n", \.name), .field("name", \.count), .field("big", \.big),
        .field("ratio", \.ratio), .field("note", \.price), .field("isOn", \.isOn),
        .field("price", \.note), .field("day", \.day), .field("key", \.key),
        .field("tags", \.tags),
      ], indexes: [])
  }

  /// Part of every sample: each decoding of one is counted.
  struct Probe: Codable, Sendable, Equatable {
    init() {}
    init(from decoder: any Decoder) throws { decodes.add(1, ordering: .relaxed) }
    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      try container.encode(0)
    }
  }
}

/// Makes of its fields something else than they hold.
private struct Odd: Storable, Equatable {
  let id: Int
  var year: Int
  var text: String
  var level: Int
  var size: Int
  var century: Int { year / 100 }
  static let storedName = "Odd"

  init(_ number: Int) {
    id = number
    year = number % 120
    text = "Text \(number % 7)"
    level = number % 3
    size = number % 300
  }

  enum CodingKeys: CodingKey { case id, year, text, level, size }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    let level = try container.decode(Int.self, forKey: .level)
    // Two digits, as it used to be.
    let year = try container.decode(Int.self, forKey: .year)
    self.year = year < 100 ? 1900 + year : year
    text = try container.decode(String.self, forKey: .text).lowercased()
    self.level = level == 2 ? 20 : level
    let size = try container.decode(Int.self, forKey: .size)
    self.size = size >= 260 && size < 300 ? -1 : size
  }
}

@Suite(.timeLimit(.minutes(60)), .serialized) struct StoredFieldTests {
  private static func sample(_ id: Int, _ random: inout SeededRandom) -> Sample {
    let words = [
      "", "a", "ab", "Zürich", "Zu\u{308}rich", "long enough for a heap \(id % 5)", "\u{0}",
    ]
    func word() -> String { words.randomElement(using: &random)! }
    return Sample(
      id: id, name: word(), count: Int8.random(in: -128...127, using: &random),
      big: random.chance(50) ? .max - UInt64(id % 3) : UInt64(id % 30),
      ratio: Float(Int.random(in: -8...8, using: &random)) / 3,
      price: random.chance(30) ? nil : Double(Int.random(in: -20...20, using: &random)) / 8,
      isOn: random.chance(50), note: random.chance(30) ? nil : word(),
      day: Date(timeIntervalSince1970: Double(id % 7) + 0.1),
      key: UUID(uuidString: "00000000-0000-0000-0000-00000000000\(id % 10)")!,
      tags: (0..<id % 3).map { _ in word() }, place: .init(city: word(), zip: id % 4),
      probe: .init())
  }

  private static func predicate(
    _ depth: Int, _ samples: [Sample], _ random: inout SeededRandom
  ) -> (ObjectPredicate<Sample>, @Sendable (Sample) -> Bool) {
    if depth > 0, random.chance(60) {
      let (left, leftHolds) = predicate(depth - 1, samples, &random)
      let (right, rightHolds) = predicate(depth - 1, samples, &random)
      switch Int.random(in: 0..<4, using: &random) {
      case 0: return (left || right, { leftHolds($0) || rightHolds($0) })
      case 1: return (!left, { !leftHolds($0) })
      default: return (left && right, { leftHolds($0) && rightHolds($0) })
      }
    }
    let one = samples.randomElement(using: &random)!
    let shape = PredicateProperty<Sample, String>(\.name)
    let note = PredicateProperty<Sample, String?>(\.note)
    let price = PredicateProperty<Sample, Double?>(\.price)
    let tags = PredicateProperty<Sample, [String]>(\.tags)
    let word = one.name
    switch Int.random(in: 0..<20, using: &random) {
    case 0: return (\.name == one.name, { $0.name == one.name })
    case 1: return (\.name < one.name, { $0.name < one.name })
    case 2: return (\.count >= one.count, { $0.count >= one.count })
    case 3: return (\.big == one.big, { $0.big == one.big })
    case 4: return (\.big > 20, { $0.big > 20 })
    case 5: return (\.ratio <= one.ratio, { $0.ratio <= one.ratio })
    case 6: return (\.price == one.price, { $0.price == one.price })
    case 7: return (price > 0.5, { $0.price.map { $0 > 0.5 } ?? false })
    case 8: return (price.isNil(), { $0.price == nil })
    case 9: return (\.isOn == one.isOn, { $0.isOn == one.isOn })
    case 10: return (\.note != one.note, { $0.note != one.note })
    case 11: return (note.isNotNil(), { $0.note != nil })
    case 12: return (\.day < one.day, { $0.day < one.day })
    case 13: return (\.key == one.key, { $0.key == one.key })
    case 14: return (tags.contains(word), { $0.tags.contains(word) })
    case 15: return (tags.count > 1, { $0.tags.count > 1 })
    case 16: return (\.place.city == one.place.city, { $0.place.city == one.place.city })
    case 17: return (shape.contains("a"), { $0.name.contains("a") })
    case 18: return (\.id > one.id, { $0.id > one.id })
    default: return (shape.hasPrefix(word), { $0.name.hasPrefix(word) })
    }
  }

  @Test func `Fields evaluated in stored form equal those of the objects`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let ground = try StoreFixture(StoreOptions())
    let samples = (0..<400).map { Self.sample($0, &random) }
    try ground.store.save(samples)
    for round in 0..<300 {
      let (predicate, holds) = Self.predicate(2, samples, &random)
      let expected = samples.filter(holds)
      let query = ground.store.objects(Sample.self).where(predicate)
      #expect(try query.fetch() == expected, "\(seed) round \(round): \(predicate)")
      #expect(
        try query.offset(0).count() == expected.count, "\(seed) round \(round): \(predicate)")
    }
  }

  @Test func `What does not fit is passed over without being decoded`() throws {
    let ground = try StoreFixture(StoreOptions())
    var random = SeededRandom(seed: 7)
    let samples = (0..<2000).map { Self.sample($0, &random) }
    try ground.store.save(samples)
    let query = ground.store.objects(Sample.self)
    var before = decodes.load(ordering: .relaxed)
    func decoded() -> Int {
      let now = decodes.load(ordering: .relaxed)
      defer { before = now }
      return now - before
    }
    #expect(try query.where(\.id == 1234).fetch() == [samples[1234]])
    #expect(decoded() < 40)
    let few = samples.filter { $0.name == "a" && $0.price.map { $0 > 1 } ?? false }
    #expect(try query.where(\.name == "a" && \.price > 1).fetch() == few)
    #expect(decoded() < few.count + 40)
    let some = samples.filter { $0.note == nil }.count
    #expect(try query.where(\.note == nil).count() == some)
    #expect(decoded() < 40)
    #expect(try query.values(of: \.note) == samples.map(\.note))
    #expect(
      try query.where(\.isOn == true).sum(\.ratio)
        == samples.filter(\.isOn).map(\.ratio).reduce(0, +))
    #expect(try query.max(\.count) == samples.map(\.count).max())
    #expect(try query.counts(by: \.name).values.reduce(0, +) == 2000)
    #expect(decoded() < 40)
    // A nested path and a computed property are not fields.
    #expect(try query.where(\.place.zip == 1).count() == samples.filter { $0.place.zip == 1 }.count)
    #expect(decoded() >= 2000)
  }

  @Test func `A query evaluates fields as the type decodes them`() throws {
    let ground = try StoreFixture(StoreOptions())
    let stored = (0..<3000).map(Odd.init)
    try ground.store.save(stored)
    let odd = ground.store.objects(Odd.self)
    let seen = try odd.fetch()
    #expect(seen.contains { $0.size == -1 } && seen != stored)
    #expect(try odd.where(\.year == 1950).count() == 25)
    #expect(try odd.where(\.year == 1950).fetch() == seen.filter { $0.year == 1950 })
    #expect(try odd.where(\.year < 100).fetch().isEmpty)
    #expect(try odd.where(\.text == "text 3").fetch() == seen.filter { $0.text == "text 3" })
    #expect(try odd.where(\.level == 20).fetch() == seen.filter { $0.level == 20 })
    #expect(try odd.where(\.century == 19).fetch() == seen.filter { $0.century == 19 })
    #expect(try odd.values(of: \.year) == seen.map(\.year))
    #expect(try odd.max(\.level) == 20)
    #expect(try odd.where(\.size == -1).fetch() == seen.filter { $0.size == -1 })
    #expect(try odd.where(\.size == -1).count() == seen.filter { $0.size == -1 }.count)
    #expect(try odd.where(\.size >= 0).fetch() == seen.filter { $0.size >= 0 })
    #expect(try odd.values(of: \.size) == seen.map(\.size))
    #expect(try odd.where(\.size == 270).fetch().isEmpty)
  }
}
