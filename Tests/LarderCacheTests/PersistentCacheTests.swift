// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

struct Reading: Codable, Sendable, Hashable {
  var id: Int
  var name: String
  var values: [Double]
}

/// A value several tasks of a test change.
final class Shared<Value: Sendable>: Sendable {
  let value: Mutex<Value>
  init(_ value: Value) { self.value = Mutex(value) }
}

@Suite(.timeLimit(.minutes(60))) struct PersistentCacheTests {
  let directory: TemporaryDirectory
  let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store")
  }

  func sample(_ id: Int) -> Reading { Reading(id: id, name: "n\(id)", values: [1, 2.5]) }

  @Test func `A value set by subscript is seen at once and kept after sync`() throws {
    let cache = PersistentCache<Int, Reading>(storage: store, namespace: "r")
    #expect(cache[1] == nil)
    cache[1] = sample(1)
    #expect(cache[1] == sample(1))
    try cache.sync()
    #expect(cache[1] == sample(1))
    cache.clearMemoryCache()
    #expect(cache[1] == sample(1))
    cache[1] = nil
    #expect(cache[1] == nil)
    try cache.sync()
    #expect(cache[1] == nil)
    #expect(try store.verify() == [])
  }

  @Test func `Two caches of one namespace agree before anything is committed`() throws {
    let first = PersistentCache<String, Reading>(storage: store, namespace: "r")
    let second = PersistentCache<String, Reading>(storage: store, namespace: "r")
    for round in 0..<200 {
      first["k"] = sample(round)
      #expect(second["k"] == sample(round))
      second["k"] = sample(-round)
      #expect(first["k"] == sample(-round))
    }
    try first.sync()
    #expect(first["k"] == sample(-199) && second["k"] == sample(-199))
  }

  @Test func `A committed value of another cache replaces the one in memory`() async throws {
    let first = PersistentCache<String, Reading>(storage: store, namespace: "r")
    let second = PersistentCache<String, Reading>(storage: store, namespace: "r")
    for round in 0..<100 {
      try await first.setValue(sample(round), forKey: "k")
      #expect(try await second.value(forKey: "k") == sample(round))
      #expect(second["k"] == sample(round))
    }
    #expect(try await second.removeValue(forKey: "k"))
    #expect(try await first.value(forKey: "k") == nil)
  }

  @Test func `Texts that differ in normalisation only are two keys, in memory as in the store`()
    throws
  {
    let cache = PersistentCache<String, Int>(storage: store, namespace: "n")
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}")
    let keys = [
      composed, decomposed, "a\u{323}\u{307}", "a\u{307}\u{323}", "K", "\u{212A}", ";", "\u{37E}",
      "`", "\u{1FEF}", "\u{C5}", "\u{212B}", "A\u{30A}",
    ]
    for (index, key) in keys.enumerated() { cache[key] = index }
    for _ in 0..<2 {
      for (index, key) in keys.enumerated() {
        #expect(cache[key] == index)
      }
      try cache.sync()
    }
    cache.clearMemoryCache()
    #expect(cache[composed] == 0 && cache[decomposed] == 1)
  }

  @Test func `Memory alone works without a store`() throws {
    let cache = PersistentCache<Int, Reading>(storage: nil)
    for index in 0..<1000 { cache[index] = sample(index) }
    for index in 0..<1000 { #expect(cache[index] == sample(index)) }
    cache[5] = nil
    #expect(cache[5] == nil)
    try cache.removeAll()
    #expect(cache[6] == nil)
  }

  @Test func `The memory tier stays within its bounds and never loses the store's value`() throws {
    let cache = PersistentCache<Int, Reading>(
      storage: store, namespace: "r", options: .init(memoryCountLimit: 50))
    for index in 0..<500 { cache[index] = sample(index) }
    for index in 0..<500 { #expect(cache[index] == sample(index)) }
    try cache.sync()
    let before = try store.statistics().storeHits
    for index in 0..<500 { #expect(cache[index] == sample(index)) }
    // What is not in memory is read from the store.
    #expect(try store.statistics().storeHits >= before + 400)
  }

  @Test func `An item that expired is gone for subscript, item and fetch`() throws {
    let clock = Shared<Int64>(1_000_000)
    let store = try SharedStore(
      at: directory.path + "/timed",
      .init(clock: StoreClock { clock.value.withLock { $0 } }))
    let cache = PersistentCache<String, Int>(storage: store)
    try store.setBytes([1], forKey: "other")
    cache[item: "a"] = Item(7, expiration: .init(timeIntervalSince1970: 1001))
    #expect(cache["a"] == 7)
    try cache.sync()
    #expect(cache[item: "a"]?.value == 7)
    clock.value.withLock { $0 = 1_001_000 }
    #expect(cache["a"] == nil)
    #expect(cache[item: "a"] == nil)
    #expect(cache.fetch("a") { 9 } == 9)
    #expect(try store.removeExpired() <= 1)
    #expect(try store.verify() == [])
  }

  @Test func `A computation runs once for many callers and its result is stored`() async throws {
    let cache = PersistentCache<String, Int>(storage: store, namespace: "flight")
    let calls = Shared(0)
    let values = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<32 {
        group.addTask {
          try await cache.value(forKey: "k") {
            calls.value.withLock { $0 += 1 }
            await Task.yield()
            return 42
          }
        }
      }
      return try await group.reduce(into: [Int]()) { $0.append($1) }
    }
    #expect(values == Array(repeating: 42, count: 32))
    #expect(calls.value.withLock { $0 } == 1)
    cache.clearMemoryCache()
    #expect(cache["k"] == 42)
  }

  @Test func `A removal during a computation keeps its result out of the store`() async throws {
    let cache = PersistentCache<String, Int>(storage: store, namespace: "flight")
    let other = PersistentCache<String, Int>(storage: store, namespace: "flight")
    let value = try await cache.value(forKey: "k") {
      _ = try await other.removeValue(forKey: "k")
      return 1
    }
    #expect(value == 1)
    #expect(cache["k"] == nil)
    _ = try await cache.value(forKey: "k") {
      try await other.setValue(5, forKey: "k")
      return 2
    }
    #expect(cache["k"] == 5)
    #expect(try store.statistics().rejectedFills == 2)
  }

  @Test func `Without a store, too, a write during a computation outlives its result`() async throws
  {
    let cache = PersistentCache<String, Int>(storage: nil)
    let first = try await cache.value(forKey: "k") {
      cache["k"] = 2
      return 1
    }
    #expect(first == 1 && cache["k"] == 2)
    try await cache.removeAll()
    _ = try await cache.value(forKey: "k") {
      cache["k"] = nil
      return 1
    }
    #expect(cache["k"] == nil)
  }

  @Test func `A computation that requests its own key gets an error, not a hang`() async throws {
    let cache = PersistentCache<String, Int>(storage: store, namespace: "flight")
    let error = await #expect(throws: StoreError.self) {
      try await cache.value(forKey: "k") {
        try await cache.value(forKey: "k") { 1 } + 1
      }
    }
    #expect(error?.code == .recursiveComputation)
    #expect(try await cache.value(forKey: "k") { 3 } == 3)
  }

  @Test func `Writers continue through repeated generation switches`() async throws {
    let cache = PersistentCache<Int, Int>(storage: store, namespace: "moves")
    let stop = Shared(false)
    let mover = JoinableThread { [store] in
      for _ in 0..<40 {
        if let generation = try? store.core.generation() {
          generation.table.fence()
          _ = try? store.core.switchGeneration(from: generation)
        }
      }
      stop.value.withLock { $0 = true }
    }
    var written = 0
    while !stop.value.withLock({ $0 }) {
      try await cache.setValue(written, forKey: written % 7)
      written += 1
    }
    mover.join()
    try await cache.setValue(-1, forKey: 0)
    cache.clearMemoryCache()
    #expect(cache[0] == -1)
    #expect(try store.verify() == [])
  }

  @Test func `Asynchronous writes during a close succeed or fail, and return`() async throws {
    for round in 0..<40 {
      let store = try SharedStore(at: directory.path + "/closing")
      let cache = PersistentCache<Int, Int>(storage: store)
      await withTaskGroup(of: Void.self) { group in
        for task in 0..<3 {
          group.addTask { for index in 0..<20 { try? await cache.setValue(index, forKey: task) } }
        }
        group.addTask {
          if round % 2 == 0 { await Task.yield() }
          store.close()
        }
      }
    }
  }

  @Test func `A value of another type is a miss of the subscript and an error of value(forKey:)`()
    throws
  {
    let text = PersistentCache<String, String>(storage: store, namespace: "t")
    let numbers = PersistentCache<String, Int>(storage: store, namespace: "t")
    text["k"] = "hello"
    try text.sync()
    numbers.clearMemoryCache()
    #expect(numbers["k"] == nil)
    #expect(throws: StoreError.self) { try numbers.value(forKey: "k") }
  }
}
