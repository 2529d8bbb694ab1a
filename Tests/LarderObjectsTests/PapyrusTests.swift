// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// One import: what the API of objects needs comes with it.
import LarderObjects
import LarderTesting
import Synchronization
import Testing

private struct Auto: Storable, Equatable {
  let id: String
  var year: Int
  static let storedName = "Auto"
  static let indexes = [Index<Auto>("year", \.year)]
}

/// The types that the API names, without another import.
private struct Surface {
  let store: SharedStore
  let options: StoreOptions
  let memory: CacheOptions
  let value: any IndexValue
  let expiration: Expiration
}

@Suite(.timeLimit(.minutes(60))) struct PapyrusTests {
  let directory: TemporaryDirectory
  let store: ObjectStore

  init() throws {
    directory = try TemporaryDirectory()
    store = try ObjectStore(at: directory.appending("store"), StoreOptions())
  }

  private static let autos = [
    Auto(id: "S", year: 2012), Auto(id: "3", year: 2017), Auto(id: "X", year: 2015),
  ]

  @Test func `The spellings of Papyrus suspend in asynchronous code`() async throws {
    try await store.save(objects: Self.autos)
    let all = try await store.objects(type: Auto.self).execute()
    #expect(all == Self.autos)
    let sorted = store.objects(type: Auto.self).filter { $0.year > 2012 }.sort { $0.year < $1.year }
    #expect(try await sorted.execute().map(\.id) == ["X", "3"])
    #expect(try await sorted.explain().contains("in memory"))
    let newest = store.objects(type: Auto.self).sort { $0.year > $1.year }.limit(1)
    #expect(try await newest.execute().map(\.id) == ["3"])
    #expect(try await store.object(id: "S", of: Auto.self).execute().year == 2012)
    try await store.merge(objects: [Auto(id: "X", year: 2016)], into: { $0.year > 2013 })
    #expect(try await store.objects(type: Auto.self).count() == 2)
    #expect(try await store.delete(objects: [Auto(id: "X", year: 0)]) == 1)
    #expect(try await store.delete(store.object(id: "S", of: Auto.self)))
    #expect(try await store.delete(id: "S", of: Auto.self) == false)
    #expect(try await store.objects(type: Auto.self).fetch() == [])
    try await store.save(objects: Self.autos)
    let (first, second) = (
      store.object(id: "S", of: Auto.self), store.object(id: "none", of: Auto.self)
    )
    #expect(try await store.delete(objects: [first, second]) == 1)
    #expect(try await store.objects(type: Auto.self).execute().map(\.id) == ["3", "X"])
  }

  @Test func `The spellings of Papyrus block in synchronous code`() throws {
    try store.save(objects: Self.autos)
    #expect(try store.objects(type: Auto.self).execute() == Self.autos)
    try store.merge(objects: [Auto(id: "X", year: 2016)], into: { $0.year > 2013 })
    #expect(try store.delete(objects: [Auto(id: "X", year: 0)]) == 1)
    #expect(try store.delete(store.object(id: "S", of: Auto.self)))
    #expect(try store.delete(id: "S", of: Auto.self) == false)
    try store.save(objects: Self.autos)
    let queries = ["3", "none", "X"].map { store.object(id: $0, of: Auto.self) }
    #expect(try store.delete(objects: queries) == 2)
    #expect(try store.objects(type: Auto.self).execute().map(\.id) == ["S"])
  }

  @Test func `An error is matched by its code in a pattern of catch`() async throws {
    do {
      _ = try await store.object(id: "none", of: Auto.self).execute()
      Issue.record("there is no such object")
    } catch ObjectError.notFound {
    }
    let error: any Error = ObjectError(.uniqueViolation, type: "T", "")
    switch error {
    case ObjectError.notFound: Issue.record("another code")
    case ObjectError.uniqueViolation: break
    default: Issue.record("no pattern matches")
    }
    #expect(!(ObjectError.notFound ~= CancellationError()))
  }

  @Test func `A comparator that depends on more than the objects is called each time`() throws {
    try store.save(objects: Self.autos)
    let isDescending = Flag()
    let query = store.objects(Auto.self).sort {
      isDescending.isSet ? $0.year > $1.year : $0.year < $1.year
    }
    #expect(try query.fetch().first?.id == "S")
    isDescending.set()
    #expect(try query.fetch().first?.id == "3")
    #expect(throws: ObjectError.self) { _ = try query.page(size: 1) }
  }

  @Test func `A store of objects without a path is the user's own`() {
    #expect(ObjectStore.defaultPath.hasSuffix("larder/objects"))
    #expect(ObjectStore.defaultPath != SharedStore.defaultPath)
  }

  @Test func `A write of objects inside a transaction of the store is a typed error`() throws {
    let store = store
    let code = try store.write { transaction -> StoreError.Code? in
      try transaction.save(Auto(id: "own", year: 1))
      do {
        try store.save(Auto(id: "other", year: 1))
      } catch let error as StoreError {
        return error.code
      }
      return nil
    }
    #expect(code == .insideTransaction)
    #expect(try store.objects(Auto.self).fetch().map(\.id) == ["own"])
  }
}

private final class Flag: Sendable {
  private let value = Mutex(false)
  var isSet: Bool { value.withLock { $0 } }
  func set() { value.withLock { $0 = true } }
}
