// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

// The declarations of two programs of one version: the newer one knows more.

private enum NewColor: String, Codable, Sendable { case red, green, blue }
private enum OldColor: String, Codable, Sendable { case red, green }

private struct NewPaint: Storable, Equatable {
  let id: Int
  var name: String
  var color: NewColor
  static let storedName = "Paint"
  static let indexes = [Index<NewPaint>("name", \.name)]
}

private struct OldPaint: Storable, Equatable {
  let id: Int
  var name: String
  var color: OldColor
  static let storedName = "Paint"
  static let indexes = [Index<OldPaint>("name", \.name)]
}

private struct Loose: Storable, Equatable {
  let id: Int
  var size: Int?
  static let storedName = "Sized"
}

private struct Strict: Storable, Equatable {
  let id: Int
  var size: Int
  static let storedName = "Sized"
}

private struct Draft: Storable, Equatable {
  let id: Int
  static let storedName = "Draft"
}

private struct Letter: Storable, Equatable {
  let id: Int
  static let storedName = "Letter"
}

@Suite(.timeLimit(.minutes(60))) struct UnreadableTests {
  private func expectUnreadable(_ ids: [String], _ body: () throws -> Void) {
    let error = #expect(throws: ObjectError.self) { try body() }
    #expect(error?.code == .unreadable && error?.ids == ids)
  }

  @Test func `An object that cannot be decoded is an error of what needs it, and counts`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save([
      NewPaint(id: 1, name: "a", color: .red), NewPaint(id: 2, name: "b", color: .blue),
      NewPaint(id: 3, name: "c", color: .green),
    ])
    let all = store.objects(OldPaint.self)
    #expect(try all.count() == 3 && store.collection(OldPaint.self).count() == 3)
    #expect(try all.where(\.name == "b").count() == 1)
    for query in [all, all.where(\.name >= "a"), all.sorted(by: \.name), all.filter { $0.id > 0 }] {
      expectUnreadable(["2"]) { _ = try query.fetch() }
      expectUnreadable(["2"]) { _ = try query.update { $0.name += "!" } }
      expectUnreadable(["2"]) { _ = try query.delete() }
      expectUnreadable(["2"]) { _ = try store.write { try $0.fetch(query) } }
      expectUnreadable(["2"]) { _ = try store.read { try $0.fetch(query) } }
    }
    expectUnreadable(["2"]) { _ = try all.values(of: \.color) }
    expectUnreadable(["2"]) { _ = try all.where(\.color == .red).count() }
    expectUnreadable(["2"]) { try store.merge(with: [OldPaint(id: 9, name: "z", color: .red)]) }
    // What does not need it is as ever.
    #expect(try all.where(\.name == "a").fetch().map(\.id) == [1])
    #expect(try all.where(\.name > "b").fetch().map(\.id) == [3])
    #expect(try store.object(OldPaint.self, id: 3)?.color == .green)
    #expect(try store.objects(NewPaint.self).fetch().count == 3)
  }

  @Test func `A query that passes over such objects does so in every result`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(
      (0..<100).map {
        NewPaint(id: $0, name: "n\($0 % 2)", color: $0 % 4 == 0 ? .blue : .red)
      })
    let all = store.objects(OldPaint.self)
    let known = all.skippingUnreadable()
    for (query, count) in [(known, 75), (known.where(\.name == "n0"), 25)] {
      #expect(try query.count() == count)
      #expect(try query.fetch().count == count)
      #expect(try query.values(of: \.id).count == count)
      #expect(try query.grouped(by: \.name).count().values.reduce(0, +) == count)
      #expect(try store.read { try $0.count(query) } == count)
      #expect(try store.write { try $0.fetch(query).count } == count)
    }
    let result = try all.where(\.name == "n0").fetchReadable()
    #expect(result.objects.count == 25 && result.unreadable.count == 25)
    #expect(result.unreadable.map { $0.ids.first } == (0..<25).map { "\($0 * 4)" })
    let later = try all.fetchReadable()
    #expect(later.objects.count == 75 && later.unreadable.allSatisfy { $0.code == .unreadable })
    #expect(try known.update { $0.name = "new" } == 75)
    #expect(try store.objects(NewPaint.self).where(\.name == "new").count() == 75)
    #expect(try known.delete() == 75)
    #expect(try all.count() == 25)
  }

  @Test func `A field that became required is an error where it is missing, and no empty answer`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save([Loose(id: 1, size: nil), Loose(id: 2, size: nil)])
    let all = store.objects(Strict.self)
    #expect(throws: ObjectError.self) { try all.fetch() }
    try store.save(Loose(id: 3, size: 7))
    #expect(throws: ObjectError.self) { try all.fetch() }
    #expect(try all.skippingUnreadable().fetch() == [Strict(id: 3, size: 7)])
    #expect(try all.fetchReadable().unreadable.count == 2)
  }

  @Test func `An observation of what cannot be decoded ends with the error`() async throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try await store.save(NewPaint(id: 1, name: "a", color: .red))
    var values = store.objects(OldPaint.self).observe().makeAsyncIterator()
    #expect(try await values.next()?.count == 1)
    var known = store.objects(OldPaint.self).skippingUnreadable().observe().makeAsyncIterator()
    #expect(try await known.next()?.count == 1)
    try await store.save(NewPaint(id: 2, name: "b", color: .blue))
    try await store.save(NewPaint(id: 3, name: "c", color: .green))
    let error = await #expect(throws: ObjectError.self) { try await values.next() }
    #expect(error?.code == .unreadable)
    #expect(try await known.next()?.map(\.id) == [1, 3])
  }

  @Test func `After a migration to another type the old one is empty for its programs`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save([Draft(id: 1), Draft(id: 2)])
    let step = ObjectMigration.objects("send") { (draft: Draft) in Letter(id: draft.id) }
    for _ in 0..<2 {
      let store = try ObjectStore(at: ground.path, StoreOptions(), migrations: [step])
      let drafts = store.objects(Draft.self)
      #expect(try drafts.fetch() == [] && drafts.count() == 0)
      #expect(try store.object(Draft.self, id: 1) == nil)
      #expect(try store.write { try $0.fetch(drafts).count } == 0)
      #expect(try store.read { try $0.count(Draft.self) } == 0)
      #expect(try store.objects(Letter.self).fetch().map(\.id) == [1, 2])
      let error = #expect(throws: ObjectError.self) { try store.save(Draft(id: 3)) }
      #expect(error?.code == .newerSchema)
    }
    // A program without the migration gets an error.
    let older = try ObjectStore(at: ground.path, StoreOptions())
    let error = #expect(throws: ObjectError.self) { try older.objects(Draft.self).fetch() }
    #expect(error?.code == .newerSchema && error?.message.contains("Letter") == true)
  }
}
