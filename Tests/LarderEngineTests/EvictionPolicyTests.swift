// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// The policies by which entries are chosen for eviction.
@Suite(.timeLimit(.minutes(60))) struct EvictionPolicyTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  private func options(entries: Int, _ policy: EvictionPolicy? = nil) -> StoreOptions {
    var options = StoreOptions(budget: .megabytes(16))
    options.entryBudget = entries
    options.evictionPolicy = policy
    return options
  }

  /// Reads a key, and writes it if it is absent. Returns whether it was there.
  @discardableResult
  private func access(_ key: Int, _ store: SharedStore) throws -> Bool {
    if try store.bytes(forKey: key) != nil { return true }
    try store.setBytes([1], forKey: key)
    return false
  }

  @Test func `A scan over many keys evicts the used entries of a store by recency only`() throws {
    var kept: [Int] = []
    for policy in EvictionPolicy.all {
      let store = try SharedStore(
        at: path + policy.description, options(entries: 200, policy))
      // Used while the small queue still holds them, so that they pass to the main queue.
      for _ in 0..<4 { for key in 0..<100 { try access(key, store) } }
      for key in 1000..<3000 { try access(key, store) }
      kept.append(try (0..<100).count { try store.bytes(forKey: $0) != nil })
      #expect(try store.statistics().entries == 200)
      #expect(try store.verify() == [])
    }
    #expect(kept[0] == 0 && kept[1] >= 95, "\(kept)")
  }

  @Test func `No commit exceeds the entry budget, and a lower one evicts down to it`() throws {
    let store = try SharedStore(at: path, options(entries: 50))
    for key in 0..<500 {
      try store.setBytes([1], forKey: key)
      #expect(try store.statistics().entries == min(key + 1, 50))
    }
    try store.write { transaction in
      for key in 1000..<1200 { try transaction.setBytes([2], forKey: key) }
    }
    #expect(try store.statistics().entries == 50)
    let again = try SharedStore(at: path, options(entries: 7))
    #expect(try again.statistics().entries == 7)
    try store.setBytes([1], forKey: 9999)
    #expect(try store.statistics().entries == 7)
    #expect(try store.verify() == [])
  }

  @Test func `Limits that are set or lifted apply to a process that has the store open`() throws {
    let store = try SharedStore(at: path, options(entries: 50))
    let other = try SharedStore(at: path)
    var limits = try other.limits()
    #expect(limits == StoreLimits(budget: .megabytes(16), entryBudget: 50))
    for key in 0..<80 { try store.setBytes([1], forKey: key) }
    limits.entryBudget = 20
    limits.evictionPolicy = .sampledLRU
    try other.setLimits(limits)
    #expect(try store.statistics().entries == 20)
    #expect(try store.limits() == limits)
    limits.entryBudget = nil
    try other.setLimits(limits)
    for key in 0..<80 { try store.setBytes([1], forKey: key) }
    #expect(try store.statistics().entries == 80)
    let error = #expect(throws: StoreError.self) {
      try other.setLimits(StoreLimits(budget: .bytes(100)))
    }
    #expect(error?.code == .invalidOption)
    #expect(try store.limits() == limits)
    #expect(try store.verify() == [])
  }

  @Test func `A lower budget whose process was killed is reached by later writes in steps`() throws
  {
    let store = try SharedStore(at: path, options(entries: 10_000))
    try store.write { transaction in
      for key in 0..<5000 { try transaction.setBytes([1], forKey: key) }
    }
    // As stored before the first step of the eviction.
    try store.core.generation().table.entryBudget = 500
    var sizes: [Int] = []
    for key in 10_000..<10_006 {
      try store.setBytes([1], forKey: key)
      sizes.append(try store.statistics().entries)
    }
    #expect(sizes == [4001, 3002, 2003, 1004, 500, 500])
    // A batch does not evict more, and the limit can be requested again.
    try store.setLimits(StoreLimits(budget: .megabytes(16)))
    try store.write { transaction in
      for key in 20_000..<25_000 { try transaction.setBytes([1], forKey: key) }
    }
    try store.core.generation().table.entryBudget = 500
    try store.write { transaction in
      for key in 30_000..<30_100 { try transaction.setBytes([1], forKey: key) }
    }
    #expect(try store.statistics().entries == 5500 - 1000 + 1)
    try store.setBytes([2], forKey: 30_000)
    #expect(try store.statistics().entries <= 4501 - 1000 + 1)
    try store.setLimits(store.limits())
    #expect(try store.statistics().entries == 500)
    #expect(try store.verify() == [])
  }

  @Test(arguments: [0, -1, 1 << 41])
  func `An entry budget outside its range is rejected`(entries: Int) throws {
    let error = #expect(throws: StoreError.self) {
      try SharedStore(at: path, options(entries: entries))
    }
    #expect(error?.code == .invalidOption && error?.message.contains("entryBudget") == true)
  }

  @Test func `Another policy applies to every handle at once and loses no entry`()
    throws
  {
    let store = try SharedStore(at: path, options(entries: 100, .sampledLRU))
    for key in 0..<100 { try store.setBytes([1], forKey: key) }
    let other = try SharedStore(at: path, options(entries: 100, .adaptive))
    #expect(try store.statistics().entries == 100)
    #expect(try store.core.generation().table.policyCode == 2)
    for key in 100..<400 { try access(key, other) }
    #expect(try store.statistics().entries == 100)
    #expect(try store.verify() == [])
  }

  @Test func `A store with the policy of a newer version is rejected and not changed`() throws {
    let store = try SharedStore(at: path, options(entries: 100))
    try store.setBytes([1], forKey: 1)
    try store.core.changePolicy(toCode: 77)
    // A process that has it open reads on, and writes until something has to be evicted.
    #expect(try store.bytes(forKey: 1) == [1])
    let error = #expect(throws: StoreError.self) {
      for key in 0..<200 { try store.setBytes([1], forKey: key) }
    }
    #expect(error?.code == .newerFormat)
    store.close()
    let refusal = #expect(throws: StoreError.self) { try SharedStore(at: path) }
    #expect(refusal?.code == .newerFormat && refusal?.message.contains("policy") == true)
  }

  @Test func `Garbage in the queues costs a better choice and nothing else`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let store = try SharedStore(at: path, options(entries: 300))
    for key in 0..<300 { try store.setBytes([1], forKey: key) }
    for round in 0..<40 {
      let table = try store.core.generation().table
      for _ in 0..<200 {
        let word = Int.random(in: 0..<10, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
          table.setQueueWord(
            word, Bool.random(using: &random) ? random.next() : random.next() >> 40)
        case 1:
          table.setQueueElement(table.shape.smallQueue, random.next(), random.next())
        case 2: table.setQueueElement(table.shape.mainQueue, random.next(), random.next())
        default:
          table.setGhost(
            Int.random(in: 0..<table.shape.queueSlots, using: &random),
            UInt32(truncatingIfNeeded: random.next()))
        }
      }
      // What overflows if it is believed.
      for word in round % 2 == 0 ? [0, 1, 4, 8, 9] : [2, 3, 5, 6, 7] {
        table.setQueueWord(word, UInt64.max - UInt64(round % 3))
      }
      for key in 0..<20 { try access(1000 * round + key, store) }
      #expect(try store.statistics().entries == 300)
    }
    #expect(try store.verify() == [])
  }

  @Test func `A compaction keeps what the queues have learnt`() throws {
    let store = try SharedStore(at: path, options(entries: 200))
    for _ in 0..<4 { for key in 0..<100 { try access(key, store) } }
    for key in 1000..<1200 { try access(key, store) }
    try store.compact()
    for key in 2000..<4000 { try access(key, store) }
    #expect(try (0..<100).count { try store.bytes(forKey: $0) != nil } >= 95)
    #expect(try store.verify() == [])
  }

  @Test func `A key that comes back soon enters the main queue, and a large value does not`() throws
  {
    let store = try SharedStore(at: path, options(entries: 200))
    for key in 0..<300 { try store.setBytes([1], forKey: key) }
    let table = try store.core.generation().table
    let (smallEnd, mainEnd, share) = (1, 3, 5)
    // As after as many evictions from either queue.
    for word in 8...9 { table.setQueueWord(word, 50) }
    var before = (0..<10).map { table.queueWord($0) }
    try store.setBytes([1], forKey: 50)
    #expect(table.queueWord(mainEnd) == before[mainEnd] + 1)
    #expect(table.queueWord(smallEnd) == before[smallEnd])
    #expect(table.queueWord(share) > before[share], "the small queue was too small")
    before = (0..<10).map { table.queueWord($0) }
    try store.setBytes([UInt8](repeating: 1, count: 2000), forKey: 60)
    #expect(table.queueWord(mainEnd) == before[mainEnd])
    #expect(table.queueWord(smallEnd) == before[smallEnd] + 1)
    #expect(try store.verify() == [])
  }

  @Test func `A key that is read all the time stores nothing in shared memory`() throws {
    var options = options(entries: 200)
    // A tick begins with each 16 seconds of this clock, which does not advance by itself.
    options.clock = ManualClock().storeClock
    let store = try SharedStore(at: path, options)
    try store.setBytes([1], forKey: 1)
    let generation = try store.core.generation()
    let hash = try store.namespace("").space.hash(of: EncodedKey(1), in: generation)
    for _ in 0..<4 { _ = try store.bytes(forKey: 1) }
    let used = generation.table.lastUse(hash: hash)
    // Writes of other keys advance the recency clock, but not the tick that readers store.
    for key in 2..<50 {
      try store.setBytes([1], forKey: key)
      _ = try store.bytes(forKey: 1)
    }
    #expect(generation.table.lastUse(hash: hash) == used, "at most once in 16 seconds")
  }

  @Test func `A key that only memory hits use stays while the queues turn`() throws {
    var options = options(entries: 200, .adaptive)
    // The use clock does not advance by itself.
    options.clock = ManualClock().storeClock
    let store = try SharedStore(at: path, options)
    let cache = PersistentCache<Int, Int>(storage: store, namespace: "")
    for key in 0..<50 { try cache.setValue(key, forKey: key) }
    for _ in 0..<4 { for key in 0..<50 { #expect(try cache.value(forKey: key) == key) } }
    // New entries are used while they are in the small queue, so all of them pass to the main queue.
    for key in 1000..<5000 {
      for _ in 0..<4 { try access(key, store) }
      if key % 5 == 0 { for key in 0..<50 { _ = cache[key] } }
    }
    let table = try store.core.generation().table
    #expect(table.queueWord(EvictionQueues.Word.mainFirst.rawValue) > 2000, "the main queue turned")
    #expect(try (0..<50).count { try store.bytes(forKey: $0) != nil } >= 45)
    #expect(try store.verify() == [])
  }

  @Test func `Entries that no queue names are evicted as well`() throws {
    let store = try SharedStore(at: path, options(entries: 100))
    for key in 0..<100 { try store.setBytes([1], forKey: key) }
    let table = try store.core.generation().table
    // As after the loss of the table: both queues are empty.
    for word in 0..<4 { table.setQueueWord(word, 0) }
    for key in 1000..<1500 { try access(key, store) }
    #expect(try (0..<100).allSatisfy { try store.bytes(forKey: $0) == nil })
    #expect(try store.statistics().entries == 100)
    #expect(try store.verify() == [])
  }

  @Test func `A value that is written again keeps its place in the queues`() throws {
    let store = try SharedStore(at: path, options(entries: 200))
    for key in 0..<150 { try store.setBytes([1], forKey: key) }
    let table = try store.core.generation().table
    let before = table.queueWord(1)
    for key in 0..<150 { try store.setBytes([UInt8](repeating: 2, count: 100), forKey: key) }
    for key in 0..<150 { try store.setBytes([UInt8](repeating: 2, count: 50_000), forKey: key) }
    for key in 0..<150 { try store.setBytes([3], forKey: key) }
    #expect(table.queueWord(1) == before, "no entry was admitted again")
    let bytes = try store.statistics().bytes
    #expect(table.queueWord(4) == UInt64(bytes), "all of them are in the small queue")
    #expect(try store.verify() == [])
  }
}
