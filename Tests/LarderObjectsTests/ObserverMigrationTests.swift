// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// One stored type in two versions, and under another name.
private struct Old: Storable, Equatable {
  let id: Int
  var name: String
  static let storedName = "observed.Thing"
  static let indexes = [Index<Old>("name", \.name)]
}

private struct New: Storable, Equatable {
  let id: Int
  var name: Int
  static let storedName = "observed.Thing"
  static let schemaVersion = 2
  static let indexes = [Index<New>("name", \.name)]
}

private struct Renamed: Storable, Equatable {
  let id: Int
  var name: Int
  static let storedName = "observed.Other"
  static let schemaVersion = 2
  static let indexes = [Index<Renamed>("name", \.name)]
}

@Suite(.timeLimit(.minutes(60))) struct ObserverMigrationTests {
  private let ground: StoreFixture
  private let other: ObjectStore
  private var store: ObjectStore { ground.store }

  init() throws {
    ground = try StoreFixture(StoreOptions())
    other = try ObjectStore(at: ground.path, StoreOptions())
  }

  private let numbers = ObjectMigration.objects("names are numbers") { (old: Old) in
    New(id: old.id, name: Int(old.name)!)
  }

  private func expectNewer(
    location: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
  ) async {
    let error = await #expect(throws: ObjectError.self, sourceLocation: location) {
      try await body()
    }
    #expect(error?.code == .newerSchema, sourceLocation: location)
  }

  @Test func `What an older program observes and remembers ends with a typed error once migrated`()
    async throws
  {
    try await store.save((0..<10).map { Old(id: $0, name: "\($0)") })
    var list = store.objects(Old.self).where(\.name >= "0").observe().makeAsyncIterator()
    var one = store.values(of: Old.self, id: 1).makeAsyncIterator()
    var none = store.values(of: Old.self, id: 77).makeAsyncIterator()
    #expect(try await list.next()?.count == 10)
    #expect(try await one.next()??.name == "1")
    #expect(try await none.next() == .some(nil))
    let kept = store.objects(Old.self).where(\.name == "3")
    #expect(try await kept.fetch().count == 1)
    #expect(try await kept.fetch().count == 1)
    let collection = store.collection(Old.self)
    #expect(try collection.object(id: 3)?.name == "3")
    try await other.migrate([numbers])
    await expectNewer { _ = try kept.fetch() }
    await expectNewer { _ = try kept.count() }
    await expectNewer { _ = try collection.object(id: 3) }
    await expectNewer { _ = try store.read { try $0.fetch(kept) } }
    await expectNewer { _ = try await list.next() }
    await expectNewer { _ = try await one.next() }
    await expectNewer { _ = try await none.next() }
  }

  @Test func `Observers follow a reset, and a type that gets another name is theirs no more`()
    async throws
  {
    try await store.migrate([numbers])
    try await store.save((0..<3).map { New(id: $0, name: $0) })
    var list = other.objects(New.self).observe().makeAsyncIterator()
    #expect(try await list.next()?.count == 3)
    try await store.reset()
    #expect(try await list.next()?.count == 0)
    try await store.save((0..<4).map { New(id: $0, name: $0) })
    #expect(try await list.next()?.count == 4)
    let kept = other.objects(New.self).where(\.name >= 0)
    #expect(try await kept.fetch().count == 4)
    try await store.migrate([numbers, .rename(type: New.storedName, to: Renamed.storedName)])
    await expectNewer { _ = try kept.fetch() }
    await expectNewer { _ = try other.object(New.self, id: 1) }
    await expectNewer { _ = try await list.next() }
    #expect(try await other.objects(Renamed.self).where(\.name >= 0).fetch().count == 4)
    #expect(try store.storage.verify() == [])
  }
}
