// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
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
  @Test(.timeLimit(.minutes(15)))
  func `A program that does not declare an index cannot write past it`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(IndexedBook(id: 1, title: "a"))
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save(PlainBook(id: 2, title: "b"))
    }
    #expect(error?.code == .schemaMismatch && error?.index == "title")
    #expect(try ground.store.object(PlainBook.self, id: 1)?.title == "a")
  }

  @Test(.timeLimit(.minutes(15)))
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

  @Test(.timeLimit(.minutes(15)))
  func `Objects that break a new unique index are named`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save([PlainBook(id: 1, title: "same"), PlainBook(id: 2, title: "same")])
    let error = #expect(throws: ObjectError.self) { try ground.store.prepare(UniqueBook.self) }
    #expect(error?.code == .uniqueViolation && Set(error?.ids ?? []) == ["1", "2"])
  }

  @Test(.timeLimit(.minutes(15)))
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

  @Test(.timeLimit(.minutes(15)))
  func `An index declared twice is an error`() throws {
    let ground = try StoreFixture(StoreOptions())
    let error = #expect(throws: ObjectError.self) { try ground.store.save(TwiceIndexed(id: 1)) }
    #expect(error?.code == .invalidSchema && error?.index == "id")
  }
}
