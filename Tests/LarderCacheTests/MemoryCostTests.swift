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

/// The stated cost of values in memory, and the recorded times of their uses.
@Suite(.timeLimit(.minutes(60))) struct MemoryCostTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  @Test(arguments: [true, false])
  func `A stated cost bounds the values in memory`(hasStore: Bool) throws {
    let calls = Counter()
    let options = CacheOptions(memoryCostLimit: .bytes(100), memoryCountLimit: 1000)
    let cache = PersistentCache<Int, [Int]>(
      storage: hasStore ? try SharedStore(at: directory.path + "/store") : nil, options: options,
      cost: { value in
        calls.add()
        return value.count
      })
    for key in 0..<20 { try cache.setValue([Int](repeating: key, count: 10), forKey: key) }
    #expect(calls.count == 20)
    // The values in memory are found without a read of the store.
    let before = hasStore ? try #require(cache.storage).statistics().storeHits : 0
    let found = (0..<20).count { cache[$0] != nil }
    let storeHits = hasStore ? try #require(cache.storage).statistics().storeHits - before : 0
    #expect(found == (hasStore ? 20 : 10))
    #expect(hasStore ? storeHits >= 10 : storeHits == 0)
    // Larger than the limit: it is not kept in memory.
    try cache.setValue([Int](repeating: 1, count: 101), forKey: 100)
    #expect(try cache.value(forKey: 100)?.count == (hasStore ? 101 : nil))
    // A cost below zero counts as zero.
    let free = PersistentCache<Int, Int>(
      storage: nil as SharedStore?, options: options, cost: { _ in -5 })
    for key in 0..<500 { try free.setValue(key, forKey: key) }
    #expect((0..<500).allSatisfy { free[$0] == $0 })
  }

  private final class Counter: Sendable {
    private let calls = Mutex(0)
    var count: Int { calls.withLock { $0 } }
    func add() { calls.withLock { $0 += 1 } }
  }

  @Test func `Values that no process has used since a date are removed`() throws {
    let clock = ManualClock(milliseconds: 1_000_000_000)
    let store = try SharedStore(
      at: directory.path + "/store", StoreOptions(clock: StoreClock { clock.now }))
    let cache = PersistentCache<Int, Int>(storage: store, namespace: "first")
    let other = PersistentCache<Int, Int>(storage: store, namespace: "second")
    for key in 0..<100 { try cache.setValue(key, forKey: key) }
    try other.setValue(1, forKey: 1)
    try cache.setValue(1, forKey: 1000, pinned: true)
    clock.advance(by: .seconds(100))
    // A write advances the recency clock to the time of the uses.
    try cache.setValue(2, forKey: 2000)
    for key in 0..<50 { #expect(cache[key] == key) }
    let since = Date(timeIntervalSince1970: Double(clock.now) / 1000)
    #expect(try cache.lastUse(forKey: 7).map { since.timeIntervalSince($0) < 17 } == true)
    #expect(try cache.lastUse(forKey: 70).map { since.timeIntervalSince($0) >= 100 } == true)
    #expect(try cache.lastUse(forKey: 5000) == nil)
    #expect(try cache.removeUnused(since: since) == 50)
    for key in 0..<100 { #expect(cache[key] == (key < 50 ? key : nil)) }
    #expect(cache[1000] == 1 && cache[2000] == 2 && other[1] == 1)
    clock.advance(by: .seconds(100))
    try cache.setValue(3, forKey: 3000)
    clock.advance(by: .seconds(100))
    #expect(
      try store.removeUnused(since: Date(timeIntervalSince1970: Double(clock.now) / 1000)) == 53)
    #expect(try store.statistics().entries == 1)
    #expect(try store.verify() == [])
    let memory = PersistentCache<Int, Int>(storage: nil as SharedStore?)
    #expect(throws: StoreError.self) { try memory.lastUse(forKey: 1) }
  }
}
