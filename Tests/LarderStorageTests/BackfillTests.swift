// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderObjects
import LarderStorage
import LarderTesting
import Synchronization
import Testing

// Backfills during writes by callers outside the composition.

@Suite(.timeLimit(.minutes(60)))
struct BackfillTests {
  /// A back whose answer waits until something was done.
  private func slow<Value: Sendable>(
    _ value: Value, _ body: () async throws -> Void,
    through make: @escaping (ReadOnlyStorage<String, Value>) -> Storage<String, Value>
  ) async throws {
    let (asked, answer) = (Door(), Door())
    let back = ReadOnlyStorage<String, Value>(storageName: "slow") { _ in
      asked.open()
      await answer.pass()
      return value
    }
    let storage = make(back)
    async let pulled = storage.value(forKey: "a")
    await asked.pass()
    try await body()
    answer.open()
    _ = try await pulled
  }

  private struct Note: Storable {
    let id: String
    var body: String
    static let storedName = "Note"
  }

  @Test func `An object saved or deleted by another writer is not overwritten by a backfill`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let objects = try ObjectStore(
      at: directory.appending("store"), StoreOptions(durability: .cache))
    let other = try ObjectStore(at: directory.appending("store"), StoreOptions(durability: .cache))
    let old = Note(id: "a", body: "old")
    func backed(_ back: ReadOnlyStorage<String, Note>) -> Storage<String, Note> {
      objects.collection(Note.self).asStorage().backed(by: back)
    }
    // The first object of its type, so that the type is unknown when the backfill begins.
    try await slow(old, { try other.save(Note(id: "a", body: "new")) }, through: backed)
    #expect(try objects.object(Note.self, id: "a")?.body == "new")
    try await objects.delete(Note.self, id: "a")
    try await slow(old, { try other.save(Note(id: "a", body: "new")) }, through: backed)
    #expect(try objects.object(Note.self, id: "a")?.body == "new")
    for removes in [
      { _ = try other.delete(Note.self, id: "a") }, { try other.deleteAll(Note.self) },
    ] {
      try await objects.delete(Note.self, id: "a")
      try await slow(
        old,
        {
          try other.save(Note(id: "a", body: "new"))
          try removes()
        }, through: backed)
      #expect(try objects.object(Note.self, id: "a") == nil)
    }
    // Undisturbed it is stored, also while others are written.
    try await slow(old, { try other.save(Note(id: "b", body: "new")) }, through: backed)
    #expect(try other.object(Note.self, id: "a")?.body == "old")
    other.close()
    objects.close()
  }

  @Test func `A cache in memory keeps a value that was set during a backfill`() async throws {
    let cache = PersistentCache<String, Int>(storage: nil)
    func backed(_ back: ReadOnlyStorage<String, Int>) -> Storage<String, Int> {
      cache.asStorage().backed(by: back)
    }
    try await slow(1, { cache["a"] = 2 }, through: backed)
    #expect(cache["a"] == 2)
    cache["a"] = nil
    try await slow(
      1,
      {
        cache["a"] = 2
        cache["a"] = nil
      }, through: backed)
    #expect(cache["a"] == nil)
    try await slow(1, { try cache.removeAll() }, through: backed)
    #expect(cache["a"] == nil)
    try await slow(1, { cache["b"] = 2 }, through: backed)
    #expect(cache["a"] == 1)
  }

  @Test func `A cache over a custom storage keeps a value that was set during a backfill`()
    async throws
  {
    final class Dictionary: CacheStorage {
      let values = Mutex<[String: Data]>([:])
      subscript(key: String) -> Data? {
        get { values.withLock { $0[key] } }
        set { values.withLock { $0[key] = newValue } }
      }
    }
    let cache = PersistentCache<String, Int>(storage: Dictionary())
    func backed(_ back: ReadOnlyStorage<String, Int>) -> Storage<String, Int> {
      cache.asStorage().backed(by: back)
    }
    try await slow(1, { cache["a"] = 2 }, through: backed)
    #expect(cache["a"] == 2)
    cache["a"] = nil
    try await slow(1, {}, through: backed)
    #expect(cache["a"] == 1)
  }

  @Test func `A front is bypassed for a stale key, with keys of any type`()
    async throws
  {
    /// All hash alike.
    struct Odd: Hashable, Sendable {
      var number: Int
      func hash(into hasher: inout Hasher) { hasher.combine(0) }
    }
    func check<Key: Sendable>(_ name: @escaping @Sendable (Key) -> String, _ one: Key, _ two: Key)
      async throws
    {
      let front = MemoryStorage<String, Int>()
      let fails = Mutex(false)
      var operations = StorageOperations<String, Int>(
        read: front.operations.read,
        write: StorageOperation { item in
          if fails.withLock({ $0 }) { throw Broken() }
          try front.set(item.value, forKey: item.key)
        })
      operations.remove = StorageOperation { key in
        if fails.withLock({ $0 }) { throw Broken() }
        try front.remove(forKey: key)
      }
      let storage = Storage(storageName: "moody", operations: operations).mapKeys(name)
        .combined(with: MemoryStorage<String, Int>().mapKeys(name))
      try await storage.set(1, forKey: one)
      fails.withLock { $0 = true }
      await #expect(throws: StorageError.self) { try await storage.update(forKey: one) { $0 = 2 } }
      fails.withLock { $0 = false }
      // The success for another key does not clear this one.
      try await storage.set(5, forKey: two)
      #expect(try await storage.value(forKey: one) == 2)
      #expect(try await storage.value(forKey: two) == 5)
    }
    try await check({ "\($0.0) \($0.1)" }, (1, 1), (2, 2))
    try await check({ "\($0.number)" }, Odd(number: 1), Odd(number: 2))
    try await check({ $0 }, "1", "2")
  }

  @Test func `Closures that call back twice, or never, are an answer and an error`() async throws {
    let twice = Storage<String, Int>(
      storageName: "twice",
      retrieve: { _, completion in
        completion(.success(1))
        completion(.success(2))
      },
      set: { _, _, completion in
        completion(.success(()))
        completion(.failure(Broken()))
      })
    #expect(try await twice.value(forKey: "a") == 1)
    try await twice.set(1, forKey: "a")
    let never = Storage<String, Int>(
      storageName: "never", retrieve: { _, _ in }, set: { _, _, _ in })
    for storage in [never, MemoryStorage<String, Int>().combined(with: never)] {
      do {
        _ = try await storage.value(forKey: "a")
        Issue.record("It was read.")
      } catch StorageError.Code.completionNotCalled {}
      do {
        try storage.makeSyncStorage().set(1, forKey: "b")
        Issue.record("It was set.")
      } catch StorageError.Code.completionNotCalled {}
    }
    let reading = ReadOnlyStorage<String, Int>(storageName: "never", retrieve: { _, _ in })
    await #expect(throws: StorageError.self) { try await reading.value(forKey: "a") }
  }
}
