// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderArchive
import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Testing

// What Vellum and Papyrus were seen to do wrong, done here. M5 is in `LarderProcessTests`; M23 is in
// `LarderObjectsTests` too.

private struct Scrap: CodableArchivable, Equatable {
  var key: String
  var text: String
  var primaryKey: String { key }
  static let archiveName = "Scrap"
}

private struct Car: Storable, Equatable {
  let id: String
  var model: String
  static let storedName = "Car"
}

private enum V1 {
  struct Car: Storable, Equatable {
    let id: String
    var model: String
    static let storedName = "V1.Car"
  }
}

private enum V2 {
  struct Car: Storable, Equatable {
    let id: String
    var model: String
    var year: Int
    static let storedName = "V2.Car"
  }
}

/// Dates as text, by a custom coder.
private struct Visit: Storable, Equatable {
  let id: Int
  var date: Date
  static let storedName = "Visit"

  init(id: Int, date: Date) {
    self.id = id
    self.date = date
  }

  enum CodingKeys: CodingKey { case id, date }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    let text = try container.decode(String.self, forKey: .date)
    date = try Date(text.isEmpty ? "1970-01-01T00:00:00Z" : text, strategy: .iso8601)
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id, forKey: .id)
    try container.encode(date.formatted(.iso8601), forKey: .date)
  }
}

@Suite struct PapyrusDefectTests {
  @Test(.timeLimit(.minutes(60)))
  func `M6: a stream survives concurrent saves and a deletion, and delivers them`() async throws {
    for _ in 0..<20 {
      let ground = try StoreFixture()
      try await ground.store.save(Car(id: "1", model: "a"))
      var states = ground.store.values(of: Car.self, id: "1").makeAsyncIterator()
      #expect(try await states.next() == .some(Car(id: "1", model: "a")))
      try await ground.store.save(Car(id: "1", model: "b"))
      #expect(try await states.next() == .some(Car(id: "1", model: "b")))
      try await ground.store.delete(Car.self, id: "1")
      let last = try await states.next()
      #expect(last == .some(nil))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `M7: a read of what does not decode deletes nothing`() throws {
    struct Wrong: Storable {
      let id: String
      var model: Int
      static let storedName = "Thing"
    }
    struct Right: Storable, Equatable {
      let id: String
      var model: String
      static let storedName = "Thing"
    }
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    try ground.store.save([Right(id: "1", model: "a"), Right(id: "2", model: "b")])
    #expect(throws: ObjectError.self) { try ground.store.object(Wrong.self, id: "1") }
    #expect(throws: ObjectError.self) { try ground.store.objects(Wrong.self).fetch() }
    #expect(try ground.store.objects(Right.self).fetch().count == 2)
  }

  @Test(.timeLimit(.minutes(60)))
  func `M8: an id with slashes or dots is stored like any other, inside the store`() throws {
    let ground = try StoreFixture()
    let ids = ["a/b", "../Escaped", "", ".", String(repeating: "x", count: 5000)]
    let before = try Set(FileManager.default.contentsOfDirectory(atPath: ground.directory.path))
    try ground.store.save(ids.map { Car(id: $0, model: $0) })
    for id in ids { #expect(try ground.store.object(Car.self, id: id)?.model == id) }
    let users = try CacheManager<User>(ground.store)
    for id in ids { users.insert(User(name: id, age: 1)) }
    #expect(users.getAll().map(\.name) == ids)
    #expect(
      try Set(FileManager.default.contentsOfDirectory(atPath: ground.directory.path)) == before)
  }

  @Test(.timeLimit(.minutes(60)))
  func `M9: a type's own coding applies to queries and to reads by id`() throws {
    let ground = try StoreFixture()
    let events = try CacheManager<Event>(ground.store)
    let days = (0..<5).map { Date(timeIntervalSince1970: Double($0) * 86400) }
    let all = days.enumerated().map { Event(name: "\($0)", date: $1) }
    events.insert(all: all)
    let limit = days[2]
    #expect(events.findWhere.date(greater(than: limit)).getResults() == Array(all[3...]))
    let visits = days.enumerated().map { Visit(id: $0, date: $1) }
    try ground.store.save(visits)
    // Read from the store, not from memory.
    let again = ObjectStore(ground.shared)
    #expect(try again.objects(Visit.self).where(\.date > limit).fetch() == Array(visits[3...]))
    #expect(try CacheManager<Event>(again).getAll() == all)
  }

  @Test(.timeLimit(.minutes(60)))
  func `M10: types of one name never mix, and one is migrated to the other completely`() throws {
    let ground = try StoreFixture()
    let old = [V1.Car(id: "1", model: "a"), V1.Car(id: "2", model: "b")]
    try ground.store.save(old)
    #expect(try ground.store.objects(V2.Car.self).fetch() == [])
    let step = ObjectMigration.objects("cars") { (car: V1.Car) in
      V2.Car(id: car.id, model: car.model, year: 0)
    }
    try ground.store.migrate([step])
    #expect(
      try ground.store.objects(V2.Car.self).fetch()
        == old.map { V2.Car(id: $0.id, model: $0.model, year: 0) })
  }

