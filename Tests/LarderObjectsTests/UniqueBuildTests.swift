// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct UniqueBuildTests {
  private func expectViolation(
    _ ids: Set<String>, _ text: String, _ body: () throws -> Void
  ) {
    let error = #expect(throws: ObjectError.self) { try body() }
    #expect(error?.code == .uniqueViolation && Set(error?.ids ?? []) == ids)
    #expect(error?.message.contains(text) == true, "\(error?.message ?? "")")
  }

  @Test func `The first save with a new unique index is compared with all stored objects`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save((0..<2500).map { PlainBook(id: $0, title: "t\($0)") })
    expectViolation(["5000", "2400"], "was not stored") {
      try store.save(UniqueBook(id: 5000, title: "t2400"))
    }
    #expect(try store.object(UniqueBook.self, id: 5000) == nil)
    try store.save(UniqueBook(id: 5000, title: "new"))
    expectViolation(["5001", "7"], "was not stored") {
      try store.save([UniqueBook(id: 5002, title: "x"), UniqueBook(id: 5001, title: "t7")])
    }
    try store.prepare(UniqueBook.self)
    let query = store.objects(UniqueBook.self).where(\.title == "new")
    #expect(try query.explain().hasPrefix("scan index") && query.fetch().map(\.id) == [5000])
    #expect(try store.storage.verify() == [])
  }

  @Test
  func `A unique index that stored objects violate checks saves, and completes once they differ`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(
      [PlainBook(id: 1, title: "x"), PlainBook(id: 2, title: "x"), PlainBook(id: 3, title: "y")])
    let text = "have the same key in the new unique index"
    expectViolation(["1", "2"], text) { try store.prepare(UniqueBook.self) }
    expectViolation(["4", "3"], "was not stored") {
      try store.save(UniqueBook(id: 4, title: "y"))
    }
    try store.save(UniqueBook(id: 5, title: "z"))
    expectViolation(["6", "5"], "was not stored") {
      try store.save(UniqueBook(id: 6, title: "z"))
    }
    let query = store.objects(UniqueBook.self).where(\.title == "x")
    #expect(try query.fetch().map(\.id) == [1, 2])
    #expect(try query.explain().contains("is not used"))
    expectViolation(["1", "2"], text) { try store.prepare(UniqueBook.self) }
    // The same in another process, whatever it does first.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    expectViolation(["7", "3"], "was not stored") {
      try other.save(UniqueBook(id: 7, title: "y"))
    }
    try other.save(UniqueBook(id: 2, title: "w"))
    try store.prepare(UniqueBook.self)
    #expect(try query.explain().hasPrefix("scan index") && query.fetch().map(\.id) == [1])
    #expect(try store.storage.verify() == [])
  }

  @Test func `An object that stays in conflict with another is saved once the other differs`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save([PlainBook(id: 1, title: "x"), PlainBook(id: 2, title: "x")])
    try store.write { transaction in
      var book = try #require(try transaction.object(UniqueBook.self, id: 1))
      book.title = "other"
      try transaction.save(book)
      try transaction.save(UniqueBook(id: 3, title: "new"))
    }
    try store.prepare(UniqueBook.self)
    #expect(try store.objects(UniqueBook.self).where(\.title == "x").fetch().map(\.id) == [2])
  }
}
