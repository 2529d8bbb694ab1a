// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// One stored type, as two programs of one version declare it: one knows a field less.
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

/// A newer version, which gave the field up.
private struct Newer: Storable, Equatable {
  let id: Int
  var name: String
  @HasOne var owner: Person? = nil
  static let storedName = "schema.Thing"
  static let schemaVersion = 2
  static let indexes = [Index<Newer>("name", \.name)]
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
  @Test(.timeLimit(.minutes(15)))
  func `A field more in the same version reads, and is not written`() throws {
    let ground = try Ground(StoreOptions())
    try ground.store.save(Years.people(0..<3))
    #expect(try ground.store.objects(PersonWithMail.self).count() == 3)
    #expect(try ground.store.object(PersonWithMail.self, id: 1)?.mail == nil)
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save(PersonWithMail(id: 1, name: "n1", age: "1", mail: "m"))
    }
    #expect(error?.code == .schemaMismatch)
    #expect(error?.message.contains("declared mail: text?") == true, "\(error!)")
    #expect(try ground.store.objects(PersonV1.self).fetch() == Years.people(0..<3))
    // Nothing stored, nothing to lose.
    try ground.store.deleteAll(PersonV1.self)
    try ground.store.save(PersonWithMail(id: 1, name: "n1", age: "1", mail: "m"))
    #expect(throws: ObjectError.self) { try ground.store.save(Years.people(0..<1)) }
  }

  @Test(.timeLimit(.minutes(15)))
  func `Another kind of field in the same version is never decoded wrongly`() throws {
    let ground = try Ground(StoreOptions())
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

  @Test(.timeLimit(.minutes(15)))
  func `A newer version that does not decode what is stored asks for a migration`() throws {
    let ground = try Ground(StoreOptions())
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

  @Test(.timeLimit(.minutes(15)))
  func `A newer version that decodes is raised by a write, and old programs may still read`() throws
  {
    let ground = try Ground(StoreOptions())
    let old = try ObjectStore(at: ground.path, StoreOptions())
    try old.save(Years.people(0..<3))
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

  @Test(.timeLimit(.minutes(15)))
  func `A declaration that needs an object to be read is known from the first one saved`() throws {
    let ground = try Ground(StoreOptions())
    try ground.store.save(Painted(id: 1, colour: .green, size: 1.5))
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save(PaintedTwice(id: 1, colour: .green, size: 1.5, coats: 2))
    }
    #expect(error?.code == .schemaMismatch)
    #expect(error?.message.contains("declared coats: integer?") == true, "\(error!)")
  }

  @Test(.timeLimit(.minutes(15)))
  func `A program that knows fewer fields loses none, whatever it prepares or deletes`() throws {
    let ground = try Ground(StoreOptions())
    let rich = Rich(id: 1, name: "a", note: "kept", owner: Person(id: 1, name: "p"))
    try ground.store.save(rich)
    let indexing = try ObjectStore(at: ground.path, StoreOptions())
    let error = #expect(throws: ObjectError.self) { try indexing.prepare(PoorIndexed.self) }
    #expect(error?.code == .schemaMismatch)
    #expect(error?.message.contains("stored note: text?") == true, "\(error!)")
    // Nothing was declared: whoever wrote before writes on.
    try ground.store.save(rich)
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.prepare(Poor.self)
    try other.delete(Person.self, id: 1)
    let left = try #require(try ground.store.object(Rich.self, id: 1))
    #expect(left.note == "kept" && left.$owner.id == nil)
    // Who raises the version builds indexes without touching the fields.
    try other.prepare(Newer.self)
    #expect(try other.objects(Newer.self).where(\.name == "a").count() == 1)
    let stored = try other.storage.core.withObjects("test") { transaction, view in
      let type = try #require(try ObjectReading.type(named: "schema.Thing", transaction))
      return try ObjectReading.object(
        type: type.number, sequence: 1, in: view.generation, transaction)
    }
    #expect(stored.map { String(decoding: $0.bytes, as: UTF8.self).contains("kept") } == true)
    #expect(try other.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(15)))
  func `Versions out of range are a typed error`() throws {
    let ground = try Ground(StoreOptions())
    for _ in 0..<2 {
      for attempt in [
        { try ground.store.save(TooNew(id: 1)) }, { try ground.store.save(Negative(id: 1)) },
        { try ground.store.deleteAll(TooNew.self) },
      ] { #expect(throws: ObjectError.self, performing: attempt) }
      try ground.store.save(First(id: 1))
    }
    #expect(try ground.store.objects(First.self).count() == 1)
  }

  @Test(.timeLimit(.minutes(15)))
  func `Two declarations of one name in one transaction keep each other's indexes`() throws {
    let ground = try Ground(StoreOptions())
    let error = #expect(throws: ObjectError.self) {
      try ground.store.write { transaction in
        try transaction.save(IndexedBook(id: 1, title: "a"))
        try transaction.save(PlainBook(id: 2, title: "b"))
      }
    }
    #expect(error?.code == .schemaMismatch && error?.index == "title")
    try ground.store.write { transaction in
      try transaction.save(PlainBook(id: 1, title: "a"))
      try transaction.save(IndexedBook(id: 2, title: "b"))
    }
    try ground.store.prepare(IndexedBook.self)
    #expect(try ground.store.objects(IndexedBook.self).where(\.title == "a").count() == 1)
    #expect(try ground.store.objects(IndexedBook.self).where(\.title == "b").count() == 1)
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
