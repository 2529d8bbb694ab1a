// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderRecovery
import LarderTesting
import Testing

/// Entries that are never evicted, and entries that say that a key has no value.
@Suite(.timeLimit(.minutes(60))) struct PinnedEntryTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  private func store(
    _ policy: EvictionPolicy = .adaptive, budget: ByteCount? = .kilobytes(256), entries: Int? = nil
  ) throws -> SharedStore {
    var options = StoreOptions(budget: budget)
    options.entryBudget = entries
    options.evictionPolicy = policy
    return try SharedStore(at: path + policy.description, options)
  }

  @Test(arguments: EvictionPolicy.all)
  func `A pinned entry stays whatever else is stored`(policy: EvictionPolicy) throws {
    let store = try store(policy)
    let names = try store.namespace("")
    let value = [UInt8](repeating: 1, count: 400)
    for key in 0..<100 { try names.setBytes(value, forKey: key, pinned: true) }
    for key in 1000..<6000 { try names.setBytes(value, forKey: key) }
    // Large entries need many victims at once.
    for key in 6000..<6050 {
      try names.setBytes([UInt8](repeating: 2, count: 60_000), forKey: key)
    }
    for key in 0..<100 { #expect(try names.bytes(forKey: key) == value, "\(key)") }
    let statistics = try store.statistics()
    #expect(statistics.pinnedEntries == 100 && statistics.pinnedBytes == 100 * (64 + 400 + 8))
    #expect(statistics.bytes <= 256_000)
    #expect(try store.verify() == [])
  }

  @Test(arguments: EvictionPolicy.all)
  func `Pinned entries have at most half of each budget`(policy: EvictionPolicy) throws {
    let store = try store(policy, budget: .kilobytes(64), entries: 40)
    let names = try store.namespace("")
    for key in 0..<20 { try names.setBytes([1], forKey: key, pinned: true) }
    let tooMany = #expect(throws: StoreError.self) {
      try names.setBytes([1], forKey: 20, pinned: true)
    }
    #expect(tooMany?.code == .pinLimitReached)
    // In place of a pinned entry there is room.
    try names.setBytes([2], forKey: 19, pinned: true)
    let tooLarge = #expect(throws: StoreError.self) {
      try names.setBytes([UInt8](repeating: 1, count: 33_000), forKey: 19, pinned: true)
    }
    #expect(tooLarge?.code == .pinLimitReached && tooLarge?.message.contains("half") == true)
    #expect(try names.bytes(forKey: 19) == [2])
    var limits = try store.limits()
    limits.entryBudget = 30
    let lowered = #expect(throws: StoreError.self) { try store.setLimits(limits) }
    #expect(lowered?.code == .pinLimitReached)
    #expect(try store.limits().entryBudget == 40)
    try names.setBytes([3], forKey: 19)
    #expect(try store.statistics().pinnedEntries == 19)
    #expect(try store.verify() == [])
  }

  @Test(arguments: EvictionPolicy.all)
  func `An entry for which only pinned ones would have to go is an error`(
    policy: EvictionPolicy
  ) throws {
    let store = try store(policy, budget: .kilobytes(64))
    let names = try store.namespace("")
    for key in 0..<10 {
      try names.setBytes([UInt8](repeating: 1, count: 3000), forKey: key, pinned: true)
    }
    for key in 100..<130 { try names.setBytes([2], forKey: key) }
    let error = #expect(throws: StoreError.self) {
      try names.setBytes([UInt8](repeating: 3, count: 40_000), forKey: 1000)
    }
    #expect(error?.code == .valueTooLarge && error?.message.contains("pinned") == true)
    for key in 0..<10 { #expect(try names.bytes(forKey: key)?.count == 3000) }
    try names.setBytes([4], forKey: 1001)
    #expect(try names.bytes(forKey: 1001) == [4])
    #expect(try store.verify() == [])
  }

  @Test func `A pinned entry expires, is removed, and is removed by tag`() throws {
    let clock = ManualClock(milliseconds: 1000)
    let store = try SharedStore(at: path, StoreOptions(clock: StoreClock { clock.now }))
    let names = try store.namespace("")
    try names.setBytes([1], forKey: 1, expires: .after(.seconds(1)), pinned: true)
    try names.setBytes([2], forKey: 2, tags: ["tag"], pinned: true)
    try names.setBytes([3], forKey: 3, pinned: true)
    clock.advance(by: .seconds(1))
    try store.removeAll(tagged: "tag")
    #expect(try names.remove(forKey: 3))
    for key in 1...3 { #expect(try names.bytes(forKey: key) == nil) }
    try store.removeExpired()
    #expect(try store.verify() == [])
    #expect(try store.statistics().pinnedEntries <= 1)
  }

  // MARK: Negative entries

  @Test func `A negative entry tells a key without a value from an unknown one`() throws {
    let clock = ManualClock(milliseconds: 1000)
    let store = try SharedStore(at: path, StoreOptions(clock: StoreClock { clock.now }))
    let names = try store.namespace("")
    try names.setBytes([1], forKey: 1)
    try names.setAbsent(forKey: 1, expires: .after(.seconds(1)))
    try names.setAbsent(forKey: 2, expires: .never, tags: ["tag"])
    for key in 1...2 {
      #expect(try names.state(forKey: key) == .absent)
      #expect(try names.bytes(forKey: key) == nil)
      #expect(try !names.contains(key))
    }
    #expect(try names.state(forKey: 3) == .unknown)
    let statistics = try store.statistics()
    #expect(statistics.negativeEntries == 2 && statistics.negativeBytes == 2 * 72 + 16)
    #expect(statistics.negativeHits == 6)
    try store.write { transaction in
      let found1 = try transaction.bytes(forKey: 2)
      #expect(found1 == nil)
    }
    clock.advance(by: .seconds(1))
    #expect(try names.state(forKey: 1) == .unknown)
    try store.removeAll(tagged: "tag")
    #expect(try names.state(forKey: 2) == .unknown)
    try names.setBytes([4], forKey: 2)
    #expect(try names.state(forKey: 2) == .value([4]))
    #expect(try store.verify() == [])
  }

  @Test(arguments: EvictionPolicy.all)
  func `Negative entries have at most an eighth of each budget and replace each other`(
    policy: EvictionPolicy
  ) throws {
    let store = try store(policy, budget: .kilobytes(256), entries: 400)
    let names = try store.namespace("")
    for key in 0..<300 { try names.setBytes([1], forKey: key) }
    for key in 1000..<3000 {
      try names.setAbsent(forKey: key, expires: .never)
      #expect(try store.statistics().negativeEntries <= 50)
    }
    #expect(try store.statistics().negativeEntries == 50)
    for key in 0..<300 { #expect(try names.bytes(forKey: key) == [1]) }
    // A key whose negative entry is not stored has lost its value nevertheless.
    try names.setAbsent(forKey: 7, expires: .never)
    #expect(try names.bytes(forKey: 7) == nil)
    #expect(try store.verify() == [])
  }
}
