// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderTesting
import Synchronization
import Testing

/// A typical user's storage: a dictionary of texts.
final class Drawer: CacheStorage {
  private let data = Mutex<[String: Data]>([:])
  /// Called between the look-up and the return of bytes, and before bytes are set.
  let onRead = Mutex<(@Sendable () -> Void)?>(nil)
  let onWrite = Mutex<(@Sendable () -> Void)?>(nil)
  let syncs = Mutex(0)

  subscript(key: String) -> Data? {
    get {
      let found = data.withLock { $0[key] }
      take(onRead)?()
      return found
    }
    set {
      take(onWrite)?()
      data.withLock { $0[key] = newValue }
    }
  }

  private func take(_ hook: borrowing Mutex<(@Sendable () -> Void)?>) -> (@Sendable () -> Void)? {
    hook.withLock { hook in
      defer { hook = nil }
      return hook
    }
  }

  func sync() { syncs.withLock { $0 += 1 } }
  func removeAll(withPrefix prefix: String) {
    data.withLock { data in data = data.filter { !$0.key.hasPrefix(prefix) } }
  }

  var contents: [String: Data] {
    get { data.withLock { $0 } }
    set { data.withLock { $0 = newValue } }
  }
}

/// One that has what the protocol demands, and no more.
private final class Bare: CacheStorage {
  private let data = Mutex<[String: Data]>([:])
  subscript(key: String) -> Data? {
    get { data.withLock { $0[key] } }
    set { data.withLock { $0[key] = newValue } }
  }
}

