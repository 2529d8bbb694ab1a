// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// The removal of expired entries, which no call asks for.
@Suite(.timeLimit(.minutes(60))) struct ExpirySweepTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// Only the times that a test gives count, not those of the store's thread.
  private func options(_ durability: Durability = .cache) -> StoreOptions {
    var options = StoreOptions(durability: durability, clock: clock.storeClock)
    options.sweepsWhenIdle = false
    return options
  }

  /// Stores entries that expire after ten seconds, and one that never does.
  private func fill(_ store: SharedStore, _ keys: Range<Int>) throws {
    try store.write { transaction in
      for key in keys {
        try transaction.setBytes([1, 2, 3], forKey: key, expires: .after(.seconds(10)))
      }
      try transaction.setBytes([4], forKey: -1)
    }
  }

  /// Runs the steps that the store's thread begins once a second.
  private func sweep(_ store: SharedStore) throws -> Bool {
    let hasBegun = store.core.sweepExpired(in: try store.core.generation())
    try eventually("the removal ends") { !store.core.isSweepingExpired }
    return hasBegun
  }

  @Test(arguments: Durability.allCases)
  func `A transaction that stores entries removes a few that have expired`(
    durability: Durability
  ) throws {
    let store = try SharedStore(at: path, options(durability))
    try fill(store, 0..<100)
    clock.advance(by: .seconds(9))
    try store.setBytes([1], forKey: 1000)
    #expect(try store.statistics().entries == 102)
    clock.advance(by: .seconds(1))
    var statistics = try store.statistics()
    #expect(statistics.entries == 102 && statistics.expiredEntries == 100)
    // Four of each single write, 2n + 2 of n writes.
    try store.setBytes([1], forKey: 1001)
    #expect(try store.statistics().expirations == 4)
    try store.write { transaction in
      for key in 1002..<1012 { try transaction.setBytes([1], forKey: key) }
    }
    #expect(try store.statistics().expirations == 26)
    for key in 0..<20 { try store.setBytes([1], forKey: key) }
    statistics = try store.statistics()
    #expect(statistics.expirations + statistics.expiredEntries <= 100)
    #expect(statistics.expiredEntries == 0 && statistics.entries == 33)
    for key in 20..<100 { #expect(try store.bytes(forKey: key) == nil) }
    #expect(try store.verify() == [])
  }

  @Test func `A transaction that only removes or reads leaves expired entries stored`() throws {
    let store = try SharedStore(at: path, options())
    try fill(store, 0..<100)
    clock.advance(by: .seconds(10))
    #expect(try store.bytes(forKey: -1) == [4])
    try store.namespace("").remove(forKey: -1)
    #expect(try store.statistics().expiredEntries == 100)
  }

  @Test(arguments: Durability.allCases)
  func `The store's thread removes all expired entries in bounded steps, also without a budget`(
    durability: Durability
  ) throws {
    let store = try SharedStore(at: path, options(durability))
    for start in stride(from: 0, to: 5000, by: 500) { try fill(store, start..<(start + 500)) }
    #expect(try !sweep(store))
    clock.advance(by: .seconds(10))
    let before = try store.statistics()
    #expect(before.entries == 5001 && before.expiredEntries == 5000)
    #expect(try sweep(store))
    let after = try store.statistics()
    #expect(after.entries == 1 && after.expiredEntries == 0 && after.expirations == 5000)
    #expect(after.commits - before.commits >= 5)
    #expect(try !sweep(store))
    #expect(try store.bytes(forKey: -1) == [4])
    #expect(try store.verify() == [])
  }

  @Test(arguments: Durability.allCases)
  func `A process that has only read removes no expired entry and changes no file`(
    durability: Durability
  ) throws {
    var store = try SharedStore(at: path, options(durability))
    try fill(store, 0..<100)
    store.close()
    clock.advance(by: .seconds(20))
    let files = try StoreFiles(of: path)
    let watched = [files.current, files.state, files.data]
    let before = try watched.map { try ReadOnlyProcessTests.Snapshot($0) }
    store = try SharedStore(at: path, options(durability))
    #expect(try store.bytes(forKey: 1) == nil)
    #expect(try store.statistics().expiredEntries == 100)
    #expect(try !sweep(store))
    store.close()
    #expect(try watched.map { try ReadOnlyProcessTests.Snapshot($0) } == before)
    store = try SharedStore(at: path, options(durability))
    try store.setBytes([1], forKey: 1000)
    #expect(try sweep(store))
    #expect(try store.statistics().entries == 2)
  }

  @Test func `The word of the earliest expiration follows the stored entries`() throws {
    let store = try SharedStore(at: path, options())
    let table = try store.core.generation().table
    let now = clock.now
    #expect(table.earliestExpiry == 0)
    try store.setBytes([1], forKey: 0)
    #expect(table.earliestExpiry == Int64.max)
    try store.setBytes([1], forKey: 1, expires: .after(.seconds(20)))
    #expect(table.earliestExpiry == now + 20_000)
    try store.setBytes([1], forKey: 2, expires: .after(.seconds(10)))
    try store.setBytes([1], forKey: 3, expires: .after(.seconds(30)))
    #expect(table.earliestExpiry == now + 10_000)
    // An entry that was replaced: the word is too low, and a search corrects it.
    try store.setBytes([1], forKey: 2)
    #expect(table.earliestExpiry == now + 10_000)
    clock.advance(by: .seconds(10))
    try store.setBytes([1], forKey: 0)
    #expect(table.earliestExpiry == now + 20_000)
    clock.advance(by: .seconds(10))
    try store.setBytes([1], forKey: 4, expires: .after(.seconds(5)))
    #expect(table.earliestExpiry == now + 25_000)
    #expect(try store.statistics().expirations == 1)
  }

  @Test func `Stamps of a transaction that was not committed make the next one search`() throws {
    let store = try SharedStore(at: path, options())
    try fill(store, 0..<3)
    let table = try store.core.generation().table
    clock.advance(by: .seconds(10))
    // A writer that was killed after it stored its stamps and the time that it found.
    table.lastStamped += 1
    table.earliestExpiry = .max
    try store.setBytes([1], forKey: 1000)
    #expect(try store.statistics().entries == 2)
    #expect(try store.verify() == [])
  }

  @Test func `A damaged word of the earliest expiration lasts until the next process writes`()
    throws
  {
    var store = try SharedStore(at: path, options())
    try fill(store, 0..<100)
    let other = try store.core.generation().table
    other.earliestExpiry = .max
    clock.advance(by: .seconds(10))
    try store.setBytes([1], forKey: 1000)
    #expect(try store.statistics().expiredEntries == 100)
    store.close()
    store = try SharedStore(at: path, options())
    try store.setBytes([1], forKey: 1000)
    #expect(try sweep(store))
    #expect(try store.statistics().entries == 2)
  }

  @Test func `Large entries that have expired are removed with their chunks`() throws {
    let store = try SharedStore(at: path, options())
    let value = [UInt8](repeating: 7, count: 300_000)
    for key in 0..<20 { try store.setBytes(value, forKey: key, expires: .after(.seconds(10))) }
    clock.advance(by: .seconds(10))
    try store.setBytes([1], forKey: 0)
    #expect(try sweep(store))
    #expect(try store.statistics().entries == 1)
    #expect(try store.verify() == [])
  }

  // MARK: Jumps of the clock

  @Test func `After a jump back, entries that were not removed are visible until their time`()
    throws
  {
    let store = try SharedStore(at: path, options())
    let cache = PersistentCache<Int, Int>(storage: store)
    let start = clock.now
    func values() -> [Int?] {
      let memory = (0..<3).map { cache[$0] }
      cache.clearMemoryCache()
      #expect((0..<3).map { cache[$0] } == memory)
      return memory
    }
    for key in 0..<3 { try cache.setValue(key, forKey: key, expires: .after(.seconds(10))) }
    clock.advance(by: .seconds(3600))
    #expect(values() == [nil, nil, nil])
    clock.set(to: start + 9_999)
    #expect(values() == [0, 1, 2])
    clock.set(to: start + 10_000)
    #expect(values() == [nil, nil, nil])
    // A write an hour later removes them. It expires an hour late once the clock is set back.
    clock.advance(by: .seconds(3600))
    try cache.setValue(9, forKey: 9, expires: .after(.seconds(10)))
    clock.set(to: start)
    #expect(values() == [nil, nil, nil])
    #expect(cache[9] == 9)
    clock.set(to: start + 3_619_999)
    #expect(cache[9] == 9)
    clock.set(to: start + 3_620_000)
    #expect(cache[9] == nil)
  }

  @Test func `After a jump back, entries that were removed stay removed in memory too`() throws {
    let store = try SharedStore(at: path, options())
    let caches = (0..<2).map { _ in PersistentCache<Int, Int>(storage: store) }
    try caches[0].setValue(1, forKey: 1, expires: .after(.seconds(10)))
    for cache in caches { #expect(cache[1] == 1) }
    clock.advance(by: .seconds(3600))
    #expect(try store.removeExpired() == 1)
    clock.advance(by: .seconds(-3600))
    for cache in caches { #expect(cache[1] == nil) }
    #expect(try store.bytes(forKey: 1) == nil)
  }
}
