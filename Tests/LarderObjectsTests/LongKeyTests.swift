// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// Texts that differ only after the part that an index stores.
@Suite struct LongKeyTests {
  private static let long = String(repeating: "x", count: 500)

  @Test(.timeLimit(.minutes(60)))
  func `An object with several elements that an index cuts to the same key is found once`() throws {
    let ground = try StoreFixture(StoreOptions())
    let tags = [Self.long + "a", Self.long + "b"]
    try ground.store.save(Car(id: "1", model: "m", year: 1, tags: tags))
    let cars = ground.store.objects(Car.self).where { $0.tags.contains(tags[0]) }
    #expect(try cars.explain().hasPrefix("scan index \"tag\""))
    #expect(try cars.fetch().map(\.id) == ["1"])
    #expect(try cars.count() == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A compound key longer than an index keeps is found by all of its properties`() throws {
    let ground = try StoreFixture(StoreOptions())
    let (first, second) = (String(repeating: "y", count: 300), String(repeating: "z", count: 300))
    for (id, last) in ["a", "b", "c"].enumerated() {
      try ground.store.save(Pair(id: id, first: first, second: second + last))
    }
    let pairs = ground.store.objects(Pair.self)
    let equal = pairs.where(\.first == first && \.second == second + "b")
    #expect(try equal.explain().hasPrefix("scan index \"both\""))
    #expect(try equal.fetch().map(\.id) == [1] && equal.count() == 1)
    let above = pairs.where(\.first == first && \.second > second + "a")
    #expect(try above.fetch().map(\.id) == [1, 2] && above.count() == 2)
    let below = pairs.where(\.first == first && \.second < second + "c")
    #expect(try below.fetch().map(\.id) == [0, 1] && below.count() == 2)
  }
}

struct Pair: Storable {
  let id: Int
  var first: String
  var second: String
  static let indexes = [Index<Pair>("both", \.first, \.second)]
}
