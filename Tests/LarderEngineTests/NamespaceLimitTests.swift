// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderRecovery
import LarderSystem
import LarderTesting
import Testing

/// Minimums and maximums of namespaces.
@Suite(.timeLimit(.minutes(60))) struct NamespaceLimitTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  private func open(
    _ policy: EvictionPolicy = .adaptive, budget: ByteCount? = .megabytes(1), entries: Int? = nil,
    bits: Int = 64
  ) throws -> SharedStore {
    var options = StoreOptions(budget: budget)
    options.evictionPolicy = policy
    options.entryBudget = entries
    options.hashBits = bits
    return try SharedStore(at: path, options)
  }

  private func contents(_ name: String, _ store: SharedStore) throws -> (entries: Int, bytes: Int) {
    let found = try store.statistics().namespaces.first { $0.name == name }
    return (found?.entries ?? 0, found?.bytes ?? 0)
  }

  @Test(arguments: EvictionPolicy.all, [64, 4])
  func `No commit exceeds the maximum of a namespace, which evicts from itself only`(
    policy: EvictionPolicy, bits: Int
  ) throws {
    let store = try open(policy, bits: bits)
    let small = try store.namespace("small")
    let other = try store.namespace("other")
    try small.setLimits(.init(maximum: .bytes(10_000)))
    for key in 0..<50 { try other.setBytes([1], forKey: key) }
    for key in 0..<300 {
      try small.setBytes([UInt8](repeating: 1, count: key % 400), forKey: key)
      let (_, bytes) = try contents("small", store)
      #expect(bytes <= 10_000)
      #expect(bytes > 8_000 || key < 80, "\(key): \(bytes)")
    }
    for key in 0..<50 { #expect(try other.bytes(forKey: key) == [1]) }
    // An overwrite with a larger value as well.
    for key in 250..<300 {
      try small.setBytes([UInt8](repeating: 2, count: 2000), forKey: key)
      #expect(try contents("small", store).bytes <= 10_000)
      #expect(try small.bytes(forKey: key)?.count == 2000)
    }
    let error = #expect(throws: StoreError.self) {
      try small.setBytes([UInt8](repeating: 2, count: 10_000), forKey: 1)
    }
    #expect(error?.code == .valueTooLarge && error?.message.contains("namespace") == true)
    #expect(try store.verify() == [])
  }

  @Test func `Used entries of a namespace with a maximum stay`() throws {
    let store = try open()
    let names = try store.namespace("names")
    try names.setLimits(.init(maximumEntries: 100))
    for key in 0..<100 { try names.setBytes([1], forKey: key) }
    for key in 100..<400 {
      for hot in 0..<20 { #expect(try names.bytes(forKey: hot) == [1], "\(hot) at \(key)") }
      try names.setBytes([1], forKey: key)
      #expect(try contents("names", store).entries == 100)
    }
    #expect(try store.verify() == [])
  }

  @Test func `A maximum that is set later evicts what exceeds it, and none is none`() throws {
    let store = try open(budget: nil)
    let names = try store.namespace("names")
    #expect(try names.limits() == NamespaceLimits())
    for key in 0..<3000 { try names.setBytes([1], forKey: key) }
    try names.setLimits(.init(maximumEntries: 500))
    #expect(try contents("names", store).entries == 500)
    #expect(try names.limits() == NamespaceLimits(maximumEntries: 500))
    try names.setBytes([1], forKey: 5000)
    #expect(try contents("names", store).entries == 500)
    #expect(try store.verify() == [])
    try names.setLimits(.init())
    for key in 0..<1000 { try names.setBytes([1], forKey: key) }
    #expect(try contents("names", store).entries > 999)
    #expect(try store.verify() == [])
    // The order begins again.
    try names.setLimits(.init(maximumEntries: 10))
    #expect(try contents("names", store).entries == 10)
    #expect(try store.verify() == [])
  }

  @Test func `Entries that are removed and written again do not let the order grow`() throws {
    let store = try open(budget: nil)
    let names = try store.namespace("names")
    try names.setLimits(.init(maximumEntries: 1000))
    for round in 0..<40 {
      try store.write { transaction in
        for key in 0..<100 { try transaction.setBytes([UInt8(round)], forKey: key, in: "names") }
        for key in 0..<100 where key % 10 != 0 {
          try transaction.remove(forKey: key, in: "names")
        }
      }
    }
    #expect(try contents("names", store).entries == 10)
    #expect(try store.core.memberRecords() == 10)
    #expect(try store.verify() == [])
  }

  @Test(arguments: EvictionPolicy.all)
  func `Evictions leave a namespace its minimum`(policy: EvictionPolicy) throws {
    let store = try open(policy, budget: .bytes(256_000))
    let guarded = try store.namespace("guarded")
    let other = try store.namespace("other")
    try guarded.setLimits(.init(minimum: .bytes(64_000)))
    let value = [UInt8](repeating: 1, count: 400)
    for key in 0..<300 { try guarded.setBytes(value, forKey: key) }
    for key in 0..<3000 {
      try other.setBytes(value, forKey: key)
      #expect(try contents("guarded", store).bytes >= 64_000)
    }
    #expect(try contents("guarded", store).bytes < 66_000)
    #expect(try store.statistics().bytes <= 256_000)
    // It can still be removed, and written again at once.
    try guarded.removeAll()
    for key in 0..<50 { try guarded.setBytes(value, forKey: key) }
    for key in 0..<50 { #expect(try guarded.bytes(forKey: key) == value) }
    #expect(try store.verify() == [])
  }

  @Test(arguments: EvictionPolicy.all)
  func `A store that is guaranteed to others rejects a write with a typed error`(
    policy: EvictionPolicy
  ) throws {
    let store = try open(policy, budget: .bytes(64_000))
    let guarded = try store.namespace("guarded")
    try guarded.setLimits(.init(minimum: .bytes(64_000)))
    let value = [UInt8](repeating: 1, count: 328)
    for key in 0..<160 { try guarded.setBytes(value, forKey: key) }
    #expect(try store.statistics().bytes == 64_000)
    let error = #expect(throws: StoreError.self) { try store.setBytes([1], forKey: 1) }
    #expect(error?.code == .valueTooLarge && error?.message.contains("guaranteed") == true)
    #expect(try contents("guarded", store).bytes == 64_000)
    // A namespace replaces its own entries.
    try guarded.setBytes(value, forKey: 7)
    #expect(try store.verify() == [])
  }

  @Test func `Invalid limits are typed errors, and change nothing`() throws {
    let store = try open(budget: .kilobytes(64))
    let first = try store.namespace("first")
    let second = try store.namespace("second")
    try first.setLimits(.init(minimum: .kilobytes(40)))
    for limits in [
      NamespaceLimits(minimum: .bytes(10)), .init(maximum: .bytes(4095)), .init(maximumEntries: 0),
      .init(minimum: .kilobytes(20), maximum: .kilobytes(10)), .init(minimum: .kilobytes(30)),
    ] {
      let error = #expect(throws: StoreError.self) { try second.setLimits(limits) }
      #expect(error?.code == .invalidOption, "\(limits)")
      #expect(try second.limits() == NamespaceLimits())
    }
    var budget = try store.limits()
    budget.budget = .kilobytes(32)
    let error = #expect(throws: StoreError.self) { try store.setLimits(budget) }
    #expect(error?.code == .minimumsExceedBudget)
    #expect(try store.limits().budget == .kilobytes(64))
  }

  @Test func `Limits outlive compaction, opening, and a repair`() throws {
    let limits = NamespaceLimits(minimum: .kilobytes(8), maximumEntries: 50)
    do {
      let store = try SharedStore(at: path, StoreOptions(durability: .durable))
      let names = try store.namespace("names")
      try names.setLimits(limits)
      for key in 0..<100 { try names.setBytes([1], forKey: key) }
      try store.compact()
      #expect(try names.limits() == limits)
      try store.core.write { transaction in
        let garbage: [UInt8] = [1, 2, 3]
        try garbage.withRawSpan { garbage throws(LMDBError) in
          try transaction.transaction.put(
            garbage, RawSpan(), RawSpan(), forKey: NamespaceRecord.key(7), in: .main)
        }
        transaction.force()
      }
      store.close()
    }
    #expect(try SharedStore.repair(at: path).outcome == .repaired)
    let store = try SharedStore(at: path, StoreOptions(durability: .durable))
    let names = try store.namespace("names")
    #expect(try names.limits() == limits)
    for key in 200..<300 {
      try names.setBytes([1], forKey: key)
      #expect(try contents("names", store).entries == 50)
    }
    #expect(try store.verify() == [])
  }
}
