// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCache
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct ObjectSpotTests {
  @Test(arguments: [0, 16, 100_000])
  func `Objects that a query finds in memory are the newest of any process`(memory: Int) throws {
    let seed = Seed.announce()
    let comment = Comment(rawValue: "seed \(seed)")
    var random = seed.generator()
    let ground = try StoreFixture(StoreOptions())
    let options = CacheOptions(memoryCountLimit: memory)
    // Two that share files and no memory, as two processes do.
    let stores = try (0..<2).map { _ in
      try ObjectStore(at: ground.path, StoreOptions(), memory: options)
    }
    var all: [String: Car] = [:]
    for round in 0..<1500 {
      let writer = stores[Int.random(in: 0..<2, using: &random)]
      let id = "car-\(Int.random(in: 0..<120, using: &random))"
      switch Int.random(in: 0..<40, using: &random) {
      case 0..<20:
        let car = Car(
          id: id, model: "m\(Int.random(in: 0..<12, using: &random))",
          year: Int.random(in: 1990..<2000, using: &random), owner: "round \(round)")
        try writer.save(car)
        all[id] = car
      case 20..<30:
        try writer.delete(Car.self, id: id)
        all[id] = nil
      case 30:
        // The sequences restart under another identifier.
        try writer.deleteAll(Car.self)
        try writer.save(Array(all.values))
      default: #expect(try writer.object(Car.self, id: id) == all[id], comment)
      }
      let (model, year) = (
        "m\(Int.random(in: 0..<12, using: &random))", Int.random(in: 1990..<2000, using: &random)
      )
      for store in stores {
        let found = try store.objects(Car.self).where(\.model == model).fetch()
        let expected = all.values.filter { $0.model == model }
        #expect(found.sorted { $0.id < $1.id } == expected.sorted { $0.id < $1.id }, comment)
        let years = try store.objects(Car.self).where(\.year >= year && \.year < year + 2)
          .sorted(by: \.year).limit(10).fetch()
        #expect(years.allSatisfy { all[$0.id] == $0 }, comment)
        let count = all.values.count { $0.year >= year && $0.year < year + 2 }
        #expect(years.count == min(count, 10), comment)
      }
    }
    #expect(try ground.store.storage.verify() == [], comment)
  }

  @Test(arguments: [0, 1, 63, 64, 65, 128, 129, 200])
  func `A result is complete and in its order, however many objects it has`(count: Int) throws {
    let ground = try StoreFixture(StoreOptions())
    let cars = (0..<count).map {
      Car(id: "car-\($0)", model: "m", year: 3000 - $0, owner: nil)
    }
    try ground.store.save(cars + [Car(id: "other", model: "n", year: 5000, owner: nil)])
    let other = try ObjectStore(at: ground.path, StoreOptions())
    let named = other.objects(Car.self).where(\.model == "m")
    let sorted = other.objects(Car.self).where(\.year <= 3000).sorted(by: \.year)
    // First from the store, then from memory.
    for _ in 0..<2 {
      #expect(try named.unsorted().fetch() == cars)
      #expect(try sorted.limit(100).fetch() == Array(cars.reversed().prefix(100)))
      #expect(try sorted.offset(0).fetch() == cars.reversed())
      #expect(
        try sorted.offset(60).limit(70).fetch() == Array(cars.reversed().dropFirst(60).prefix(70)))
    }
  }

  @Test func `Ids of any length have separate positions`() throws {
    let ground = try StoreFixture(StoreOptions())
    // The rest of an id without its last two bytes, and these bytes, are often the same.
    let parts = ["", "a", "b", "ab", "ba", "aab", "aba", "00", "01", "000", "0000", "0001", "0100"]
    let ids = Set(parts + parts.flatMap { first in parts.map { first + $0 } })
    try ground.store.save(
      ids.map { Car(id: $0, model: $0, year: 2000, owner: nil) })
    let other = try ObjectStore(at: ground.path, StoreOptions())
    for id in ids { #expect(try other.object(Car.self, id: id)?.model == id) }
    #expect(try other.objects(Car.self).count() == ids.count)
    #expect(try other.delete(Car.self, ids: Array(ids)) == ids.count)
    for id in ids { #expect(try other.object(Car.self, id: id) == nil) }
    #expect(try ground.store.storage.verify() == [])
  }
}