  @Test(.timeLimit(.minutes(60)))
  func `M11: the order is that of the first save, however fast`() throws {
    let ground = try StoreFixture()
    let ids = (0..<200).map { "\(($0 * 7919) % 200)" }
    for id in ids { try ground.store.save(Car(id: id, model: "m")) }
    for id in ids.reversed() { try ground.store.save(Car(id: id, model: "n")) }
    #expect(try ground.store.objects(Car.self).fetch().map(\.id) == ids)
  }
}

@Suite struct VellumDefectTests {
  @Test(.timeLimit(.minutes(60)))
  func `M21: what is old is deleted, and what is fresh is kept`() throws {
    let clock = ManualClock()
    clock.set(to: 1_700_000_000_000)
    let ground = try StoreFixture(StoreOptions(clock: StoreClock { clock.now }))
    let users = try CacheManager<User>(ground.store)
    users.insert(all: [User(name: "old", age: 1), User(name: "used", age: 1)])
    clock.advance(by: .seconds(7200))
    users.insert(User(name: "fresh", age: 1))
    #expect(users.get(objectWithKey: "used") != nil)
    users.removeAllInvalidateObject(invalidateTimeInterval: 3600)
    #expect(users.getAll().map(\.name) == ["used", "fresh"])
    #expect(
      users.latestAccessedTime(for: "fresh") == Date(timeIntervalSince1970: 1_700_007_200))
  }

  @Test(.timeLimit(.minutes(60)), arguments: [Double.infinity, 1e300, -1, -.infinity, .nan])
  func `An interval beyond all bounds, or that is not a number, ends no process`(
    interval: Double
  ) throws {
    let clock = ManualClock()
    clock.set(to: 1_700_000_000_000)
    let ground = try StoreFixture(StoreOptions(clock: StoreClock { clock.now }))
    let users = try CacheManager<User>(ground.store)
    users.insert(User(name: "old", age: 1))
    clock.advance(by: .seconds(7200))
    users.removeAllInvalidateObject(invalidateTimeInterval: interval)
    #expect(users.getAll().map(\.name) == (interval < 0 ? [] : ["old"]))
    if interval.isNaN {
      let error = #expect(throws: StoreError.self) {
        try users.throwing.removeAll(unusedFor: interval)
      }
      #expect(error?.code == .invalidOption)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `M22: a limit of four of six gives four`() throws {
    let ground = try StoreFixture()
    let users = try CacheManager<User>(ground.store)
    users.insert(all: (0..<6).map { User(name: "\($0)", age: $0) })
    // Not from memory.
    let again = try CacheManager<User>(ObjectStore(ground.shared))
    #expect(again.getAll(limitedBy: 4).map(\.age) == [0, 1, 2, 3])
    #expect(again.getAll(limitedBy: 10).count == 6 && again.getAll(limitedBy: 0) == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `M23: sizes stay right through replacement, and what is too large is refused`() throws {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let users = try CacheManager<User>(ground.store, maxSize: 3072)
    users.insert(User(name: "a", age: 1, city: String(repeating: "x", count: 300)))
    users.insert(User(name: "a", age: 1))
    users.delete(objectWithKey: "a")
    #expect(users.currentSize == 0)
    let large = User(name: "b", age: 1, city: String(repeating: "x", count: 10_000))
    let error = #expect(throws: ObjectError.self) { try users.throwing.insert(large) }
    #expect(error?.code == .tooLarge)
    users.insert(large)
    #expect(users.currentSize == 0 && users.getAll() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `M24: what is read from memory all the time is not evicted from the disk`() throws {
    let ground = try StoreFixture()
    let users = try CacheManager<User>(ground.store, maxSize: 4096)
    users.insert(User(name: "hot", age: 1))
    for index in 0..<500 {
      #expect(users.get(objectWithKey: "hot") != nil)
      users.insert(User(name: "cold \(index)", age: index))
    }
    #expect(users.currentSize <= 4096)
    let again = try CacheManager<User>(ObjectStore(ground.shared))
    #expect(again.get(objectWithKey: "hot") != nil)
    #expect(again.get(objectWithKey: "cold 0") == nil)
  }

  @Test(.timeLimit(.minutes(60)))
  func `M25: a second manager or process sees each write and serves nothing deleted`() throws {
    let ground = try StoreFixture(StoreOptions(durability: .durable))
    let scraps = try CacheManager<Scrap>(ground.store)
    let second = try CacheManager<Scrap>(
      ObjectStore(at: ground.path))
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("people \(ground.path)") == "opened")
    for round in 0..<50 {
      scraps.insert(Scrap(key: "k", text: "here\(round)"))
      #expect(second.get(objectWithKey: "k")?.text == "here\(round)")
      #expect(try peer.ask("archived k") == "value here\(round)")
      #expect(try peer.ask("archive k there\(round)") == "ok")
      #expect(scraps.get(objectWithKey: "k")?.text == "there\(round)")
      #expect(second.getAll().map(\.text) == ["there\(round)"])
      #expect(try peer.ask("unarchive k") == "ok")
      #expect(scraps.get(objectWithKey: "k") == nil && second.getAll() == [])
    }
    peer.closeInput()
    #expect(try peer.wait() == .exited(0))
  }
}