@Suite(.timeLimit(.minutes(60))) struct CustomStorageTests {
  private func expectLaws(
    reading: PersistentCache<String, [UInt8]>, writing: PersistentCache<String, [UInt8]>,
    location: SourceLocation = #_sourceLocation
  ) async {
    var laws = StorageLaws(
      get: { try reading.value(forKey: $0) },
      set: { try writing.setValue($1, forKey: $0) },
      remove: { _ = try writing.removeValue(forKey: $0) },
      removeAll: { try writing.removeAll() },
      contains: { try reading.contains($0) })
    laws.operations = 200
    laws.largestValue = 1 << 16
    let wanted = StorageLaws.Law.allCases.filter {
      ![.keysAreExact, .concurrentUpdatesLoseNothing].contains($0)
    }
    let violations = await laws.violations(of: wanted)
    #expect(violations == [], "\(violations)", sourceLocation: location)
  }

  @Test(arguments: [0, 3, 10_000])
  func `A cache over a custom storage keeps the laws`(memoryCountLimit: Int) async {
    let cache = PersistentCache<String, [UInt8]>(
      storage: Drawer(), namespace: "laws", options: .init(memoryCountLimit: memoryCountLimit))
    await expectLaws(reading: cache, writing: cache)
  }

  @Test func `Two caches over one object keep the laws as one`() async {
    let drawer = Drawer()
    let one = PersistentCache<String, [UInt8]>(storage: drawer, namespace: "laws")
    let two = PersistentCache<String, [UInt8]>(storage: drawer, namespace: "laws")
    await expectLaws(reading: one, writing: two)
  }

  @Test func `Updates of a custom storage lose nothing`() async throws {
    let drawer = Drawer()
    let caches = (0..<2).map { _ in PersistentCache<String, Int>(storage: drawer) }
    let threads = (0..<4).map { thread in
      JoinableThread {
        let storage = caches[thread % 2].asStorage().makeSyncStorage()
        for _ in 0..<200 {
          do { _ = try storage.updateOrInsert(forKey: "n") { $0 = ($0 ?? 0) + 1 } } catch {
            Issue.record(error)
          }
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(caches[0]["n"] == 800)
  }

  @Test func `Keys of a custom storage never collide`() throws {
    let drawer = Drawer()
    func cache<Key: CacheKey>(_ namespace: String, _ key: Key.Type) -> PersistentCache<Key, String>
    {
      PersistentCache(storage: drawer, namespace: namespace, options: .init(memoryCountLimit: 0))
    }
    let texts = [
      "", "/", "A", "AB", "Bx", "x", "1", "a/1/b", "%2f", "%", "\u{e9}", "e\u{301}", "a b", "é/1",
    ]
    var count = 0
    for namespace in texts {
      for key in texts {
        try cache(namespace, String.self).setValue("\(namespace)|\(key)", forKey: key)
        try cache(namespace, [UInt8].self).setValue("b\(namespace)|\(key)", forKey: Array(key.utf8))
        count += 2
      }
      try cache(namespace, Int.self).setValue("i\(namespace)", forKey: 1)
      count += 1
    }
    #expect(drawer.contents.count == count)
    #expect(drawer.contents.keys.allSatisfy { $0.utf8.allSatisfy { 0x20 < $0 && $0 < 0x7F } })
    for namespace in texts {
      for key in texts {
        #expect(try cache(namespace, String.self).value(forKey: key) == "\(namespace)|\(key)")
      }
      #expect(cache(namespace, Int.self)[1] == "i\(namespace)")
    }
    // One namespace is cleared, and no other.
    try cache("A", String.self).removeAll()
    #expect(drawer.contents.count == count - 2 * texts.count - 1)
    #expect(cache("AB", String.self)["x"] == "AB|x" && cache("A", Int.self)[1] == nil)
    drawer.contents = [:]
    cache("my cache", String.self)["café"] = ""
    #expect(drawer.contents.keys.first == "my%20cache/1/caf%c3%a9")
  }

  @Test func `Bytes not set for the key are an error, a miss, and computed again`()
    async throws
  {
    let drawer = Drawer()
    let errors = Mutex(0)
    let cache = PersistentCache<String, Int>(
      storage: drawer, options: .init(memoryCountLimit: 0),
      onError: { _ in errors.withLock { $0 += 1 } }
    )
    cache["a"] = 1
    cache["b"] = 2
    let sound = drawer.contents
    func expectUnreadable(_ data: Data?) {
      drawer.contents = sound.mapValues { _ in data ?? Data() }
      let error = #expect(throws: StoreError.self) { try cache.value(forKey: "a") }
      #expect(error?.code == .unreadableEntry)
      #expect(cache["a"] == nil)
    }
    expectUnreadable(sound["/1/b"])
    let whole = try #require(sound["/1/a"])
    for length in 0..<whole.count { expectUnreadable(whole.prefix(length)) }
    for index in whole.indices {
      var bytes = whole
      bytes[index] ^= 4
      expectUnreadable(bytes)
    }
    #expect(errors.withLock { $0 } == 1 + 2 * whole.count)
    #expect(try await cache.value(forKey: "a") { 5 } == 5)
    #expect(cache["a"] == 5)
  }

  @Test func `A set while a computed result is being stored is newer than the result`() async throws
  {
    let drawer = Drawer()
    let cache = PersistentCache<String, Int>(storage: drawer)
    let refresh = Refresh(keptFor: .seconds(3600))
    _ = try await cache.computedValue(forKey: "k", refresh: refresh) { _ in
      Computed(1, expires: .after(.milliseconds(1)))
    }
    try await awaitEventually("it expires") { try await cache.value(forKey: "k") == nil }
    let none = try await cache.computedValue(forKey: "k", refresh: refresh) { old in
      #expect(old == 1)
      // The removal of the old value looks whether there is one.
      drawer.onRead.withLock { $0 = { try? cache.setValue(9, forKey: "k") } }
      return .absent(for: .seconds(1))
    }
    #expect(none == nil)
    #expect(try await cache.value(forKey: "k") == 9)
  }

  @Test func `Another type than the stored one is a miss and an error`() throws {
    let drawer = Drawer()
    PersistentCache<String, Int>(storage: drawer)["a"] = 1
    let texts = PersistentCache<String, String>(storage: drawer)
    #expect(texts["a"] == nil)
    #expect(throws: StoreError.self) { try texts.value(forKey: "a") }
  }

  @Test(arguments: [0, 100])
  func `M16: an expired value of a custom storage is never returned`(
    memoryCountLimit: Int
  ) async throws {
    let drawer = Drawer()
    let cache = PersistentCache<String, Int>(
      storage: drawer, options: .init(memoryCountLimit: memoryCountLimit))
    cache[item: "k"] = Item(1, expiresIn: -1)
    #expect(drawer.contents.count == 1)
    #expect(cache["k"] == nil && cache[item: "k"] == nil)
    #expect(try await !cache.contains("k"))
    #expect(try await !cache.removeValue(forKey: "k"))
    cache[item: "k"] = Item(1, expiresIn: -1)
    let fetched = await withCheckedContinuation { continuation in
      cache.fetch("k", queue: .global(), fallback: { 2 }) { continuation.resume(returning: $0) }
    }
    #expect(fetched == 2 && cache["k"] == 2)
    let expires = Date(timeIntervalSinceNow: 1000)
    cache[item: "k"] = Item(3, expiration: expires)
    for _ in 0..<2 {
      let item = try #require(cache[item: "k"])
      #expect(item.value == 3 && item.isValid)
      #expect(abs(try #require(item.expiration).timeIntervalSince(expires)) < 0.001)
      cache.clearMemoryCache()
    }
  }

  @Test func `A read that a write overtakes leaves nothing old in memory`() throws {
    let drawer = Drawer()
    let cache = PersistentCache<String, Int>(storage: drawer)
    let other = PersistentCache<String, Int>(storage: drawer)
    for writer in [cache, other] {
      cache["k"] = 1
      cache.clearMemoryCache()
      drawer.onRead.withLock { $0 = { writer["k"] = 2 } }
      // It began before: either is right.
      #expect(cache["k"] == 1)
      #expect(cache["k"] == 2 && other["k"] == 2)
      cache.clearMemoryCache()
      drawer.onRead.withLock { $0 = { try? writer.removeAll() } }
      #expect(cache["k"] == 2)
      #expect(cache["k"] == nil && other["k"] == nil)
    }
  }

  @Test func `After two concurrent writes memory equals the storage`() throws {
    let drawer = Drawer()
    let cache = PersistentCache<String, Int>(storage: drawer)
    let other = PersistentCache<String, Int>(storage: drawer)
    for second in [cache, other] {
      drawer.onWrite.withLock { $0 = { second["k"] = 3 } }
      cache["k"] = 2
      #expect(cache["k"] == 2 && other["k"] == 2)
      drawer.onWrite.withLock { $0 = { second["k"] = nil } }
      cache["k"] = 4
      #expect(cache["k"] == 4 && other["k"] == 4)
    }
  }

  @Test func `Caches over one object compute a key once and notify each other's observers`()
    async throws
  {
    let drawer = Drawer()
    let caches = (0..<2).map { _ in PersistentCache<String, Int>(storage: drawer) }
    let computations = Shared(0)
    let values = try await withThrowingTaskGroup(of: Int.self) { group in
      for index in 0..<16 {
        group.addTask {
          try await caches[index % 2].value(forKey: "k") {
            await Task.yield()
            return computations.value.withLock {
              $0 += 1
              return $0
            }
          }
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    // A caller that came after the first had finished finds its stored value.
    #expect(Set(values) == [1])
    var observed = caches[0].values(forKey: "k").makeAsyncIterator()
    #expect(try await observed.next() == 1)
    caches[1]["k"] = 7
    #expect(try await observed.next() == 7)
    try await caches[1].removeAll()
    #expect(try await observed.next() == .some(nil))
  }

  @Test func `An operation a custom storage does not support is a typed error`() throws {
    let drawer = Drawer()
    let cache = PersistentCache<String, Int>(storage: drawer, namespace: "n")
    #expect(cache.storage == nil && cache.customStorage === drawer)
    let keys = #expect(throws: StoreError.self) { try cache.keys() }
    #expect(keys?.code == .unsupportedByStorage)
    try cache.sync()
    #expect(drawer.syncs.withLock { $0 } == 1)
    let bare = PersistentCache<String, Int>(storage: Bare())
    bare["k"] = 1
    try bare.sync()
    let clearing = #expect(throws: StoreError.self) { try bare.removeAll() }
    #expect(clearing?.code == .unsupportedByStorage)
    #expect(bare["k"] == 1)
    try cache.setValues([("a", 1), ("b", 2)].map { (key: $0.0, value: $0.1) })
    cache.clearMemoryCache()
    #expect(try cache.values(forKeys: ["a", "b", "c"]) == ["a": 1, "b": 2])
  }

  @Test func `A cache over a nil storage is a cache in memory`() throws {
    let none = PersistentCache<String, Int>(storage: nil as (any CacheStorage)?)
    none["a"] = 1
    #expect(none["a"] == 1 && none.storage == nil && none.customStorage == nil)
    let drawer = Drawer()
    let some = PersistentCache<String, Int>(storage: drawer as (any CacheStorage)?, namespace: "n")
    some["a"] = 2
    #expect(drawer.contents.count == 1 && some.customStorage === drawer)
    let memory = PersistentCache<String, Int>(storage: nil)
    memory["a"] = 3
    #expect(memory.customStorage == nil)
    let mixed = MixedPersistentCache(storage: nil as (any CacheStorage)?)
    mixed[LarderCache.Key<Int>("a")] = 4
    #expect(mixed[LarderCache.Key<Int>("a")] == 4)
  }

  /// An item as PersistentCacheKit writes it.
  private struct OldItem<Value: Codable>: Codable {
    var expiration: Date?
    var value: Value
  }

  @Test func `Entries that PersistentCacheKit wrote are read with the option, and not without`()
    throws
  {
    let drawer = Drawer()
    let encoder = PropertyListEncoder()
    encoder.outputFormat = .binary
    let fresh = try encoder.encode(OldItem(expiration: .distantFuture, value: ["old"]))
    drawer["nroom"] = fresh
    drawer["nlobby"] = fresh
    drawer["nhall"] = fresh
    drawer["npast"] = try encoder.encode(OldItem(expiration: .distantPast, value: ["past"]))
    drawer["nbroken"] = Data([1, 2, 3])
    var options = CacheOptions()
    let without = PersistentCache<String, [String]>(storage: drawer, namespace: "n")
    #expect(without["room"] == nil)
    options.readsPersistentCacheKitEntries = true
    let cache = PersistentCache<String, [String]>(
      storage: drawer, namespace: "n", options: options)
    #expect(try cache.value(forKey: "room") == ["old"])
    #expect(try cache.contains("room") && !cache.contains("past") && !cache.contains("none"))
    #expect(cache[item: "room"]?.expiration != nil)
    #expect(try cache.value(forKey: "past") == nil)
    #expect(throws: (any Error).self) { try cache.value(forKey: "broken") }
    // A key that is set or removed is not found under the old text again.
    try cache.setValue(["new"], forKey: "lobby")
    try cache.removeValue(forKey: "hall")
    cache.clearMemoryCache()
    #expect(try cache.value(forKey: "lobby") == ["new"])
    #expect(try cache.value(forKey: "hall") == nil)
    #expect(drawer.contents["nlobby"] == nil && drawer.contents["nhall"] == nil)
    #expect(throws: StoreError.self) { try cache.removeAll() }
    #expect(try cache.value(forKey: "room") == ["old"])
  }

  @Test func `A store is opened by URL, and a URL of no file is refused`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("a store")
    let store = try SharedStore(at: URL(fileURLWithPath: path))
    #expect(store.path == (try SharedStore(at: path)).path)
    #expect(throws: StoreError.self) {
      try SharedStore(at: #require(URL(string: "https://example.com/a")))
    }
  }
}
