// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// A vehicle that is created from the ids of what it refers to.
private struct Order: Storable, Equatable {
  let id: Int
  @HasOne var maker: Maker?
  @HasMany var parts: [Part]
  static let storedName = "LinkedOrder"

  init(id: Int, maker: String?, parts: [String]) {
    self.id = id
    _maker = HasOne(id: maker)
    _parts = HasMany(ids: parts)
  }
}

/// The maker of a newer program.
private struct MakerWithCity: Storable {
  let id: String
  var name: String
  var city: String?
  static var storedName: String { Maker.storedName }
}

@Suite(.timeLimit(.minutes(60))) struct LinkedChildTests {
  /// Reads a maker in some way.
  private typealias Reading = @Sendable (ObjectStore) throws -> Maker?

  private static let readings: [(String, Reading)] = [
    ("by id", { try $0.object(Maker.self, id: "m") }),
    (
      "from memory",
      { store in
        _ = try store.object(Maker.self, id: "m")
        return try store.object(Maker.self, id: "m")
      }
    ),
    ("by a query", { try $0.objects(Maker.self).where(\.name == "old").fetch().first }),
    (
      "by a query after a count",
      { store in
        let makers = store.objects(Maker.self).where(\.name == "old").limit(1)
        #expect(try makers.filter { $0.name == "old" }.count() == 1)
        #expect(try makers.exists())
        return try makers.fetch().first
      }
    ),
    (
      "in bounded memory",
      { try $0.objects(Maker.self).where(\.name == "old").page(size: 1).objects.first }
    ),
    (
      "by an inclusion of a transaction",
      { store in
        try store.write { transaction in
          let vehicles = store.objects(Vehicle.self).including(\.$maker)
          return try transaction.fetch(vehicles).first?.maker
        }
      }
    ),
    ("by all", { try $0.objects(Maker.self).fetch().first }),
    ("by a snapshot", { store in try store.read { try $0.object(Maker.self, id: "m") } }),
    ("by a transaction", { store in try store.write { try $0.object(Maker.self, id: "m") } }),
    ("by a version", { try $0.versionedObject(Maker.self, id: "m")?.object }),
    ("by a reference", { try $0.object(Vehicle.self, id: "first")?.maker }),
    (
      "by an inclusion",
      {
        try $0.objects(Vehicle.self).including(\.$maker).fetch().first?.maker
      }
    ),
  ]

  @Test(arguments: readings.indices)
  func `A child that was read and not changed is linked, not written`(_ number: Int) throws {
    let (name, read) = Self.readings[number]
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Vehicle(id: "first", year: 1, maker: Maker(id: "m", name: "old")))
    let maker = try #require(try read(store), "\(name)")
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.save(Maker(id: "m", name: "new"))
    // Read again in the meantime, as by an observer.
    if number % 2 == 0 { #expect(try store.object(Maker.self, id: "m")?.name == "new") }
    try store.save(Vehicle(id: "second", year: 2, maker: maker))
    #expect(try other.object(Maker.self, id: "m")?.name == "new", "\(name)")
    #expect(try other.object(Vehicle.self, id: "second")?.maker?.name == "new", "\(name)")
    // A changed one is saved, and so is a new one.
    var changed = maker
    changed.name = "changed"
    try store.save(Vehicle(id: "third", year: 3, maker: changed))
    #expect(try other.object(Maker.self, id: "m")?.name == "changed", "\(name)")
    try store.save(Vehicle(id: "fourth", year: 4, maker: Maker(id: "m", name: "another")))
    #expect(try other.object(Maker.self, id: "m")?.name == "another", "\(name)")
  }

  @Test(arguments: [false, true])
  func `A state that was written and read in a failed transaction is stored by the next save`(
    query: Bool
  ) throws {
    struct Stop: Error {}
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Maker(id: "m", name: "one"))
    let maker = Maker(id: "m", name: "two")
    #expect(throws: Stop.self) {
      try store.write { transaction in
        try transaction.save(maker)
        let read =
          query
          ? try transaction.fetch(store.objects(Maker.self)).first
          : try transaction.object(Maker.self, id: "m")
        #expect(read?.name == "two")
        throw Stop()
      }
    }
    try store.save(Vehicle(id: "v", year: 1, maker: maker))
    #expect(try store.object(Maker.self, id: "m")?.name == "two")
  }

  @Test func `A child that a newer program stored with another field is linked, not written`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let newer = try ObjectStore(at: ground.path, StoreOptions())
    try newer.save(MakerWithCity(id: "m", name: "old", city: "Turin"))
    let maker = try #require(try store.object(Maker.self, id: "m"))
    try newer.save(MakerWithCity(id: "m", name: "new", city: "Turin"))
    try store.save(Vehicle(id: "v", year: 1, maker: maker))
    let now = try newer.object(MakerWithCity.self, id: "m")
    #expect(now?.name == "new" && now?.city == "Turin")
  }

  @Test func `A child that was read and deleted elsewhere is stored again with its parent`() throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Maker(id: "m", name: "old"))
    let maker = try store.object(Maker.self, id: "m")
    try store.delete(Maker.self, id: "m")
    try store.save(Vehicle(id: "a", year: 1, maker: maker))
    #expect(try store.object(Vehicle.self, id: "a")?.maker?.name == "old")
  }

  @Test func `Several children are linked or written, each by itself`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save((0..<100).map { Part(id: "\($0)", weight: $0) })
    var parts = try store.objects(Part.self).fetch()
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.objects(Part.self).set(\.weight, to: -1)
    for position in parts.indices where position % 3 == 0 { parts[position].weight = 1000 }
    try store.save(Vehicle(id: "a", year: 1, parts: parts + [Part(id: "new", weight: 5)]))
    let weights = try #require(try other.object(Vehicle.self, id: "a")).parts.map(\.weight)
    #expect(weights == (0..<100).map { $0 % 3 == 0 ? 1000 : -1 } + [5])
  }

  @Test func `A change in place is saved, also to a state that was read before`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Vehicle(id: "a", year: 1, maker: Maker(id: "m", name: "on")))
    for name in ["off", "on", "off", "on"] {
      var car = try #require(try store.object(Vehicle.self, id: "a"))
      car.maker?.name = name
      try store.save(car)
      #expect(try store.object(Maker.self, id: "m")?.name == name)
    }
  }

  private struct Rollback: Error {}

  @Test(arguments: [false, true])
  func `A child whose deletion was rolled back counts as read`(all: Bool) throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Vehicle(id: "first", year: 1, maker: Maker(id: "m", name: "old")))
    let read = try #require(try store.versionedObject(Vehicle.self, id: "first"))
    let maker = try #require(try store.object(Maker.self, id: "m"))
    var car = read.object
    car.maker?.name = "mine"
    let changed = car
    #expect(throws: Rollback.self) {
      try store.write { transaction in
        try transaction.delete(Vehicle.self, id: "first")
        if all {
          try transaction.deleteAll(Maker.self)
        } else {
          try transaction.delete(Maker.self, id: "m")
        }
        throw Rollback()
      }
    }
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.save(Maker(id: "m", name: "new"))
    try store.save(Vehicle(id: "second", year: 2, maker: maker))
    #expect(try other.object(Maker.self, id: "m")?.name == "new")
    #expect(throws: ObjectConflict<Maker>.self) {
      try store.save(changed, ifUnchangedSince: read.version)
    }
    #expect(try other.object(Maker.self, id: "m")?.name == "new")
  }

  @Test func `References are created from ids, without objects`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Maker(id: "m", name: "there"))
    try store.save([Part(id: "p", weight: 1), Part(id: "q", weight: 2)])
    let order = Order(id: 1, maker: "m", parts: ["q", "gone", "p"])
    #expect(order.maker == nil && order.$maker.id == "m" && !order.$maker.isLoaded)
    #expect(order.parts.isEmpty && order.$parts.ids == ["q", "gone", "p"])
    #expect(throws: ObjectError.self) { try order.$maker.load() }
    try store.save(order)
    let saved = try #require(try store.object(Order.self, id: 1))
    #expect(saved.maker?.name == "there" && saved.parts.map(\.weight) == [2, 1])
    #expect(try saved.$parts.missingIDs == ["gone"])
    #expect(
      try store.referrers(of: Maker(id: "m", name: ""), in: Order.self, through: \.$maker).count()
        == 1)
    try store.save(Order(id: 2, maker: nil, parts: []))
    #expect(try store.object(Order.self, id: 2)?.maker == nil)
    // An assigned object replaces a link.
    var again = Order(id: 3, maker: "m", parts: ["p"])
    again.maker = Maker(id: "n", name: "new")
    again.parts.append(Part(id: "r", weight: 3))
    try store.save(again)
    #expect(try store.object(Order.self, id: 3)?.maker?.name == "new")
    #expect(try store.object(Order.self, id: 3)?.parts.map(\.id) == ["r"])
  }

  @Test func `A child that was changed here and elsewhere is a conflict of a versioned save`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(
      Vehicle(
        id: "a", year: 1, maker: Maker(id: "m", name: "old"), parts: [Part(id: "p", weight: 1)]))
    let read = try #require(try store.versionedObject(Vehicle.self, id: "a"))
    var car = read.object
    car.maker?.name = "mine"
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.save(Maker(id: "m", name: "theirs"))
    let conflict = #expect(throws: ObjectConflict<Maker>.self) {
      try store.save(car, ifUnchangedSince: read.version)
    }
    #expect(conflict?.attempted.name == "mine" && conflict?.stored?.object.name == "theirs")
    #expect(try store.object(Maker.self, id: "m")?.name == "theirs")
    // An object that was not changed here is in no conflict.
    var late = try #require(try store.versionedObject(Vehicle.self, id: "a"))
    car = late.object
    #expect(car.parts.count == 1)
    try other.save(Part(id: "p", weight: 2))
    car.maker?.name = "mine"
    car.parts.append(Part(id: "q", weight: 3))
    try store.save(car, ifUnchangedSince: late.version)
    late = try #require(try store.versionedObject(Vehicle.self, id: "a"))
    #expect(late.object.maker?.name == "mine" && late.object.parts.map(\.weight) == [2, 3])
    // Nor is it one of a save without a version.
    car = late.object
    car.maker?.name = "forced"
    try other.save(Maker(id: "m", name: "theirs"))
    try store.save(car)
    #expect(try store.object(Maker.self, id: "m")?.name == "forced")
  }

  @Test(arguments: readings.indices)
  func `A child that was read by itself, and changed here and elsewhere, is a conflict`(
    _ number: Int
  ) throws {
    let (name, read) = Self.readings[number]
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Vehicle(id: "first", year: 1, maker: Maker(id: "m", name: "old")))
    let before = try #require(try store.versionedObject(Vehicle.self, id: "first"))
    var maker = try #require(try read(store), "\(name)")
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.save(Maker(id: "m", name: "new"))
    let after = try #require(try store.versionedObject(Vehicle.self, id: "first"))
    #expect(before.version == after.version)
    maker.name = "mine"
    func expectConflict(_ id: String, _ version: ObjectVersion?) {
      let conflict = #expect(throws: ObjectConflict<Maker>.self, "\(name)") {
        try store.save(Vehicle(id: id, year: 2, maker: maker), ifUnchangedSince: version)
      }
      #expect(conflict?.attempted.name == "mine" && conflict?.stored?.object.name == "new")
    }
    if number % 2 == 0 {
      // The parent was read before the change, and another thread has read the newest state.
      #expect(try store.object(Maker.self, id: "m")?.name == "new")
      expectConflict("first", before.version)
    } else if number % 4 == 1 {
      // The parent was read after the change.
      expectConflict("first", after.version)
    } else {
      // The parent is new.
      expectConflict("second", nil)
    }
    #expect(try other.object(Maker.self, id: "m")?.name == "new")
    #expect(try other.objects(Vehicle.self).fetch().map(\.year) == [1])
    // What was read last is changed and stored, and so is what a plain save overwrites.
    let now = try #require(try store.versionedObject(Vehicle.self, id: "first"))
    maker = try #require(try store.object(Maker.self, id: "m"))
    maker.name = "next"
    try store.save(Vehicle(id: "first", year: 3, maker: maker), ifUnchangedSince: now.version)
    #expect(try other.object(Maker.self, id: "m")?.name == "next")
    try other.save(Maker(id: "m", name: "theirs"))
    maker.name = "forced"
    try store.save(Vehicle(id: "first", year: 4, maker: maker))
    #expect(try other.object(Maker.self, id: "m")?.name == "forced")
  }

  @Test func `Children that no other has changed are in no conflict of a versioned save`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try store.save(Vehicle(id: "a", year: 1, maker: Maker(id: "m", name: "old")))
    var maker = try #require(try store.object(Maker.self, id: "m"))
    maker.name = "saved"
    try store.save(maker)
    var version = try #require(try store.versionedObject(Vehicle.self, id: "a")).version
    func save(_ name: String, id: String = "m") throws {
      let car = Vehicle(id: "a", year: 1, maker: Maker(id: id, name: name))
      version = try store.save(car, ifUnchangedSince: version)
      #expect(try other.object(Maker.self, id: id)?.name == name)
    }
    // Changed by this program, in several ways.
    try save("again")
    try save("and again")
    version = try store.write { transaction in
      try transaction.save(Maker(id: "m", name: "inside"))
      let read = try #require(try transaction.versionedObject(Vehicle.self, id: "a"))
      let car = Vehicle(id: "a", year: 1, maker: Maker(id: "m", name: "twice"))
      return try transaction.save(car, ifUnchangedSince: read.version)
    }
    try save("last")
    // Not read by this program.
    try other.save(Maker(id: "n", name: "theirs"))
    try save("mine", id: "n")
    // Deleted by this program, and by another.
    _ = try store.object(Maker.self, id: "n")
    try store.delete(Maker.self, id: "n")
    try save("new", id: "n")
    _ = try store.object(Maker.self, id: "n")
    try other.delete(Maker.self, id: "n")
    let conflict = #expect(throws: ObjectConflict<Maker>.self) { try save("lost", id: "n") }
    #expect(conflict != nil && conflict?.stored == nil)
    try save("lost", id: "n")
    // Kept on request.
    try other.save(Maker(id: "n", name: "kept"))
    try store.save(
      Vehicle(id: "a", year: 1, maker: Maker(id: "n", name: "other")), ifUnchangedSince: version,
      children: .insertIfAbsent)
    #expect(try other.object(Maker.self, id: "n")?.name == "kept")
  }

  @Test func `A query that returns no objects reads none, so their states are stored as new`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let other = try ObjectStore(at: ground.path, StoreOptions())
    let makers = store.objects(Maker.self)
    let queries: [() throws -> Int] = [
      { try makers.filter { $0.name == "old" }.count() },
      { try makers.filter { $0.name == "old" }.exists() ? 1 : 0 },
      { try makers.filter { $0.name == "old" }.delete() },
    ]
    for query in queries {
      try other.save(Maker(id: "m", name: "old"))
      #expect(try query() == 1)
      try other.save(Maker(id: "m", name: "new"))
      try store.save(Vehicle(id: "v", year: 1, maker: Maker(id: "m", name: "old")))
      #expect(try other.object(Maker.self, id: "m")?.name == "old")
    }
  }
}
