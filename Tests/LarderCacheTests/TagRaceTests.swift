// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderCache
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// Removals by tag at the same time as sweeps, computations and observers, and what pins leave others.
@Suite(.timeLimit(.minutes(60))) struct TagRaceTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  private func open(
    budget: ByteCount? = nil, entries: Int? = nil, clock: ManualClock? = nil, sweeps: Bool = false
  ) throws -> SharedStore {
    var options = StoreOptions(budget: budget)
    if let clock { options.clock = StoreClock { clock.now } }
    options.entryBudget = entries
    options.sweepsWhenIdle = sweeps
    return try SharedStore(at: directory.path + "/store", options)
  }

  /// Lets the store's thread sweep, and waits until it has.
  private func sweep(_ store: SharedStore) throws {
    store.core.sweepExpired(in: try store.core.generation())
    try eventually("the sweep ends") { !store.core.isSweepingExpired }
  }

  @Test(arguments: [999, 1000, 2500])
  func `A sweep after many removals by tag ends, and leaves no record`(count: Int) throws {
    let store = try open()
    let names = try store.namespace("")
    try names.setBytes([1], forKey: 1, tags: ["t1"])
    for number in 0..<count { try store.removeAll(tagged: "t\(number)") }
    try sweep(store)
    #expect(try store.core.tagRecords() == 0 && store.statistics().entries == 0)
    #expect(try store.verify() == [])
  }

  @Test func `A computation is not stored although the record of its removed tag was deleted`()
    async throws
  {
    let store = try open()
    let cache = PersistentCache<Int, Int>(storage: store, namespace: "first")
    let other = PersistentCache<Int, Int>(storage: store, namespace: "second")
    try await cache.setValue(0, forKey: 99)
    let value = try await cache.value(forKey: 1, tags: ["tag"]) { [self] in
      try await store.removeAll(tagged: "tag")
      try sweep(store)
      #expect(try store.core.tagRecords() == 0)
      // A new record of the tag, for entries of another namespace.
      try await other.removeAll(tagged: "tag")
      return 42
    }
    #expect(value == 42)
    #expect(try await cache.state(forKey: 1) == .unknown)
  }

  @Test func `A sweep spares the record of a removal that has the version of a failed one`() throws
  {
    let store = try open()
    let names = try store.namespace("")
    for key in 0..<100 { try names.setBytes([1], forKey: key, tags: ["tag"]) }
    try store.removeAll(tagged: "other tag")
    // The word that W3 stores, as if the next transaction had stored it and was not committed.
    try store.core.pretendRemovalByTag()
    try sweep(store)
    try store.removeAll(tagged: "tag")
    try sweep(store)
    for key in 0..<100 { #expect(try names.bytes(forKey: key) == nil) }
    #expect(try store.verify() == [])
  }

  @Test func `An observer of a value sees its removal by tag without a sweep`() async throws {
    let store = try open()
    let cache = PersistentCache<Int, Int>(storage: store, namespace: "first")
    try await cache.setValue(7, forKey: 1, tags: ["tag"])
    var values = cache.values(forKey: 1).makeAsyncIterator()
    #expect(try await values.next() == .some(7))
    try await cache.removeAll(tagged: "tag")
    #expect(try await values.next() == .some(nil))
  }

  @Test func `A value and a negative entry of one key in turns keep the count of the small queue`()
    throws
  {
    let store = try open(budget: .kilobytes(400))
    let names = try store.namespace("")
    func smallBytes() throws -> UInt64 {
      try store.core.generation().table.queueWord(EvictionQueues.Word.smallBytes.rawValue)
    }
    for key in 0..<200 { try names.setBytes([UInt8](repeating: 1, count: 1000), forKey: key) }
    let before = try smallBytes()
    for _ in 0..<10 {
      for key in 0..<40 {
        try names.setAbsent(forKey: key, expires: .never)
        try names.setBytes([UInt8](repeating: 1, count: 1000), forKey: key)
      }
    }
    #expect(try smallBytes() == before)
    #expect(try store.verify() == [])
  }

  // MARK: Pins

  @Test func `An entry that pins leave no room for evicts nothing`() throws {
    let store = try open(budget: .kilobytes(100))
    let names = try store.namespace("")
    for key in 0..<4 {
      try names.setBytes([UInt8](repeating: 1, count: 10_000), forKey: key, pinned: true)
    }
    for key in 10..<50 { try names.setBytes([UInt8](repeating: 1, count: 1000), forKey: key) }
    try store.write { transaction in
      _ = #expect(throws: StoreError.self) {
        try transaction.setBytes([UInt8](repeating: 1, count: 70_000), forKey: 10)
      }
    }
    #expect(try store.statistics().entries == 44)
    #expect(try names.bytes(forKey: 10)?.count == 1000)
  }

  @Test(arguments: [true, false])
  func `Pins that no process can see any more make room for others`(expire: Bool) throws {
    let clock = ManualClock(milliseconds: 1_000_000)
    let store = try open(budget: .kilobytes(100), entries: 10, clock: clock)
    let names = try store.namespace("")
    func pin(_ keys: Range<Int>) throws {
      for key in keys {
        try names.setBytes(
          [UInt8](repeating: 1, count: 10_000), forKey: key, expires: .after(.seconds(1)),
          tags: ["tag"], pinned: true)
      }
    }
    try pin(0..<4)
    if expire { clock.advance(by: .seconds(2)) } else { try store.removeAll(tagged: "tag") }
    try pin(10..<14)
    for key in 10..<14 { #expect(try names.contains(key)) }
    #expect(try store.verify() == [])
  }

  @Test func `A store opens with a budget that its pins do not allow, keeps its own and says so`()
    throws
  {
    do {
      let store = try open(budget: .kilobytes(100))
      try store.setBytes([UInt8](repeating: 1, count: 45_000), forKey: 1, pinned: true)
      store.close()
    }
    let errors = Mutex<[StoreError.Code]>([])
    var options = StoreOptions(budget: .kilobytes(50)) { error in
      errors.withLock { $0.append((error as? StoreError)?.code ?? .system) }
    }
    options.sweepsWhenIdle = false
    let store = try SharedStore(at: directory.path + "/store", options)
    #expect(errors.withLock { $0 } == [.pinLimitReached])
    #expect(try store.limits().budget == .kilobytes(100))
    #expect(try store.bytes(forKey: 1)?.count == 45_000)
  }

  // MARK: Events

  @Test func `The gap of a transaction with too many removals needs no later one`() async throws {
    let store = try open()
    try await store.write { transaction in
      for key in 0..<20_000 { try transaction.setBytes([1], forKey: key) }
    }
    var removals = store.removals.makeAsyncIterator()
    try await store.write { transaction in
      for key in 0..<20_000 { try transaction.remove(forKey: key) }
    }
    var (events, missed) = (0, 0)
    while events + missed < 20_000 {
      switch await removals.next() {
      case .entry: events += 1
      case .gap(let count?): missed += count
      default:
        // The task of a test that exceeds its time limit is cancelled.
        Issue.record("an end")
        return
      }
    }
    #expect(events + missed == 20_000)
  }

  @Test func `A removal by a transaction that began before the subscription is a gap`() async throws
  {
    let store = try open()
    try store.core.write { try $0.setBytes([1], forKey: 1) }
    let iterator = Mutex<StoreRemovals.AsyncIterator?>(nil)
    try store.core.write { transaction in
      iterator.withLock { $0 = store.removals.makeAsyncIterator() }
      try transaction.remove(forKey: 1)
    }
    var removals = try #require(iterator.withLock { $0 })
    #expect(await removals.next() == .gap(count: 1))
  }
}
