// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderCache
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// Batches of writes that are larger than the room for them.
@Suite(.timeLimit(.minutes(60))) struct EvictedOwnTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  private func open(_ budget: ByteCount) throws -> SharedStore {
    try SharedStore(
      at: directory.path + "/store", StoreOptions(budget: budget, writeTimeout: .seconds(800)))
  }

  /// Queues all writes of `body` behind one transaction, so that they are one batch.
  private func inOneBatch(_ store: SharedStore, _ body: () -> Void) throws {
    let (entered, goOn) = (Event(), Event())
    let holder = JoinableThread {
      try? store.write { _ in
        entered.set()
        goOn.wait(nanoseconds: 800_000_000_000)
      }
    }
    entered.wait(nanoseconds: 800_000_000_000)
    body()
    goOn.set()
    holder.join()
  }

  @Test(arguments: [EvictionPolicy.adaptive, .sampledLRU], [false, true])
  func `What a batch stores and evicts again is in no memory`(
    policy: EvictionPolicy, hasMaximum: Bool
  ) throws {
    let store = try open(hasMaximum ? .megabytes(64) : .megabytes(3))
    try store.setLimits(
      StoreLimits(budget: hasMaximum ? .megabytes(64) : .megabytes(3), evictionPolicy: policy))
    let pages = PersistentCache<Int, [UInt8]>(storage: store, namespace: "pages")
    let space = try store.namespace("pages")
    if hasMaximum { try space.setLimits(NamespaceLimits(maximum: .megabytes(3))) }
    let page = [UInt8](repeating: 7, count: 4000)
    try inOneBatch(store) { for key in 0..<1500 { pages[key] = page } }
    try pages.sync()
    let stored = try (0..<1500).filter { try space.contains($0) }
    #expect((500..<1000).contains(stored.count))
    #expect((0..<1500).filter { pages[$0] != nil } == stored)
    for key in 0..<1500 {
      try space.remove(forKey: key)
      #expect(pages[key] == nil)
    }
    #expect(try store.verify() == [])
  }

  @Test func `A large batch is committed where a namespace keeps all its entries`() throws {
    let store = try open(.megabytes(3))
    let counters = PersistentCache<Int, Int>(storage: store, namespace: "counters")
    try store.namespace("counters").setLimits(NamespaceLimits(minimum: .megabytes(1)))
    try counters.setValues((0..<5000).map { (key: $0, value: 1) })
    let pages = PersistentCache<Int, [UInt8]>(storage: store, namespace: "pages")
    let page = [UInt8](repeating: 7, count: 4000)
    try inOneBatch(store) { for key in 0..<1800 { pages[key] = page } }
    // Throws the first error of a queued write.
    try pages.sync()
    #expect((0..<5000).filter { counters[$0] != 1 } == [])
    let statistics = try store.statistics()
    #expect(statistics.sets == 5000 + 1800 || statistics.sets == 1 + 1800)
    #expect(statistics.bytes <= ByteCount.megabytes(3).bytes && statistics.entries > 5300)
    #expect(try store.verify() == [])
  }

  @Test func `An entry that was removed by tag counts as no eviction and no expiration`() throws {
    let store = try open(.megabytes(1))
    let pages = PersistentCache<Int, [UInt8]>(storage: store)
    let page = [UInt8](repeating: 7, count: 4000)
    for key in 0..<200 {
      try pages.setValue(page, forKey: key, expires: .after(.seconds(600)), tags: ["all"])
    }
    try pages.removeAll(tagged: "all")
    for key in 1000..<1200 { try pages.setValue(page, forKey: key) }
    let statistics = try store.statistics()
    #expect(statistics.expirations == 0 && statistics.evictions == 0)
    for key in 2000..<2200 { try pages.setValue(page, forKey: key) }
    #expect(try store.statistics().evictions > 100)
  }

  @Test(arguments: [true, false])
  func `A caller that comes after a removal does not join a computation from before it`(
    hasStore: Bool
  ) async throws {
    let cache = PersistentCache<String, String>(
      storage: hasStore ? try open(.megabytes(3)) : nil)
    for isTagged in [true, false] {
      let (entered, goOn) = (Event(), Event())
      let first = Task {
        try await cache.value(forKey: "k", tags: isTagged ? ["t"] : []) {
          entered.set()
          _ = try await BlockingWork.run { goOn.wait(nanoseconds: 800_000_000_000) }
          return "old"
        }
      }
      _ = try await BlockingWork.run { entered.wait(nanoseconds: 800_000_000_000) }
      if isTagged {
        try await cache.removeAll(tagged: "t")
      } else {
        try await cache.removeValue(forKey: "k")
      }
      let second = Task { try await cache.value(forKey: "k", tags: ["t"]) { "new" } }
      // Most likely the second call waits by now.
      for _ in 0..<1000 { await Task.yield() }
      goOn.set()
      #expect(try await first.value == "old")
      #expect(try await second.value == "new")
      #expect(try await cache.value(forKey: "k") == "new")
      try await cache.removeValue(forKey: "k")
    }
  }
}
