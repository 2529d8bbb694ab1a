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

/// The program that stored the objects before there was an index.
private struct BarePaint: Storable, Equatable {
  let id: Int
  var name: String
  var color: NewColor
  static let storedName = "Paint"
}

private struct BareBulk: Storable {
  let id: Int
  var level: Int
  var body: String
  var color: NewColor
  static let storedName = "Bulk"
}

private struct OldBulk: Storable {
  let id: Int
  var level: Int
  var body: String
  var color: OldColor
  static let storedName = "Bulk"
  static let indexes = [Index<OldBulk>("level", \.level)]
}

private struct NewBulk: Storable {
  let id: Int
  var level: Int
  var body: String
  var color: NewColor
  static let storedName = "Bulk"
  static let indexes = [Index<NewBulk>("level", \.level)]
}

private struct BareNote: Storable, Equatable {
  let id: Int
  var text: String
  var color: NewColor
  static let storedName = "PaintNote"
}

private struct OldNote: Storable, Equatable {
  let id: Int
  var text: String
  var color: OldColor
  static let storedName = "PaintNote"
  static let indexes = [Index<OldNote>("text", fullText: \.text)]
}

private struct NewNote: Storable, Equatable {
  let id: Int
  var text: String
  var color: NewColor
  static let storedName = "PaintNote"
  static let indexes = [Index<NewNote>("text", fullText: \.text)]
}

private struct NewWall: Storable {
  let id: Int
  @HasOne var paint: NewPaint?
  static let storedName = "Wall"
}

private struct OldWall: Storable {
  let id: Int
  @HasOne var paint: OldPaint?
  static let storedName = "Wall"
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

  @Test func `An index that lacks objects its builder could not decode is used once a program can`()
    throws
  {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let store = ground.store
    try store.save(
      (0..<1500).map { BarePaint(id: $0, name: "n\($0)", color: $0 % 700 == 3 ? .blue : .red) })
    try store.prepare(OldPaint.self)
    let old = store.objects(OldPaint.self)
    // The index would hide the objects that cannot be decoded.
    let query = old.where(\.name == "n703")
    #expect(try query.explain().contains("could not decode 3 objects"))
    expectUnreadable(["3"]) { _ = try query.fetch() }
    #expect(try query.fetchReadable().unreadable.compactMap(\.ids.first) == ["3", "703", "1403"])
    #expect(try old.where(\.name == "n5").skippingUnreadable().fetch().map(\.id) == [5])
    try store.prepare(OldPaint.self)
    // A program that can decode them completes the index, for both.
    let newer = try ObjectStore(at: ground.path, StoreOptions())
    try newer.prepare(NewPaint.self)
    let new = newer.objects(NewPaint.self).where(\.name == "n703")
    #expect(try new.explain().hasPrefix("scan index \"name\""))
    #expect(try new.fetch().map(\.id) == [703] && new.count() == 1)
    #expect(try query.explain().hasPrefix("scan index \"name\"") && query.count() == 1)
    expectUnreadable(["703"]) { _ = try query.fetch() }
    #expect(try old.where(\.name == "n5").fetch().map(\.id) == [5])
    #expect(try store.storage.verify() == [])
  }

