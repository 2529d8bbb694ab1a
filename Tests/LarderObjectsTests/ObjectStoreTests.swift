// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite struct ObjectStoreTests {
  @Test func `A store of objects is durable, whatever other options it is opened with`() throws {
    let directory = try TemporaryDirectory()
    for (name, options) in [
      ("plain", StoreOptions()), ("events", StoreOptions(onEvent: { _ in })),
      ("set", StoreOptions(durability: .cache)),
    ] {
      let path = directory.appending(name)
      try ObjectStore(at: path, options).close()
      #expect(try SharedStore.durability(ofStoreAt: path) == (name == "set" ? .cache : .durable))
    }
    try SharedStore(at: directory.appending("shared"), StoreOptions()).close()
    #expect(try SharedStore.durability(ofStoreAt: directory.appending("shared")) == .cache)
  }

  @Test(.timeLimit(.minutes(60)))
  func `An object is stored completely under any id, and replaced by its id`() throws {
    let ground = try StoreFixture()
    let ids = ["", "a/b", "../..", "é", "e\u{302}", String(repeating: "x", count: 10_000), "a\0b"]
    for (index, id) in ids.enumerated() {
      try ground.store.save(Car(id: id, model: "m\(index)", year: index))
    }
    for (index, id) in ids.enumerated() {
      #expect(try ground.store.object(Car.self, id: id)?.year == index)
    }
    try ground.store.save(Car(id: "a/b", model: "new", year: 99))
    #expect(try ground.store.object(Car.self, id: "a/b")?.model == "new")
    #expect(try ground.store.objects(Car.self).count() == ids.count)
    // The order is that of the first save.
    #expect(try ground.store.objects(Car.self).fetch().map(\.id) == ids)
    #expect(try ground.store.delete(Car.self, id: ""))
    #expect(try !ground.store.delete(Car.self, id: ""))
    #expect(try ground.store.object(Car.self, id: "") == nil)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)), arguments: [200_000, 20_000_000])
  func `A large object is stored in chunks and read as written`(size: Int) throws {
    let ground = try StoreFixture()
    let car = Car(id: "big", model: String(repeating: "long ", count: size / 5), year: 1)
    try ground.store.save(car)
    #expect(try ground.store.storage.verify() == [])
    ground.store.close()
    #expect(try SharedStore.repair(at: ground.path).outcome == .sound)
    let again = try ObjectStore(at: ground.path)
    #expect(try again.object(Car.self, id: "big") == car)
    #expect(try again.objects(Car.self).where(\.model == car.model).fetch() == [car])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Every write has a variant that suspends, with the same result`() async throws {
    let ground = try StoreFixture()
    let store = ground.store
    func ids() throws -> [String] { try store.objects(Car.self).fetch().map(\.id) }
    try await store.save((0..<9).map { Car(id: "\($0)", model: "m", year: $0) })
    #expect(try await store.delete(Car.self, id: "0"))
    #expect(try await !store.delete(Car(id: "0", model: "", year: 0)))
    #expect(try await store.delete([Car(id: "1", model: "", year: 0)]) == 1)
    #expect(try await store.delete(Car.self, ids: ["2", "none"]) == 1)
    #expect(try await store.objects(Car.self).where(\.year == 3).delete() == 1)
    #expect(try ids() == ["4", "5", "6", "7", "8"])
    try await store.merge([Car(id: "4", model: "m", year: 4)], into: \.year <= 6)
    #expect(try ids() == ["4", "7", "8"])
    try await store.merge(with: [Car(id: "8", model: "m", year: 8)])
    #expect(try ids() == ["8"])
    try await store.deleteAll(Car.self)
    #expect(try ids() == [])
    try await store.save(Car(id: "1", model: "m", year: 1))
    try await store.reset()
    #expect(try ids() == [])
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A unique key is had by one object, also inside a batch`() throws {
    let ground = try StoreFixture()
    try ground.store.save(Plate(id: 1, text: "A"))
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save([Plate(id: 2, text: "B"), Plate(id: 3, text: "A")])
    }
    #expect(error?.code == .uniqueViolation && error?.ids == ["3", "1"] && error?.index == "text")
    #expect(try ground.store.objects(Plate.self).count() == 1)
    // Its own key may be kept, and one that is given up taken.
    try ground.store.save(Plate(id: 1, text: "A"))
    try ground.store.save(Plate(id: 1, text: "C"))
    try ground.store.save([Plate(id: 3, text: "A"), Plate(id: 4), Plate(id: 5)])
    #expect(try ground.store.objects(Plate.self).count() == 4)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Deleting all of a type leaves the others, and is one step`() throws {
    let ground = try StoreFixture()
    try ground.store.save((0..<50).map { Car(id: "\($0)", model: "m", year: $0) })
    try ground.store.save(Plate(id: 1, text: "A"))
    try ground.store.deleteAll(Car.self)
    #expect(try ground.store.objects(Car.self).fetch() == [])
    #expect(try ground.store.object(Car.self, id: "3") == nil)
    #expect(try ground.store.objects(Plate.self).count() == 1)
    try ground.store.save(Car(id: "3", model: "again", year: 1))
    #expect(try ground.store.objects(Car.self).where(\.year == 1).fetch().count == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A reset deletes all objects for every process and keeps the declared types`()
    throws
  {
    let ground = try StoreFixture()
    let other = try ObjectStore(at: ground.path)
    let file = File(id: "1", format: Format(id: "text"))
    try ground.store.save(file)
    try ground.store.setBudget(ObjectBudget(count: 3), for: Car.self)
    try ground.store.save((0..<5).map { Car(id: "\($0)", model: "m", year: $0) })
    let cars = other.objects(Car.self).where(\.year >= 0)
    #expect(try cars.fetch().count == 3)
    #expect(try other.object(File.self, id: "1") == file)
    // No rule keeps anything: what refers goes as well.
    #expect(throws: ObjectError.self) { try ground.store.delete(Format.self, id: "text") }
    try ground.store.reset()
    #expect(try cars.fetch() == [])
    #expect(try other.object(File.self, id: "1") == nil)
    #expect(try other.objects(Format.self).count() == 0)
    #expect(try other.usage(of: Car.self).budget == ObjectBudget(count: 3))
    try other.save((0..<5).map { Car(id: "\($0)", model: "n", year: $0) })
    #expect(try cars.fetch().map(\.model) == ["n", "n", "n"])
    #expect(try other.delete(try cars.fetch()) == 3)
    #expect(try cars.count() == 0)
    #expect(try other.storage.verify() == [])
    // A store without types has no objects to delete.
    let empty = try StoreFixture()
    try empty.store.reset()
  }

  @Test(.timeLimit(.minutes(60)))
  func `Merging replaces what fits and leaves the rest`() throws {
    let ground = try StoreFixture()
    try ground.store.save((0..<10).map { Car(id: "\($0)", model: "m", year: $0) })
    try ground.store.merge(
      [Car(id: "2", model: "kept", year: 2), Car(id: "20", model: "new", year: 20)],
      into: \.year < 5)
    #expect(
      try ground.store.objects(Car.self).fetch().map(\.id) == ["2", "5", "6", "7", "8", "9", "20"])
    try ground.store.merge(with: [Car(id: "9", model: "only", year: 9)])
    #expect(try ground.store.objects(Car.self).fetch().map(\.model) == ["only"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A transaction over types is all or nothing, and sees itself`() throws {
    let ground = try StoreFixture()
    struct Stop: Error {}
    #expect(throws: Stop.self) {
      try ground.store.write { transaction in
        try transaction.save(Car(id: "1", model: "m", year: 1))
        try transaction.save(Plate(id: 1, text: "A"))
        #expect(try transaction.object(Car.self, id: "1") != nil)
        throw Stop()
      }
    }
    #expect(try ground.store.objects(Car.self).count() == 0)
    #expect(try ground.store.objects(Plate.self).count() == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A kept query gives its result again until something changes`() throws {
    let ground = try StoreFixture()
    let other = try ObjectStore(at: ground.path)
    let query = ground.store.objects(Car.self).where(\.year >= 5)
    #expect(try query.fetch() == [])
    for year in 0..<10 {
      try other.save(Car(id: "\(year)", model: "m", year: year))
      #expect(try query.fetch().count == Swift.max(year - 4, 0))
      #expect(try query.count() == Swift.max(year - 4, 0))
    }
  }
}
