// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
internal import LarderObjectEngine
import LarderObjects
import LarderTesting
import Testing

/// One stored type, as two programs of one version declare it: one of them lacks a field.
private struct Rich: Storable, Equatable {
  let id: Int
  var name: String
  var note: String?
  @HasOne var owner: Person? = nil
  static let storedName = "schema.Thing"
  static let relationships = [Relationship<Rich>(\.$owner, onTargetDelete: .nullify)]
}

private struct Poor: Storable, Equatable {
  let id: Int
  var name: String
  @HasOne var owner: Person? = nil
  static let storedName = "schema.Thing"
  static let relationships = [Relationship<Poor>(\.$owner, onTargetDelete: .nullify)]
}

private struct PoorIndexed: Storable, Equatable {
  let id: Int
  var name: String
  @HasOne var owner: Person? = nil
  static let storedName = "schema.Thing"
  static let indexes = [Index<PoorIndexed>("name", \.name)]
}

private struct PoorUnique: Storable, Equatable {
  let id: Int
  var name: String
  @HasOne var owner: Person? = nil
  static let storedName = "schema.Thing"
  static let indexes = [Index<PoorUnique>("unique name", \.name, unique: true)]
}

/// A newer version, which gave the field up.
private struct Newer: Storable, Equatable {
  let id: Int
  var name: String
  @HasOne var owner: Person? = nil
  static let storedName = "schema.Thing"
  static let schemaVersion = 2
  static let indexes = [Index<Newer>("name", \.name)]
}

private struct FullName: Storable, Equatable {
  let id: Int
  var first: String
  var last: String
  static let storedName = "schema.Name"
}

private struct FirstName: Storable, Equatable {
  let id: Int
  var first: String
  static let storedName = "schema.Name"
}

/// Writes a field only if there is something to write.
private struct Sparse: Storable, Equatable {
  let id: Int
  var value: Int?
  static let storedName = "Sparse"

  enum CodingKeys: CodingKey { case id, value }

  init(id: Int, value: Int?) { (self.id, self.value) = (id, value) }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    value = container.contains(.value) ? try container.decode(Int.self, forKey: .value) : nil
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id, forKey: .id)
    if let value { try container.encode(value, forKey: .value) }
  }
}

private struct PaintedInNumbers: Storable {
  let id: Int
  var colour: Int
  var size: Double
  static let storedName = "Painted"
}

private struct TruckV1: Storable {
  let id: Int
  var name: String
  var year: Int
  static let storedName = "schema.Truck"
  static let indexes = [Index<TruckV1>("name", \.name), Index("year", \.year, unique: true)]
}

private struct TruckV2: Storable {
  let id: Int
  var name: String
  var year: Int
  var wheels: Int
  static let storedName = "schema.Truck"
  static let schemaVersion = 2
  static let indexes = [Index<TruckV2>("wheels", \.wheels), Index("year", \.year)]
}

private struct TruckWithoutIndex: Storable {
  let id: Int
  var name: String
  var year: Int
  var wheels: Int
  static let storedName = "schema.Truck"
  static let schemaVersion = 2
}

private struct Lorry: Storable {
  let id: Int
  var name: String
  var year: Int
  var wheels: Int
  static let storedName = "schema.Lorry"
  static let schemaVersion = 2
}

private struct First: Storable {
  let id: Int
  static let storedName = "schema.Versions"
}

private struct TooNew: Storable {
  let id: Int
  static let storedName = "schema.Versions"
  static let schemaVersion = 1 << 40
}

private struct Negative: Storable {
  let id: Int
  static let storedName = "schema.Versions"
  static let schemaVersion = -7
}

private struct Boxed<Value: Codable & Sendable>: Storable {
  let id: Int
  var value: Value?
}

