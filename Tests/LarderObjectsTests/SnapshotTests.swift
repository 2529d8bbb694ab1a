// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60))) struct SnapshotTests {
  @Test func `A snapshot shows one state of all types while others write`() throws {
    let ground = try StoreFixture(StoreOptions())
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try ground.store.save(Vehicle(id: "1", year: 1, maker: Maker(id: "m", name: "one")))
    let vehicles = ground.store.objects(Vehicle.self)
    _ = try vehicles.fetch()
    try ground.store.read { snapshot in
      #expect(try snapshot.count(vehicles) == 1)
      try other.save(Vehicle(id: "2", year: 2))
      try other.save(Maker(id: "m", name: "two"))
      try other.save(Person(id: 1, name: "new"))
      // Kept queries already have the newest state; a snapshot does not use them.
      #expect(try vehicles.fetch().count == 2)
      #expect(try snapshot.fetch(vehicles).map(\.id) == ["1"])
      #expect(try snapshot.count(Vehicle.self) == 1)
      #expect(try snapshot.object(Maker.self, id: "m")?.name == "one")
      #expect(try snapshot.count(Person.self) == 0)
      #expect(try !snapshot.contains(Person.self, id: 1))
      let vehicle = try #require(try snapshot.object(Vehicle.self, id: "1"))
      #expect(vehicle.maker?.name == "one")
      #expect(try snapshot.first(vehicles.where(\.year == 2)) == nil)
      #expect(try snapshot.first(vehicles.including(\.$maker))?.maker?.name == "one")
      try other.deleteAll(Vehicle.self)
      #expect(try ground.store.objects(Vehicle.self).count() == 0)
      #expect(try snapshot.count(Vehicle.self) == 1)
      #expect(try snapshot.fetch(vehicles).map(\.id) == ["1"])
    }
    #expect(try vehicles.count() == 0)
  }

  @Test func `References followed after the closure load the newest state`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Vehicle(id: "1", year: 1, maker: Maker(id: "m", name: "one")))
    let vehicle = try ground.store.read { try $0.object(Vehicle.self, id: "1") }
    try ground.store.save(Maker(id: "m", name: "two"))
    #expect(vehicle?.maker?.name == "two")
    // And a value that already showed its child keeps what it showed.
    let seen = try ground.store.read { snapshot in
      let vehicle = try snapshot.object(Vehicle.self, id: "1")
      #expect(vehicle?.maker?.name == "two")
      return vehicle
    }
    try ground.store.save(Maker(id: "m", name: "three"))
    #expect(seen?.maker?.name == "two")
    #expect(try ground.store.object(Vehicle.self, id: "1")?.maker?.name == "three")
  }

  @Test func `Transfers between accounts never show in part`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save((0..<10).map { Part(id: "\($0)", weight: 100) })
    let isOver = Atomic<Bool>(false)
    let writer = JoinableThread {
      Result {
        var random = SeededRandom(seed: 7)
        while !isOver.load(ordering: .relaxed) {
          let from = Int.random(in: 0..<10, using: &random)
          try store.write { transaction in
            guard var left = try transaction.object(Part.self, id: "\(from)"),
              var right = try transaction.object(Part.self, id: "\((from + 1) % 10)")
            else { return }
            left.weight -= 1
            right.weight += 1
            try transaction.save(left)
            try transaction.save(right)
          }
        }
      }
    }
    for _ in 0..<300 {
      let sum = try store.read { snapshot in
        try (0..<10).reduce(0) { try $0 + (snapshot.object(Part.self, id: "\($1)")?.weight ?? 0) }
      }
      #expect(sum == 1000)
    }
    isOver.store(true, ordering: .relaxed)
    try writer.join().get()
  }

  @Test func `A snapshot is not read for longer than allowed`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Part(id: "1", weight: 1))
    #expect {
      try ground.store.read(atMost: .zero) { try $0.count(Part.self) }
    } throws: { error in
      (error as? ObjectError)?.code == .snapshotExpired
    }
    #expect(try ground.store.read(atMost: .seconds(1 << 62)) { try $0.count(Part.self) } == 1)
  }

  @Test func `An error of the closure is thrown, and the snapshot is released`() throws {
    struct Mine: Error {}
    let ground = try StoreFixture(StoreOptions())
    for _ in 0..<100 {
      #expect(throws: Mine.self) { try ground.store.read { _ in throw Mine() } }
    }
    ground.store.close()
    #expect(throws: StoreError.self) { try ground.store.read { _ in } }
  }
}
