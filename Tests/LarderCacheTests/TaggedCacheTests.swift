// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderCache
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// Tags, pinned values and negative entries of a typed cache.
@Suite(.timeLimit(.minutes(60))) struct TaggedCacheTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  private func open(_ options: StoreOptions = StoreOptions()) throws -> SharedStore {
    try SharedStore(at: directory.path + "/store", options)
  }

  @Test(arguments: [true, false])
  func `A removal by tag removes values from memory, with a store and without`(
    hasStore: Bool
  ) async throws {
    let cache = PersistentCache<String, [Int]>(
      storage: hasStore ? try open() : nil, namespace: "pages")
    try await cache.setValue([1], forKey: "a", tags: ["user:7", "team:3"])
    try await cache.setValue([2], forKey: "b", tags: ["team:3"])
    try await cache.setValues([(key: "c", value: [3]), (key: "d", value: [4])], tags: ["user:7"])
    cache["e"] = [5]
    for key in ["a", "b", "c", "d", "e"] { #expect(try await cache.value(forKey: key) != nil) }
    try await cache.removeAll(tagged: "user:7")
    for key in ["a", "c", "d"] {
      #expect(try await cache.value(forKey: key) == nil)
      #expect(cache[key] == nil)
    }
    #expect(try await cache.value(forKey: "b") == [2])
    #expect(cache["e"] == [5])
    // The subscript stores without tags.
    cache["b"] = [6]
    try await cache.removeAll(tagged: "team:3")
    #expect(cache["b"] == [6])
    await #expect(throws: StoreError.self) {
      try await cache.setValue([1], forKey: "a", tags: [""])
    }
    await #expect(throws: StoreError.self) { try await cache.removeAll(tagged: "") }
  }

  @Test func `A change in a transaction keeps tags, pins and a sliding expiration`() throws {
    let clock = ManualClock()
    var options = StoreOptions(clock: clock.storeClock)
    options.sweepsWhenIdle = false
    let store = try open(options)
    let cache = PersistentCache<Int, Int>(storage: store)
    try cache.setValue(
      1, forKey: 1, expires: .afterAccess(.seconds(60)), tags: ["a", "b"], pinned: true)
    _ = try cache.change(1) { read in
      try read().map { Item($0.value + 1, expiration: $0.expiration) }
    }
    #expect(try cache.value(forKey: 1) == 2)
    #expect(try store.statistics().pinnedEntries == 1)
    // A use in the lifetime begins a new one.
    clock.advance(by: .seconds(50))
    #expect(try cache.value(forKey: 1) == 2)
    clock.advance(by: .seconds(50))
    #expect(try cache.value(forKey: 1) == 2)
    // A change of the expiration replaces it.
    _ = try cache.change(1) { _ in Item(3, expiration: nil) }
    clock.advance(by: .seconds(500))
    #expect(try cache.value(forKey: 1) == 3)
    try store.removeAll(tagged: "b")
    #expect(try cache.value(forKey: 1) == nil)
    _ = try cache.change(1) { _ in Item(4, expiration: nil) }
    #expect(try cache.value(forKey: 1) == 4)
    #expect(try store.verify() == [])
  }

  @Test func `A cache removes by tag in its namespace only, a store in all`() throws {
    let store = try open()
    let first = PersistentCache<Int, Int>(storage: store, namespace: "first")
    let second = PersistentCache<Int, Int>(storage: store, namespace: "second")
    try first.setValue(1, forKey: 1, tags: ["tag"])
    try second.setValue(2, forKey: 1, tags: ["tag"])
    try first.removeAll(tagged: "tag")
    #expect(first[1] == nil && second[1] == 2)
    try store.removeAll(tagged: "tag")
    #expect(second[1] == nil)
  }

  @Test(arguments: [true, false])
  func `A tag that is removed during a computation keeps its result out of the cache`(
    hasStore: Bool
  ) async throws {
    let store = try open()
    let cache = PersistentCache<Int, Int>(storage: hasStore ? store : nil, namespace: "pages")
    for (round, removed) in ["tag", "other", "tag"].enumerated() {
      let value = try await cache.value(forKey: round, tags: ["tag", "second tag"]) {
        try await cache.removeAll(tagged: removed)
        return round
      }
      #expect(value == round)
      // Without a store, every removal by tag disturbs every computation.
      #expect(cache[round] == (removed == "other" && hasStore ? round : nil), "\(round)")
    }
    if hasStore { #expect(try store.statistics().rejectedFills == 2) }
  }

  @Test func `A result of nil is computed once until its time is over`() async throws {
    let clock = ManualClock(milliseconds: 1000)
    let store = try open(StoreOptions(clock: StoreClock { clock.now }))
    let cache = PersistentCache<Int, String>(storage: store, namespace: "users")
    let calls = Mutex(0)
    func user(_ key: Int, _ name: String?) async throws -> String? {
      try await cache.value(forKey: key, absentFor: .seconds(30), tags: ["users"]) {
        calls.withLock { $0 += 1 }
        return name
      }
    }
    for _ in 0..<3 { #expect(try await user(1, nil) == nil) }
    #expect(calls.withLock { $0 } == 1)
    #expect(try await cache.state(forKey: 1) == .absent)
    #expect(try await cache.state(forKey: 2) == .unknown)
    #expect(try await cache.value(forKey: 1) == nil)
    #expect(try await !cache.contains(1) && cache[1] == nil)
    #expect(try await cache.keys().isEmpty)
    clock.advance(by: .seconds(30))
    #expect(try await user(1, "ada") == "ada")
    for _ in 0..<3 { #expect(try await user(1, nil) == "ada") }
    #expect(calls.withLock { $0 } == 2)
    #expect(try await cache.state(forKey: 1) == .value("ada"))
    try await cache.setAbsent(forKey: 1, expires: .never, tags: ["users"])
    #expect(try await user(1, "grace") == nil)
    // The form whose result is not optional computes, and stores what it computes.
    #expect(try await cache.value(forKey: 1) { "grace" } == "grace")
    #expect(try await user(1, nil) == "grace")
    try await cache.setAbsent(forKey: 1, expires: .never, tags: ["users"])
    try await cache.removeAll(tagged: "users")
    #expect(try await cache.state(forKey: 1) == .unknown)
    let error = await #expect(throws: StoreError.self) {
      try await cache.value(forKey: 9, absentFor: .zero) { nil }
    }
    #expect(error?.code == .invalidOption)
    #expect(try store.verify() == [])
  }

  @Test func `Without a store, pinned values and negative entries are typed errors`() throws {
    let caches: [PersistentCache<Int, Int>] = [
      PersistentCache(storage: nil as SharedStore?),
      PersistentCache(storage: DictionaryStorage()),
    ]
    for cache in caches {
      for attempt in [
        { try cache.setValue(1, forKey: 1, pinned: true) },
        { try cache.setAbsent(forKey: 1, expires: .never) },
      ] {
        let error = #expect(throws: StoreError.self) { try attempt() }
        #expect(error?.code == .unsupportedByStorage)
      }
      #expect(try cache.state(forKey: 1) == .unknown)
      try cache.setValue(2, forKey: 1)
      #expect(try cache.state(forKey: 1) == .value(2))
    }
    let error = #expect(throws: StoreError.self) { try caches[1].removeAll(tagged: "tag") }
    #expect(error?.code == .unsupportedByStorage)
    #expect(throws: StoreError.self) { try caches[1].setValue(1, forKey: 1, tags: ["tag"]) }
  }
}

/// A custom storage in memory.
private final class DictionaryStorage: CacheStorage {
  private let values = Mutex<[String: Data]>([:])

  subscript(_ key: String) -> Data? {
    get { values.withLock { $0[key] } }
    set { values.withLock { $0[key] = newValue } }
  }
}
