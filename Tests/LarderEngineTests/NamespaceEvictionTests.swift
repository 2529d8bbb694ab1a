// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderRecovery
import LarderTesting
import Testing

/// Evictions for the limits of namespaces: every entry stays within their reach.
@Suite(.timeLimit(.minutes(60))) struct NamespaceEvictionTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  private func open(
    _ policy: EvictionPolicy = .adaptive, budget: ByteCount? = .megabytes(1)
  ) throws -> SharedStore {
    var options = StoreOptions(budget: budget)
    options.evictionPolicy = policy
    return try SharedStore(at: path, options)
  }

  private func contents(_ name: String, _ store: SharedStore) throws -> (entries: Int, bytes: Int) {
    let found = try store.statistics().namespaces.first { $0.name == name }
    return (found?.entries ?? 0, found?.bytes ?? 0)
  }

  private func value(_ size: Int) -> [UInt8] { [UInt8](repeating: 7, count: size) }

  @Test func `Values that grow and shrink are evicted for a maximum as others`() throws {
    let store = try open(budget: nil)
    let names = try store.namespace("names")
    try names.setLimits(.init(maximum: .bytes(100_000)))
    var random = SeededRandom(seed: 11)
    for _ in 0..<5000 {
      try names.setBytes(
        value(Int.random(in: 100...4000, using: &random)),
        forKey: Int.random(in: 0..<100, using: &random))
    }
    #expect(try contents("names", store).bytes <= 100_000)
    #expect(try store.verify() == [])
  }

  @Test func `Overwritten entries of a cleared namespace count against its maximums`() throws {
    let store = try open(budget: nil)
    let names = try store.namespace("names")
    try names.setLimits(.init(maximum: .bytes(100_000), maximumEntries: 60))
    for key in 0..<40 { try names.setBytes(value(2000), forKey: key) }
    let value = value(2000)
    try store.write { transaction in
      try transaction.removeAll(in: "names")
      for key in 100..<145 { try transaction.setBytes(value, forKey: key, in: "names") }
      for key in 0..<40 { try transaction.setBytes(value, forKey: key, in: "names") }
    }
    let (entries, bytes) = try contents("names", store)
    #expect(bytes <= 100_000 && bytes > 90_000 && entries <= 60)
    #expect(try store.verify() == [])
  }

  @Test(arguments: ["tagged", "expired", "cleared"])
  func `Entries that are invisible when a maximum is set can be evicted once written again`(
    kind: String
  ) throws {
    let clock = ManualClock()
    var options = StoreOptions(clock: clock.storeClock)
    options.sweepsWhenIdle = false
    let store = try SharedStore(at: path, options)
    let names = try store.namespace("names")
    for key in 0..<40 {
      try names.setBytes(value(2000), forKey: key, expires: .after(.seconds(60)), tags: ["t"])
    }
    switch kind {
    case "tagged": try names.removeAll(tagged: "t")
    case "expired": clock.advance(by: .seconds(100))
    default: try names.removeAll()
    }
    try names.setLimits(.init(maximum: .bytes(90_000)))
    for key in 0..<40 { try names.setBytes(value(2000), forKey: key) }
    try names.setBytes(value(20_000), forKey: 100)
    #expect(try contents("names", store).bytes <= 90_000)
    #expect(try store.verify() == [])
  }

  @Test func `Limits that several threads change at once leave a namespace that evicts`() throws {
    let store = try open(budget: nil)
    let names = try store.namespace("names")
    try store.write { transaction in
      for key in 0..<3000 { try transaction.setBytes([1], forKey: key, in: "names") }
    }
    for round in 0..<3 {
      let all = [
        NamespaceLimits(), .init(maximum: .megabytes(4)), .init(maximumEntries: 5000),
      ]
      let threads = all.map { limits in
        JoinableThread { Result { try names.setLimits(limits) } }
      }
      for thread in threads { try thread.join().get() }
      try names.setLimits(.init(maximumEntries: 500))
      #expect(try contents("names", store).entries == 500)
      try store.write { transaction in
        for key in 0..<3000 { try transaction.setBytes([2], forKey: key + round, in: "names") }
      }
      #expect(try contents("names", store).entries == 500)
      #expect(try store.verify() == [])
      try names.setLimits(.init())
      try store.write { transaction in
        for key in 0..<3000 { try transaction.setBytes([1], forKey: key, in: "names") }
      }
    }
    #expect(try store.core.memberRecords() == 0)
  }

  @Test func `Removing and storing keys again leaves no records behind`() throws {
    let store = try open(budget: nil)
    let names = try store.namespace("names")
    try names.setLimits(.init(maximum: .bytes(100_000)))
    for round in 0..<500 {
      for key in 0..<10 {
        try names.remove(forKey: key)
        try names.setBytes([UInt8(truncatingIfNeeded: round)], forKey: key)
      }
    }
    #expect(try store.core.memberRecords() == 10)
    #expect(try store.verify() == [])
  }

  @Test func `Expired and removed entries of a namespace with a maximum go first`() throws {
    let clock = ManualClock()
    var options = StoreOptions(clock: clock.storeClock)
    options.sweepsWhenIdle = false
    let store = try SharedStore(at: path, options)
    let names = try store.namespace("names")
    try names.setLimits(.init(maximum: .bytes(100_000)))
    for key in 0..<20 { try names.setBytes(value(2000), forKey: key) }
    for key in 20..<34 {
      try names.setBytes(value(2000), forKey: key, expires: .after(.seconds(60)), tags: ["t"])
    }
    for key in 34..<44 {
      try names.setBytes(value(2000), forKey: key, tags: ["t"], pinned: true)
    }
    try names.removeAll(tagged: "t")
    clock.advance(by: .seconds(100))
    try names.setBytes(value(37_000), forKey: 100)
    for key in 0..<20 { #expect(try names.contains(key), "\(key)") }
    // Invisible pinned entries can be evicted as well.
    try names.setBytes(value(90_000), forKey: 101)
    #expect(try store.verify() == [])
  }

  @Test(arguments: EvictionPolicy.all)
  func `Namespaces that have the whole budget as minimums replace their own entries`(
    policy: EvictionPolicy
  ) throws {
    let store = try open(policy, budget: .bytes(200_000))
    for name in ["a", "b"] {
      try store.namespace(name).setLimits(.init(minimum: .bytes(100_000)))
    }
    for key in 0..<300 {
      // Entries of 1,000 bytes fill both minimums, and with them the budget, exactly.
      for name in ["a", "b"] { try store.setBytes(value(928), forKey: key, in: name) }
    }
    // A sample gives up to two entries for one.
    for name in ["a", "b"] { #expect(try contents(name, store).entries > 95) }
    #expect(try store.statistics().bytes <= 200_000)
    #expect(try store.verify() == [])
  }

  @Test func `A large entry is not kept for a small minimum if nothing else can go`() throws {
    let store = try open(budget: .bytes(1_000_000))
    let large = try store.namespace("large")
    try large.setLimits(.init(minimum: .bytes(4096)))
    try large.setBytes(value(900_000), forKey: 1)
    try store.setBytes(value(200_000), forKey: 1)
    #expect(try !large.contains(1))
    try large.setBytes(value(700_000), forKey: 1)
    try store.setLimits(StoreLimits(budget: .bytes(100_000)))
    #expect(try store.statistics().bytes <= 100_000)
    #expect(try store.verify() == [])
  }

  @Test func `Invisible entries are not kept for a minimum`() throws {
    var options = StoreOptions(budget: .bytes(1_000_000))
    options.sweepsWhenIdle = false
    let store = try SharedStore(at: path, options)
    let names = try store.namespace("names")
    try names.setLimits(.init(minimum: .bytes(900_000)))
    for key in 0..<400 { try names.setBytes(value(2000), forKey: key, tags: ["t"]) }
    try names.removeAll(tagged: "t")
    try store.setBytes(value(300_000), forKey: 1)
    #expect(try store.bytes(forKey: 1) != nil)
    #expect(try store.verify() == [])
  }

  @Test func `Negative entries of others leave a namespace its minimum`() throws {
    let store = try open(budget: .bytes(1_000_000))
    let guarded = try store.namespace("guarded")
    try guarded.setLimits(.init(minimum: .bytes(100_000)))
    for key in 0..<1500 { try guarded.setAbsent(forKey: key, expires: .never) }
    let before = try contents("guarded", store).bytes
    #expect(before >= 100_000)
    for key in 0..<3000 {
      try store.namespace("other").setAbsent(forKey: key, expires: .never)
    }
    #expect(try contents("guarded", store).bytes >= 100_000)
    #expect(try store.verify() == [])
  }

  @Test func `A maximum below the pinned entries is an error, and changes nothing`() throws {
    let store = try open(budget: nil)
    let names = try store.namespace("names")
    for key in 0..<10 { try names.setBytes(value(20_000), forKey: key, pinned: true) }
    let error = #expect(throws: StoreError.self) {
      try names.setLimits(.init(maximum: .bytes(100_000)))
    }
    #expect(error?.code == .pinLimitReached)
    #expect(try names.limits() == NamespaceLimits())
    try names.setLimits(.init(maximum: .bytes(300_000)))
    #expect(throws: StoreError.self) { try names.setLimits(.init(maximum: .bytes(100_000))) }
    #expect(try names.limits() == NamespaceLimits(maximum: .bytes(300_000)))
    try names.setBytes(value(20_000), forKey: 1)
    #expect(try store.verify() == [])
  }

  @Test func `A transaction whose closure catches an error of a partial write stores nothing`()
    throws
  {
    let store = try open(budget: nil)
    let names = try store.namespace("names")
    try names.setLimits(.init(maximumEntries: 10))
    for key in 0..<5 { try names.setBytes(value(10), forKey: key, pinned: true) }
    for key in 5..<10 { try names.setBytes(value(10), forKey: key) }
    try names.setLimits(.init(maximum: .bytes(8000), maximumEntries: 10))
    let large = value(7900)
    let error = #expect(throws: StoreError.self) {
      try store.write { transaction in
        try transaction.setBytes([1], forKey: "other")
        try? transaction.setBytes(large, forKey: 5, in: "names")
      }
    }
    #expect(error?.code == .valueTooLarge && error?.message.contains("Rethrow") == true)
    #expect(try names.bytes(forKey: 5)?.count == 10)
    #expect(try contents("names", store).entries == 10)
    #expect(try store.bytes(forKey: "other") == nil)
  }
}
