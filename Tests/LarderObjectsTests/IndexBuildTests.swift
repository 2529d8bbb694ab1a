// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
internal import LarderObjectEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

// Two declarations of one stored type, as two versions of a program have them.

struct PlainBook: Storable, Equatable {
  let id: Int
  var title: String
  static let storedName = "Book"
}

struct IndexedBook: Storable, Equatable {
  let id: Int
  var title: String
  static let storedName = "Book"
  static let indexes = [Index<IndexedBook>("title", \.title)]
}

struct UniqueBook: Storable, Equatable {
  let id: Int
  var title: String
  static let storedName = "Book"
  static let indexes = [Index<UniqueBook>("title", \.title, unique: true)]
}

struct NewerBook: Storable, Equatable {
  let id: Int
  var title: String
  static let storedName = "Book"
  static let schemaVersion = 2
}

struct TwiceIndexed: Storable {
  let id: Int
  static let indexes = [Index<TwiceIndexed>("id", \.id), Index<TwiceIndexed>("id", \.id)]
}

@Suite struct IndexBuildTests {
  @Test(.timeLimit(.minutes(60)))
  func `A program that does not declare a unique index cannot write past it`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(UniqueBook(id: 1, title: "a"))
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save(PlainBook(id: 2, title: "b"))
    }
    #expect(error?.code == .schemaMismatch && error?.index == "title")
    #expect(error?.message.contains("unique index \"title\"") == true)
    #expect(try ground.store.object(PlainBook.self, id: 1)?.title == "a")
  }

  /// A store with two programs: one declares an index on the title, the other does not.
  private func programs() throws -> (ground: StoreFixture, newer: ObjectStore, older: ObjectStore) {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<20).map { IndexedBook(id: $0, title: "t\($0 % 2)") })
    return (ground, ground.store, try ObjectStore(at: ground.path, StoreOptions()))
  }

  private func ids(_ title: String, _ store: ObjectStore) throws -> [Int] {
    try store.objects(IndexedBook.self).where(\.title == title).fetch().map(\.id)
  }

  private func isIndexed(_ store: ObjectStore) throws -> Bool {
    try store.objects(IndexedBook.self).where(\.title == "t0").explain().hasPrefix("scan index")
  }

  /// The objects with a note, as the files have them.
  private func noted(_ store: ObjectStore) throws -> [UInt64] {
    try store.storage.core.withSnapshot("test") { snapshot in
      guard let record = try ObjectReading.type(named: "Book", snapshot) else { return [] }
      return try ObjectReading.noted(
        record.notes(for: record.indexes), limit: .max, in: snapshot)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Objects saved by a program without an index are indexed before the index answers`() throws {
    let (ground, newer, older) = try programs()
    defer { withExtendedLifetime(ground) {} }
    for round in 0..<3 {
      try older.save([
        PlainBook(id: 3, title: "new\(round)"), PlainBook(id: 100 + round, title: "new\(round)"),
      ])
      try older.save(PlainBook(id: 200, title: "gone"))
      try older.delete(PlainBook.self, ids: [4, 200])
      #expect(try ids("new\(round)", newer) == [3, 100 + round])
      #expect(try ids("t1", newer) == [1, 5, 7, 9, 11, 13, 15, 17, 19])
      #expect(try ids("gone", newer) == [])
      #expect(try ids("t0", newer) == [0, 2, 6, 8, 10, 12, 14, 16, 18])
      try newer.prepare(IndexedBook.self)
      #expect(try isIndexed(newer))
      #expect(try noted(newer) == [])
      #expect(try ids("new\(round)", newer) == [3, 100 + round])
      #expect(try ids("t1", newer) == [1, 5, 7, 9, 11, 13, 15, 17, 19])
      #expect(try newer.storage.verify() == [])
    }
    // A save of the same object changes nothing, and an object saved by the newer program is whole.
    try older.save(PlainBook(id: 5, title: "t1"))
    #expect(try isIndexed(newer))
    newer.close()
    try older.save(PlainBook(id: 6, title: "alone"))
    #expect(try noted(older).count == 1)
    let again = try ObjectStore(at: ground.path, StoreOptions())
    #expect(try ids("alone", again) == [6])
    try again.prepare(IndexedBook.self)
    #expect(try isIndexed(again) && ids("alone", again) == [6])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A save without an index costs the index that object only`() throws {
    let gate = Gate()
    let ground = try StoreFixture(
      StoreOptions(onEvent: { event in
        if case .indexBuilding(_, _, let done, _) = event { gate.append(done) }
      }))
    let newer = ground.store
    let older = try ObjectStore(at: ground.path, StoreOptions())
    try newer.save((0..<3000).map { IndexedBook(id: $0, title: "t\($0)") })
    #expect(gate.all == [])
    try older.save(PlainBook(id: 7, title: "t8"))
    try newer.prepare(IndexedBook.self)
    #expect(gate.all == [3000])
    #expect(try ids("t8", newer) == [7, 8])
    #expect(try ids("t7", newer) == [])
  }

  private final class Gate: Sendable {
    private let steps = Mutex<[Int]>([])
    var all: [Int] { steps.withLock { $0 } }
    func append(_ step: Int) { steps.withLock { $0.append(step) } }
  }

  private struct NumberedBook: Storable {
    let id: Int
    var title: String
    static let storedName = "Book"
    static let indexes = [Index<NumberedBook>("number", \.id)]
  }

  @Test(.timeLimit(.minutes(60)))
  func `Programs that each declare another index write side by side`() throws {
    let (ground, newer, other) = try programs()
    defer { withExtendedLifetime(ground) {} }
    for round in 0..<3 {
      try other.save(NumberedBook(id: 30 + round, title: "x"))
      try newer.save(IndexedBook(id: 40 + round, title: "x"))
      try newer.prepare(IndexedBook.self)
      try other.prepare(NumberedBook.self)
      let numbers = other.objects(NumberedBook.self).where(\.id >= 30)
      #expect(try numbers.explain().hasPrefix("scan index \"number\""))
      #expect(
        try numbers.fetch().map(\.id).sorted() == Array(30...30 + round) + Array(40...40 + round))
      #expect(try isIndexed(newer))
      #expect(try ids("x", newer).sorted() == Array(30...30 + round) + Array(40...40 + round))
      #expect(try newer.storage.verify() == [])
    }
  }

  private struct LentBook: Storable, Equatable {
    let id: Int
    var title: String
    var isLent: Bool
    static let storedName = "Book"
    static let schemaVersion = 2
    static let indexes = [Index<LentBook>("title", \.title)]
  }

  @Test(.timeLimit(.minutes(60)))
  func `Notes of objects without index keys survive a migration and a repair`() throws {
    let (ground, newer, older) = try programs()
    defer { withExtendedLifetime(ground) {} }
    newer.close()
    try older.save(PlainBook(id: 3, title: "new"))
    older.close()
    _ = try SharedStore.repair(at: ground.path)
    let store = try ObjectStore(
      at: ground.path, StoreOptions(),
      migrations: [.addField("isLent", default: false, in: "Book", toVersion: 2)])
    #expect(try noted(store).count == 1)
    let query = store.objects(LentBook.self).where(\.title == "new")
    #expect(try query.fetch().map(\.id) == [3])
    try store.prepare(LentBook.self)
    #expect(try query.explain().hasPrefix("scan index"))
    #expect(try query.fetch().map(\.id) == [3])
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A type of a newer version is an error, and raising it drops what is not declared`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(IndexedBook(id: 1, title: "a"))
    try ground.store.save(NewerBook(id: 2, title: "b"))
    for attempt in [
      { _ = try ground.store.object(IndexedBook.self, id: 1) },
      { try ground.store.save(IndexedBook(id: 3, title: "c")) },
    ] {
      #expect(throws: ObjectError.self, performing: attempt)
    }
    #expect(try ground.store.objects(NewerBook.self).count() == 2)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Objects that break a new unique index are named`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save([PlainBook(id: 1, title: "same"), PlainBook(id: 2, title: "same")])
    let error = #expect(throws: ObjectError.self) { try ground.store.prepare(UniqueBook.self) }
    #expect(error?.code == .uniqueViolation && Set(error?.ids ?? []) == ["1", "2"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Programs that disagree whether an index is unique do not undo each other's`() throws {
    let ground = try StoreFixture(StoreOptions())
    let books = [UniqueBook(id: 1, title: "a"), UniqueBook(id: 2, title: "b")]
    try ground.store.save(books)
    for _ in 0..<2 {
      for attempt in [
        { try ground.store.save(IndexedBook(id: 3, title: "c")) },
        { try ground.store.prepare(IndexedBook.self) },
      ] {
        let error = #expect(throws: ObjectError.self, performing: attempt)
        #expect(error?.code == .schemaMismatch && error?.index == "title")
        #expect(error?.message.contains("\"title\" is unique") == true)
        #expect(error?.message.contains("raise schemaVersion") == true)
      }
      // Reading does without the index, and explains why.
      let scan = ground.store.objects(IndexedBook.self).where(\.title == "b")
      #expect(try scan.fetch().count == 1)
      #expect(try scan.explain().hasPrefix("scan all"))
    }
    let walk = ground.store.objects(UniqueBook.self).where(\.title == "b")
    #expect(try walk.explain().hasPrefix("scan index \"title\""))
    try ground.store.save(IndexedBook2(id: 3, title: "a"))
    #expect(try ground.store.objects(IndexedBook2.self).count() == 3)
    #expect(try ground.store.storage.verify() == [])
  }

  private struct IndexedBook2: Storable {
    let id: Int
    var title: String
    static let storedName = "Book"
    static let schemaVersion = 2
    static let indexes = [Index<IndexedBook2>("title", \.title)]
  }

  @Test(.timeLimit(.minutes(60)))
  func `An index declared twice is an error`() throws {
    let ground = try StoreFixture(StoreOptions())
    let error = #expect(throws: ObjectError.self) { try ground.store.save(TwiceIndexed(id: 1)) }
    #expect(error?.code == .invalidSchema && error?.index == "id")
  }
}
