// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct ListChangeTests {
  private typealias Changes = ListChanges<Car>.AsyncIterator

  @Test func `Changes begin with everything and name each step after it`() async throws {
    let ground = try StoreFixture(StoreOptions())
    let cars = (1...5).map { Car(id: "\($0)", model: "m", year: $0 * 10) }
    try await ground.store.save(cars)
    let query = ground.store.objects(Car.self).where(\.year < 100).sorted(by: \.year)
    var changes = query.changes.makeAsyncIterator()
    let first = try #require(try await changes.next())
    #expect(first.isInitial)
    #expect(first.objects == cars)
    #expect(first.inserted.map(\.offset) == [0, 1, 2, 3, 4])

    // Several commits, whose intermediate states no observer sees.
    try await ground.store.delete(Car.self, id: "2")
    var third = cars[2]
    third.model = "changed"
    try await ground.store.save(third)
    try await ground.store.save(Car(id: "6", model: "m", year: 5))
    var last = cars[4]
    last.year = 35
    try await ground.store.save(last)
    let change = try #require(try await changes.next())
    #expect(!change.isInitial)
    #expect(change.objects.map(\.id) == ["6", "1", "3", "5", "4"])
    #expect(change.removed.map(\.id) == ["2"])
    #expect(change.removed.map(\.offset) == [1])
    #expect(change.inserted.map(\.id) == ["6"])
    #expect(change.inserted.map(\.offset) == [0])
    #expect(change.updated.map(\.id) == ["3", "5"])
    #expect(change.updated.map(\.offset) == [2, 3])
    #expect(change.moved.count == 1)
    var list = cars
    change.apply(to: &list)
    #expect(list == change.objects)
  }

  @Test func `An object deleted and saved again unchanged does not change a sorted list`()
    async throws
  {
    let ground = try StoreFixture(StoreOptions())
    let cars = (1...3).map { Car(id: "\($0)", model: "m", year: $0) }
    try await ground.store.save(cars)
    var changes = ground.store.objects(Car.self).sorted(by: \.year).changes.makeAsyncIterator()
    _ = try await changes.next()
    try await ground.store.delete(Car.self, id: "2")
    try await ground.store.save(cars[1])
    try await ground.store.save(Car(id: "4", model: "m", year: 4))
    let change = try #require(try await changes.next())
    // The observer may have read the list while the object was deleted.
    var list = cars
    if change.objects.count < 4 {
      change.apply(to: &list)
      while list.count < 4 { try #require(try await changes.next()).apply(to: &list) }
    } else {
      #expect(change.removed.isEmpty && change.updated.isEmpty && change.moved.isEmpty)
      #expect(change.inserted.map(\.id) == ["4"])
      change.apply(to: &list)
    }
    #expect(list == cars + [Car(id: "4", model: "m", year: 4)])
  }

  @Test func `Random commits, folded into one change, lead exactly to the new list`() async throws {
    let ground = try StoreFixture(StoreOptions())
    var random = Seed.announce().generator()
    let query = ground.store.objects(Car.self).where(\.price < 150)
      .sorted(by: \.year, .descending).limit(12)
    var changes = query.changes.makeAsyncIterator()
    var list: [Car] = []
    try #require(try await changes.next()).apply(to: &list)
    for round in 0..<150 {
      let before = list
      for _ in 0..<Int.random(in: 1...8, using: &random) {
        let id = Int.random(in: 0..<25, using: &random)
        if random.chance(30) {
          try await ground.store.delete(Car.self, id: "\(id)")
        } else {
          try await ground.store.save(QueryOracleTests.car(id, &random))
        }
      }
      // Something that is always seen, so that waiting ends.
      let mark = Car(id: "mark", model: "\(round)", year: 100)
      try await ground.store.save(mark)
      while list.first?.model != mark.model {
        let change = try #require(try await changes.next())
        let old = list
        change.apply(to: &list)
        #expect(list == change.objects)
        #expect(change.removed.map(\.object) == change.removed.map { old[$0.offset] })
        #expect(change.moved.allSatisfy { old[$0.from].id == $0.id })
        #expect(Set(change.inserted.map(\.id)).isDisjoint(with: old.map(\.id)))
        for step in change.updated { #expect(old.first { $0.id == step.id } != step.object) }
        let changed = zip(old, change.objects).contains { $0 != $1 } || old.count != list.count
        #expect(changed, "a change that changes nothing")
      }
      #expect(try await list == query.fetch(), "round \(round), from \(before.map(\.id))")
    }
  }
}
