// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// Indexes of every kind at once.
private struct Item: Storable, Equatable {
  let id: Int
  var number: Int?
  var text: String?
  var tags: [String]
  var isOn: Bool
  static let storedName = "Item"

  static let indexes = [
    Index<Item>("both", \.number, \.text, unique: true), Index("tag", each: \.tags),
    Index("on", \.text, unique: true, where: \.isOn == true),
  ]

  /// Whether the two may not be stored side by side.
  func clashes(with other: Item) -> Bool {
    if id == other.id { return false }
    let isSameKey = number == other.number && text == other.text
    if isSameKey, number != nil || text != nil { return true }
    return isOn && other.isOn && text != nil && text == other.text
  }
}

@Suite(.timeLimit(.minutes(60))) struct MixedIndexTests {
  @Test
  func `Compound, partial, unique and element indexes fit the objects of any writer`()
    throws
  {
    var random = Seed.announce().generator()
    let ground = try StoreFixture(StoreOptions())
    let stores = [ground.store, try ObjectStore(at: ground.path, StoreOptions())]
    var model: [Int: Item] = [:]
    for _ in 0..<400 {
      let store = stores.randomElement(using: &random)!
      let item = Self.item(&random)
      if random.chance(10) {
        #expect(try store.delete(Item.self, id: item.id) == (model[item.id] != nil))
        model[item.id] = nil
      } else if model.values.contains(where: { $0.clashes(with: item) }) {
        let error = #expect(throws: ObjectError.self) { try store.save(item) }
        #expect(error?.code == .uniqueViolation)
      } else {
        try store.save(item)
        model[item.id] = item
      }
      try expect(stores.randomElement(using: &random)!, Array(model.values), &random)
    }
    #expect(try ground.store.storage.verify() == [])
  }

  private static func item(_ random: inout SeededRandom) -> Item {
    let texts = ["x", "y", "é", "e\u{301}", "z"]
    return Item(
      id: .random(in: 0..<40, using: &random),
      number: random.chance(30) ? nil : .random(in: 0..<4, using: &random),
      text: random.chance(30) ? nil : texts.randomElement(using: &random)!,
      tags: (0..<Int.random(in: 0..<4, using: &random)).map { _ in
        texts.randomElement(using: &random)!
      }, isOn: random.chance(50))
  }

  private func expect(
    _ store: ObjectStore, _ all: [Item], _ random: inout SeededRandom
  ) throws {
    let items = store.objects(Item.self)
    let text = ["x", "é", "none"].randomElement(using: &random)!
    func expect(_ query: Query<Item>, _ holds: (Item) -> Bool) throws {
      let ids = all.filter(holds).map(\.id).sorted()
      #expect(try query.fetch().map(\.id).sorted() == ids)
      #expect(try query.count() == ids.count)
    }
    try expect(items.where { $0.tags.contains(text) }) { $0.tags.contains(text) }
    try expect(items.where { $0.tags.contains(any: ["y", text]) }) {
      $0.tags.contains("y") || $0.tags.contains(text)
    }
    try expect(items.where { $0.tags.contains(all: ["y", text]) }) {
      $0.tags.contains("y") && $0.tags.contains(text)
    }
    try expect(items.where(\.isOn == true && \.text == text)) { $0.isOn && $0.text == text }
    try expect(items.where { $0.number.isNil() && $0.text.isNotNil() }) {
      $0.number == nil && $0.text != nil
    }
    let first = try items.where(\.number == nil).sorted(by: \.text).limit(3).fetch().map(\.text)
    let texts = all.filter { $0.number == nil }.map(\.text)
    let sorted = texts.filter { $0 == nil } + texts.compactMap(\.self).sorted()
    #expect(first == Array(sorted.prefix(3)))
  }
}