@Suite struct SchemaTests {
  @Test(.timeLimit(.minutes(60)))
  func `An optional field more in the same version is written, and survives older saves`() throws {
    let ground = try StoreFixture(StoreOptions())
    let older = try ObjectStore(at: ground.path, StoreOptions())
    try older.save(Years.people(0..<3))
    #expect(try ground.store.objects(PersonWithMail.self).count() == 3)
    #expect(try ground.store.object(PersonWithMail.self, id: 1)?.mail == nil)
    let mailed = PersonWithMail(id: 1, name: "n1", age: "1", mail: "m")
    try ground.store.save(mailed)
    for name in ["changed", "again", "n1"] {
      try older.save(PersonV1(id: 1, name: name, age: "1"))
      let read = try #require(try ground.store.object(PersonWithMail.self, id: 1))
      #expect(read == PersonWithMail(id: 1, name: name, age: "1", mail: "m"))
    }
    // The program that declares the field may remove it, also in one that only reads it.
    try ground.store.save(PersonWithMail(id: 1, name: "n1", age: "1"))
    #expect(try ground.store.object(PersonWithMail.self, id: 1)?.mail == nil)
    #expect(try older.objects(PersonV1.self).fetch() == Years.people(0..<3))
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A field that others need keeps a program without it from saving`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(FullName(id: 1, first: "a", last: "b"))
    let older = try ObjectStore(at: ground.path, StoreOptions())
    let error = #expect(throws: ObjectError.self) {
      try older.save(FirstName(id: 1, first: "c"))
    }
    #expect(error?.code == .schemaMismatch)
    #expect(error?.message.contains("stored last: text") == true, "\(error!)")
    #expect(try older.objects(FirstName.self).fetch().map(\.first) == ["a"])
    #expect(
      try ground.store.objects(FullName.self).fetch() == [FullName(id: 1, first: "a", last: "b")])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A field that a type writes only sometimes is the same declaration`() throws {
    let ground = try StoreFixture(StoreOptions())
    let values: [Int?] = [nil, 3, nil, 4, 5]
    for (id, value) in values.enumerated() {
      // A store each, as programs that start again.
      let store = try ObjectStore(at: ground.path, StoreOptions())
      try store.save(Sparse(id: id, value: value))
      try store.save(Sparse(id: 0, value: value))
    }
    #expect(try ground.store.object(Sparse.self, id: 0)?.value == 5)
    let all = try ground.store.objects(Sparse.self).fetch().map(\.value)
    #expect(all == [5, 3, nil, 4, 5])
    try ground.store.prepare(Sparse.self)
    // Removed by a program that has not written it yet.
    let last = try ObjectStore(at: ground.path, StoreOptions())
    try last.save(Sparse(id: 0, value: nil))
    #expect(try ground.store.object(Sparse.self, id: 0)?.value == .some(nil))
  }

  @Test(.timeLimit(.minutes(60)))
  func `Another kind of field in the same version is never decoded wrongly`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<3))
    for attempt in [
      { _ = try ground.store.objects(PersonWithNumber.self).fetch() },
      { _ = try ground.store.object(PersonWithNumber.self, id: 1) },
      { try ground.store.save(PersonWithNumber(id: 1, name: "n1", age: 1)) },
    ] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .schemaMismatch)
      #expect(error?.message.contains("stored age: text, declared age: integer") == true)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A newer version that does not decode stored objects requires a migration`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<3))
    for attempt in [
      { _ = try ground.store.objects(PersonV2.self).fetch() },
      { try ground.store.save(PersonV2(id: 1, name: "n1", age: 1)) },
    ] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .schemaMismatch && error?.message.contains("migration") == true)
    }
    #expect(try ground.store.objects(PersonV1.self).count() == 3)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A newer version that decodes is raised by a write, and old programs may still read`() throws
  {
    let ground = try StoreFixture(StoreOptions())
    let old = try ObjectStore(at: ground.path, StoreOptions())
    // The second save caches the type's record.
    for _ in 0..<2 { try old.save(Years.people(0..<3)) }
    #expect(try ground.store.objects(PersonWithNote.self).count() == 3)
    try ground.store.save(PersonWithNote(id: 1, name: "n1", age: "1", note: "kept"))
    #expect(try old.object(PersonV1.self, id: 1)?.name == "n1")
    #expect(try old.objects(PersonV1.self).count() == 3)
    let error = #expect(throws: ObjectError.self) { try old.save(Years.people(1..<2)) }
    #expect(error?.code == .newerSchema)
    #expect(throws: ObjectError.self) { try old.delete(PersonV1.self, id: 1) }
    #expect(try ground.store.object(PersonWithNote.self, id: 1)?.note == "kept")
    // A migration to a version that was raised without it comes too late.
    let late = #expect(throws: ObjectError.self) { try ground.store.migrate([Years.step]) }
    #expect(late?.code == .migrationOrder)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A field of a type with its own form is compared by its form`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Painted(id: 1, colour: .green, size: 1.5))
    try ground.store.save(PaintedTwice(id: 1, colour: .red, size: 1.5, coats: 2))
    let other = try ObjectStore(at: ground.path, StoreOptions())
    let error = #expect(throws: ObjectError.self) {
      try other.save(PaintedInNumbers(id: 1, colour: 7, size: 1.5))
    }
    #expect(error?.code == .schemaMismatch)
    #expect(
      error?.message.contains("stored colour: enum(text), declared colour: integer") == true,
      "\(error!)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `A program that declares fewer fields loses none, whatever it prepares or deletes`() throws {
    let ground = try StoreFixture(StoreOptions())
    let rich = Rich(id: 1, name: "a", note: "kept", owner: Person(id: 1, name: "p"))
    try ground.store.save(rich)
    let indexing = try ObjectStore(at: ground.path, StoreOptions())
    let error = #expect(throws: ObjectError.self) { try indexing.prepare(PoorUnique.self) }
    #expect(error?.code == .schemaMismatch)
    #expect(error?.message.contains("stored note: text?") == true, "\(error!)")
    // The failed attempt declared nothing: earlier writers continue.
    try ground.store.save(rich)
    // An index that is not unique stops no other program.
    try indexing.prepare(PoorIndexed.self)
    try ground.store.save(Rich(id: 2, name: "b", note: "also"))
    let named = indexing.objects(PoorIndexed.self)
    #expect(try named.where(\.name == "b").fetch().map(\.id) == [2])
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.prepare(Poor.self)
    try other.delete(Person.self, id: 1)
    let left = try #require(try ground.store.object(Rich.self, id: 1))
    #expect(left.note == "kept" && left.$owner.id == nil)
    #expect(try named.where(\.name == "a").fetch().map(\.id) == [1])
    try indexing.prepare(PoorIndexed.self)
    #expect(try named.where(\.name == "a").explain().hasPrefix("scan index"))
    #expect(try named.where(\.name == "a").fetch().map(\.id) == [1])
    #expect(try named.where(\.name == "b").fetch().map(\.id) == [2])
    // A program that raises the version builds indexes without touching the fields.
    try other.prepare(Newer.self)
    #expect(try other.objects(Newer.self).where(\.name == "a").count() == 1)
    let stored = try other.storage.core.withSnapshot("test") { snapshot in
      let type = try #require(try ObjectReading.type(named: "schema.Thing", snapshot))
      return try ObjectReading.object(
        type: type.number, sequence: 1, in: snapshot)
    }
    #expect(stored.map { String(decoding: $0.bytes, as: UTF8.self).contains("kept") } == true)
    #expect(try other.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Versions out of range are a typed error`() throws {
    let ground = try StoreFixture(StoreOptions())
    for _ in 0..<2 {
      for attempt in [
        { try ground.store.save(TooNew(id: 1)) }, { try ground.store.save(Negative(id: 1)) },
        { try ground.store.deleteAll(TooNew.self) },
      ] { #expect(throws: ObjectError.self, performing: attempt) }
      try ground.store.save(First(id: 1))
    }
    #expect(try ground.store.objects(First.self).count() == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Two declarations of one name in one transaction keep each other's indexes`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.write { transaction in
      try transaction.save(IndexedBook(id: 3, title: "a"))
      try transaction.save(PlainBook(id: 4, title: "b"))
      let found = try transaction.fetch(
        ground.store.objects(IndexedBook.self).where(\.title == "b"))
      #expect(found.map(\.id) == [4])
      try transaction.delete(PlainBook.self, ids: [3, 4])
    }
    try ground.store.write { transaction in
      try transaction.save(PlainBook(id: 1, title: "a"))
      try transaction.save(IndexedBook(id: 2, title: "b"))
    }
    try ground.store.prepare(IndexedBook.self)
    #expect(try ground.store.objects(IndexedBook.self).where(\.title == "a").count() == 1)
    #expect(try ground.store.objects(IndexedBook.self).where(\.title == "b").count() == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A program that migrates fields without types and changes its indexes saves`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<5).map { TruckV1(id: $0, name: "n\($0)", year: 2000 + $0) })
    let later = try ObjectStore(
      at: ground.path, StoreOptions(),
      migrations: [.addField("wheels", default: 4, in: "schema.Truck", toVersion: 2)])
    try later.save(TruckV2(id: 9, name: "n9", year: 2009, wheels: 6))
    try later.prepare(TruckV2.self)
    let query = later.objects(TruckV2.self).where(\.wheels == 4)
    #expect(try query.explain().hasPrefix("scan index \"wheels\""))
    #expect(try query.count() == 5)
    // The older program's declaration is deleted, and another program of the version drops no
    // more.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.save(TruckWithoutIndex(id: 10, name: "", year: 1, wheels: 4))
    #expect(try query.count() == 6)
    try later.prepare(TruckV2.self)
    #expect(try query.explain().hasPrefix("scan index \"wheels\""))
    #expect(try query.count() == 6)
    #expect(try later.storage.verify() == [])
    // The same after a rename.
    try later.migrate([
      .addField("wheels", default: 4, in: "schema.Truck", toVersion: 2),
      .rename(type: "schema.Truck", to: "schema.Lorry"),
    ])
    try later.save(Lorry(id: 11, name: "l", year: 1, wheels: 8))
    #expect(try later.objects(Lorry.self).where(\.wheels == 8).count() == 1)
    #expect(try later.storage.verify() == [])
  }

  @Test func `A private or local type has the same name in every process`() {
    struct Local: Storable { let id: Int }
    let module = "LarderObjectsTests"
    #expect(Boxed<Int>.storedName == "\(module).Boxed<Swift.Int>")
    #expect(Boxed<Boxed<Int>>.storedName == "\(module).Boxed<\(module).Boxed<Swift.Int>>")
    #expect(Local.storedName == "\(module).SchemaTests.Local")
    #expect(Person.storedName == "\(module).Person")
  }
}