  @Test func `Large objects that a builder could not decode are all tried by a program that can`()
    throws
  {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let body = String(repeating: "x", count: 1 << 20)
    try ground.store.save(
      (0..<9).map { BareBulk(id: $0, level: $0, body: body, color: $0 < 8 ? .blue : .red) })
    try ground.store.prepare(OldBulk.self)
    let newer = try ObjectStore(at: ground.path, StoreOptions())
    try newer.prepare(NewBulk.self)
    let new = newer.objects(NewBulk.self).where(\.level >= 0)
    #expect(try new.explain().hasPrefix("scan index \"level\""))
    #expect(try new.count() == 9)
    #expect(try newer.objects(NewBulk.self).where(\.level == 7).fetch().map(\.id) == [7])
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `An index is complete once the objects that could not be decoded are gone`() throws {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let store = ground.store
    try store.save([
      BarePaint(id: 1, name: "a", color: .red), BarePaint(id: 2, name: "b", color: .blue),
      BarePaint(id: 3, name: "c", color: .blue),
    ])
    try store.prepare(OldPaint.self)
    let query = store.objects(OldPaint.self).where(\.name == "a")
    #expect(try query.explain().contains("could not decode 2 objects"))
    try store.delete(OldPaint.self, id: 2)
    try store.save(OldPaint(id: 3, name: "c", color: .green))
    try store.prepare(OldPaint.self)
    #expect(try query.explain().hasPrefix("scan index \"name\""))
    #expect(try store.objects(OldPaint.self).where(\.name >= "a").fetch().map(\.id) == [1, 3])
    #expect(try store.storage.verify() == [])
  }

  @Test func `A search reports the objects that it cannot decode`() throws {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let store = ground.store
    try store.save([
      BareNote(id: 1, text: "red fox", color: .red), BareNote(id: 2, text: "red hat", color: .blue),
      BareNote(id: 3, text: "the red fox", color: .blue),
    ])
    try store.prepare(OldNote.self)
    let notes = store.objects(OldNote.self)
    for _ in 0..<2 {
      for text in ["red", "\"red fox\"", "fox"] {
        let query = notes.matching(text)
        #expect(throws: ObjectError.self) { try query.fetch() }
        let result = try query.fetchReadable()
        #expect(result.objects.map(\.id) == [1], "\(text)")
        #expect(result.unreadable.contains { $0.ids == ["3"] }, "\(text)")
        #expect(try query.skippingUnreadable().count() == 1)
        #expect(try query.skippingUnreadable().matches().map(\.object.id) == [1])
      }
      #expect(try notes.matching("red").fetchReadable().unreadable.count == 2)
      // With an index that contains them, the same.
      let newer = try ObjectStore(at: ground.path, StoreOptions())
      try newer.prepare(NewNote.self)
      #expect(try newer.objects(NewNote.self).matching("red").count() == 3)
    }
    #expect(try notes.matching("red").count() == 3)
  }

  @Test func `A damaged object is in no search, and a search reports it`() throws {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let filler = String(repeating: "z", count: 600)
    try ground.store.save([
      NewNote(id: 1, text: "red fox", color: .red),
      NewNote(id: 2, text: "red fox MARKED " + filler, color: .red),
    ])
    ground.store.close()
    let data = try ClosedStore.generation(of: ground.path) + "/data.mdb"
    let bytes = try TestFiles.contents(of: data)
    let mark = Array("MARKED ".utf8)
    var flipped = 0
    for offset in 0..<(bytes.count - mark.count) where bytes[offset] == mark[0] {
      guard bytes[offset..<offset + mark.count].elementsEqual(mark) else { continue }
      try TestFiles.overwrite([0x2A], at: offset + mark.count + 300, in: data)
      flipped += 1
    }
    try #require(flipped > 0)
    let store = try ObjectStore(at: ground.path, StoreOptions(onError: { _ in }))
    for text in ["red", "\"red fox\""] {
      let query = store.objects(NewNote.self).matching(text)
      #expect(try query.fetch().map(\.id) == [1], "\(text)")
      let result = try query.fetchReadable()
      #expect(result.objects.map(\.id) == [1] && result.unreadable.count == 1, "\(text)")
      #expect(result.unreadable.first?.code == .unreadable)
    }
  }

  @Test func `A related object that cannot be decoded is an error, or passed over and reported`()
    throws
  {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let store = ground.store
    for (id, color) in [(1, NewColor.red), (2, .blue), (3, .green)] {
      try store.save(NewWall(id: id, paint: NewPaint(id: id, name: "p", color: color)))
    }
    let walls = store.objects(OldWall.self)
    #expect(try walls.fetch().count == 3)
    let queries = [
      walls.including(\.$paint), walls.where { $0.$paint.contains { $0.name == "p" } },
      walls.where { $0.$paint.contains { $0.name == "p" } }.limit(2),
      walls.sorted(by: \.paint?.name),
    ]
    for (number, query) in queries.enumerated() {
      expectUnreadable(["2"]) { _ = try query.fetch() }
      expectUnreadable(["2"]) { _ = try query.page(size: 5) }
      expectUnreadable(["2"]) { _ = try store.read { try $0.fetch(query) } }
      expectUnreadable(["2"]) { _ = try store.write { try $0.fetch(query) } }
      let result = try query.fetchReadable()
      #expect(result.objects.count == (number == 1 || number == 2 ? 2 : 3), "\(number)")
      #expect(
        result.unreadable.map(\.type) == ["Paint"] && result.unreadable.first?.ids == ["2"],
        "\(number)")
      #expect(try query.skippingUnreadable().fetch().count == result.objects.count, "\(number)")
    }
    // A paint that cannot be decoded does not decide which wall comes first.
    expectUnreadable(["2"]) { try walls.sorted(by: \.paint?.name).limit(1).delete() }
    #expect(try walls.count() == 3)
    let included = try walls.including(\.$paint).skippingUnreadable().fetch()
    #expect(included.map { $0.paint?.name } == ["p", nil, "p"])
    #expect(included[1].$paint.loadError != nil && included[1].$paint.id == "2")
    // A condition counts as the fetch finds.
    expectUnreadable(["2"]) { _ = try queries[1].count() }
    #expect(try queries[1].skippingUnreadable().count() == 2)
  }

  @Test func `An observer passes over related objects that cannot be decoded, or gets the error`()
    async throws
  {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let store = ground.store
    try await store.save(NewWall(id: 1, paint: NewPaint(id: 1, name: "p", color: .red)))
    let walls = store.objects(OldWall.self).including(\.$paint)
    var values = walls.observe().makeAsyncIterator()
    var known = walls.skippingUnreadable().observe().makeAsyncIterator()
    #expect(try await values.next()?.count == 1)
    #expect(try await known.next()?.count == 1)
    try await store.save(NewWall(id: 2, paint: NewPaint(id: 2, name: "p", color: .blue)))
    let error = await #expect(throws: ObjectError.self) { try await values.next() }
    #expect(error?.code == .unreadable && error?.type == "Paint")
    #expect(try await known.next()?.map(\.id) == [1, 2])
  }
}
