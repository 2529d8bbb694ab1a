// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Metrics && Tools
import CoreMetrics
import Larder
import LarderEngine
import LarderMetrics
import LarderTesting
import MetricsTestKit
import Testing

@Suite(.timeLimit(.minutes(60))) struct TimerTests {
  let factory = TestMetrics()

  private func times(_ name: String, _ store: SharedStore) throws -> [Int64] {
    try factory.expectTimer(name, [("store", store.path), ("app", "mail")]).values
  }

  private func options(_ durability: Durability = .cache) -> StoreOptions {
    var options = StoreOptions(
      durability: durability, syncInterval: durability == .relaxed ? .seconds(3600) : nil)
    // The store's thread begins no transaction that a test counts.
    options.sweepsWhenIdle = false
    options.idleSyncDelay = nil
    return options.recordingTimings(dimensions: [("app", "mail")], factory: factory)
  }

  @Test func `Each commit and each computation is timed, failed or not`() async throws {
    let temporary = try TemporaryStore(options())
    let store = temporary.store
    for key in 0..<5 { try await store.setBytes([1], forKey: key) }
    #expect(try times("larder_commit_duration", store).count == 5)
    #expect(try times("larder_commit_duration", store).allSatisfy { $0 > 0 })
    #expect(throws: CancellationError.self) { try store.write { _ in throw CancellationError() } }
    #expect(try times("larder_commit_duration", store).count == 6)

    let cache = PersistentCache<String, Int>(storage: store, namespace: "values")
    #expect(try await cache.value(forKey: "a") { 1 } == 1)
    #expect(try await cache.value(forKey: "a") { 2 } == 1)
    #expect(try times("larder_computation_duration", store).count == 1)
    await #expect(throws: CancellationError.self) {
      try await cache.value(forKey: "b") { throw CancellationError() }
    }
    #expect(try times("larder_computation_duration", store).count == 2)
  }

  @Test func `Each sync of a relaxed store is timed`() throws {
    let temporary = try TemporaryStore(options(.relaxed))
    try temporary.store.setBytes([1], forKey: 1)
    try temporary.store.sync()
    let first = try times("larder_sync_duration", temporary.store).count
    #expect(first >= 1)
    try temporary.store.setBytes([2], forKey: 1)
    try temporary.store.sync()
    // The store's thread syncs as well, a second after the first commit.
    #expect(try times("larder_sync_duration", temporary.store).count > first)
  }

  @Test func `A wait is timed with its kind, and belongs to no other timer`() async throws {
    let temporary = try TemporaryStore(options())
    let store = temporary.store
    #expect(throws: StoreError.self) {
      try store.lock("a").withLock { _ in
        let other = JoinableThread {
          Result { try store.lock("a").withLock(timeout: .milliseconds(5)) { _ in } }
        }
        try other.join().get()
      }
    }
    let timers = factory.timers
    #expect(timers.map(\.label) == ["larder_wait_duration"])
    #expect(timers.first?.dimensions.map(\.0) == ["store", "app", "kind"])
    #expect(timers.first?.dimensions.last?.1 == "lock")
    #expect(timers.first?.values.count == 1)
  }

  @Test func `Timers go with the store, and reads have none`() throws {
    do {
      let temporary = try TemporaryStore(options())
      try temporary.store.setBytes([1], forKey: 1)
      _ = try temporary.store.bytes(forKey: 1)
      #expect(factory.timers.map(\.label) == ["larder_commit_duration"])
      temporary.store.close()
    }
    #expect(factory.timers.isEmpty)
  }
}
#endif
