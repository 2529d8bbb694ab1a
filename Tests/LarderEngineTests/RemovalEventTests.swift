// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderTesting
import Testing

/// The events of removed entries.
@Suite(.timeLimit(.minutes(60))) struct RemovalEventTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  private func open(
    _ clock: ManualClock? = nil, budget: ByteCount? = nil, entries: Int? = nil
  ) throws -> SharedStore {
    var options = StoreOptions(budget: budget)
    if let clock { options.clock = StoreClock { clock.now } }
    options.entryBudget = entries
    options.sweepsWhenIdle = false
    return try SharedStore(at: path, options)
  }

  @Test func `Each cause of a removal is reported with key, namespace, size and process`()
    async throws
  {
    let clock = ManualClock(milliseconds: 1000)
    let store = try open(clock)
    let names = try store.namespace("names")
    var removals = store.removals.makeAsyncIterator()
    func next(_ cause: RemovalCause, _ key: Int, bytes: Int = 64 + 8 + 3) async throws {
      guard case .entry(let entry)? = await removals.next() else {
        Issue.record("no event of \(cause)")
        return
      }
      #expect(entry.cause == cause && entry.key(as: Int.self) == key)
      #expect(entry.namespace == "names" && entry.keyText == "\(key)")
      #expect(entry.bytes == bytes && entry.pid == ProcessInfo.processInfo.processIdentifier)
      #expect(!entry.isNegative && entry.key(as: String.self) == nil)
    }
    try await names.setBytes([1, 2, 3], forKey: 1)
    try await names.setBytes([1, 2, 4], forKey: 1)
    try await next(.replaced, 1)
    await #expect(try names.remove(forKey: 1))
    try await next(.removed, 1)
    try await names.setBytes([1, 2, 3], forKey: 2, expires: .after(.seconds(1)))
    clock.advance(by: .seconds(1))
    _ = try store.core.removeExpired()
    try await next(.expired, 2)
    // What no process could see any more was not removed by the caller.
    try await names.setBytes([1, 2, 3], forKey: 3, expires: .after(.seconds(1)))
    clock.advance(by: .seconds(1))
    await #expect(try !names.remove(forKey: 3))
    try await next(.expired, 3)
    try await names.setBytes([1, 2, 3], forKey: 4, tags: ["tag"])
    try await names.removeAll(tagged: "tag")
    try await names.setBytes([5], forKey: 4)
    try await next(.invalidated, 4, bytes: 64 + 16 + 8 + 3)
    try await names.removeAll()
    try await next(.invalidated, 4, bytes: 64 + 8 + 1)
    store.close()
    #expect(await removals.next() == nil)
  }

  @Test(arguments: EvictionPolicy.all)
  func `Evictions are reported, exactly those that took place`(policy: EvictionPolicy) async throws
  {
    let store = try open(entries: 100)
    var limits = try store.limits()
    limits.evictionPolicy = policy
    try store.setLimits(limits)
    var removals = store.removals.makeAsyncIterator()
    try await store.write { transaction in
      for key in 0..<100 { try transaction.setBytes([1], forKey: key) }
    }
    var evicted: Set<Int> = []
    for key in 100..<300 {
      try await store.setBytes([1], forKey: key)
      guard case .entry(let entry)? = await removals.next() else {
        Issue.record("no event for key \(key)")
        continue
      }
      #expect(entry.cause == .evicted)
      evicted.insert(try #require(entry.key(as: Int.self)))
    }
    for key in 0..<300 {
      #expect(try (store.bytes(forKey: key) == nil) == evicted.contains(key), "\(key)")
    }
  }

  @Test func `A subscriber that falls behind gets a gap with the number of missed events`()
    async throws
  {
    let store = try open()
    var removals = store.removals.makeAsyncIterator()
    for round in 0..<30 {
      try await store.write { transaction in
        for key in 0..<200 { try transaction.setBytes([UInt8(round)], forKey: key) }
      }
    }
    // 29 × 200 events of five words are more than the ring has.
    var (events, missed) = (0, 0)
    var isFirst = true
    while events + missed < 5800 {
      switch await removals.next() {
      case .entry: events += 1
      case .gap(let count?):
        #expect(isFirst)
        missed += count
      default:
        // The task of a test that exceeds its time limit is cancelled.
        Issue.record("an end")
        return
      }
      isFirst = false
    }
    #expect(events + missed == 5800 && missed > 0)
    try await store.setBytes([1], forKey: 7)
    guard case .entry(let entry)? = await removals.next() else {
      Issue.record("no event after the gap")
      return
    }
    #expect(entry.key(as: Int.self) == 7)
    // One transaction with too many events.
    try await store.write { transaction in
      for round in 0..<20 {
        for key in 0..<200 { try transaction.setBytes([UInt8(round)], forKey: key) }
      }
    }
    (events, missed) = (0, 0)
    try await store.setBytes([1], forKey: 8)
    while events + missed < 4001 {
      switch await removals.next() {
      case .entry: events += 1
      case .gap(let count?): missed += count
      default:
        // The task of a test that exceeds its time limit is cancelled.
        Issue.record("an end")
        return
      }
    }
    #expect(events > 1000 && missed > 1000)
  }

  @Test func `Without a subscriber nothing is recorded`() async throws {
    let store = try open()
    for _ in 0..<3 { try await store.setBytes([1], forKey: 1) }
    var removals = store.removals.makeAsyncIterator()
    try await store.setBytes([2], forKey: 1)
    guard case .entry(let entry)? = await removals.next() else {
      Issue.record("no event")
      return
    }
    #expect(entry.cause == .replaced)
    #expect(try store.core.removalEvents() == 1)
  }

  @Test func `Keys of more than 256 bytes are cut, and large entries have their keys`() async throws
  {
    let store = try open()
    var removals = store.removals.makeAsyncIterator()
    let keys = ["short", String(repeating: "x", count: 256), String(repeating: "y", count: 40_000)]
    for key in keys {
      try await store.setBytes([UInt8](repeating: 1, count: 100_000), forKey: key)
      try await store.remove(forKey: key)
      guard case .entry(let entry)? = await removals.next() else {
        Issue.record("no event")
        return
      }
      if key.utf8.count <= 256 {
        #expect(entry.key(as: String.self) == key && entry.keyText == key)
      } else {
        #expect(entry.key(as: String.self) == nil)
        #expect(entry.keyText == key.prefix(256) + "…")
      }
    }
  }

  @Test func `A failed transaction reports nothing, and a compaction is a gap`() async throws {
    struct Failure: Error {}
    let store = try open()
    try await store.setBytes([1], forKey: 1)
    var removals = store.removals.makeAsyncIterator()
    #expect(throws: Failure.self) {
      try store.core.write { transaction in
        try transaction.setBytes([2], forKey: 1)
        throw Failure()
      }
    }
    try await store.compact()
    #expect(await removals.next() == .gap(count: nil))
    try await store.setBytes([3], forKey: 1)
    guard case .entry(let entry)? = await removals.next() else {
      Issue.record("no event")
      return
    }
    #expect(entry.cause == .replaced && entry.key(as: Int.self) == 1)
  }

  @Test func `An iterator ends when its task is cancelled`() async throws {
    let store = try open()
    let task = Task {
      var count = 0
      for await _ in store.removals { count += 1 }
      return count
    }
    task.cancel()
    #expect(await task.value == 0)
  }
}
