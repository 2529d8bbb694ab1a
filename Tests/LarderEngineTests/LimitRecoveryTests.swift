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

/// Budgets and limits after clears, damage, and calls that did not come to their end.
@Suite(.timeLimit(.minutes(60))) struct LimitRecoveryTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  private func value(_ size: Int) -> [UInt8] { [UInt8](repeating: 7, count: size) }

  private func open(
    budget: ByteCount? = nil, sweeps: Bool = false,
    _ change: (inout StoreOptions) -> Void = { _ in }
  ) throws -> SharedStore {
    var options = StoreOptions(budget: budget)
    options.sweepsWhenIdle = sweeps
    change(&options)
    return try SharedStore(at: path, options)
  }

  private func contents(_ name: String, _ store: SharedStore) throws -> (entries: Int, bytes: Int) {
    let found = try store.statistics().namespaces.first { $0.name == name }
    return (found?.entries ?? 0, found?.bytes ?? 0)
  }

  // MARK: Cleared namespaces

  @Test func `Pinned entries of a namespace that a transaction cleared make room`() throws {
    let store = try open(budget: .kilobytes(100))
    let (first, second) = (try store.namespace("a"), try store.namespace("b"))
    for key in 0..<4 { try first.setBytes(value(10_000), forKey: key, pinned: true) }
    try store.write { try $0.removeAll(in: "a") }
    for key in 0..<4 { try second.setBytes(value(10_000), forKey: key, pinned: true) }
    #expect(try contents("b", store).entries == 4)
    #expect(try store.verify() == [])
  }

  @Test func `Entries of a namespace that a transaction cleared are deleted when idle`() throws {
    let store = try open(sweeps: true)
    let names = try store.namespace("a")
    for key in 0..<2000 { try names.setBytes(value(10), forKey: key) }
    try store.write { try $0.removeAll(in: "a") }
    try store.setBytes([1], forKey: 1)
    try eventually("the entries are deleted") { try store.statistics().entries == 1 }
    try eventually("the removal is forgotten") { try store.core.tagRecords() == 0 }
    #expect(try store.verify() == [])
  }

  @Test func `A clear that ran to its end leaves nothing to delete`() throws {
    let store = try open()
    let names = try store.namespace("a")
    for key in 0..<2000 { try names.setBytes(value(10), forKey: key) }
    try names.removeAll()
    #expect(try store.statistics().entries == 0)
    #expect(try store.core.tagRecords() == 0)
    #expect(try store.verify() == [])
  }

  @Test(arguments: ["tagged", "expired", "cleared"])
  func `Pinned entries that no process can see do not count against new limits`(
    kind: String
  ) throws {
    let clock = ManualClock()
    let store = try open(budget: .megabytes(1)) { $0.clock = clock.storeClock }
    let names = try store.namespace("n")
    for key in 0..<10 {
      try names.setBytes(
        value(20_000), forKey: key, expires: .after(.seconds(60)), tags: ["t"], pinned: true)
    }
    switch kind {
    case "tagged": try names.removeAll(tagged: "t")
    case "expired": clock.advance(by: .seconds(100))
    default: try store.write { try $0.removeAll(in: "n") }
    }
    try names.setLimits(.init(maximum: .kilobytes(100)))
    try names.setBytes(value(1000), forKey: 1)
    var limits = try store.limits()
    limits.budget = .kilobytes(200)
    try store.setLimits(limits)
    #expect(try store.verify() == [])
  }

  // MARK: Damage

  @Test func `A namespace whose last entry is damaged counts none and can be written`() throws {
    let store = try open()
    let names = try store.namespace("n")
    try names.setLimits(.init(maximumEntries: 1))
    try names.setBytes(value(100), forKey: 1)
    try damageRecord(of: 1, in: names, store)
    try names.setBytes(value(100), forKey: 2)
    try names.setBytes(value(100), forKey: 1)
    #expect(try contents("n", store).entries == 1)
    #expect(try store.verify() == [])
  }

  private func damageRecord(
    of key: Int, in names: StoreNamespace, _ store: SharedStore
  ) throws {
    let encoded = EncodedKey(key)
    let space = names.space
    try store.core.write { transaction in
      let generation = transaction.generation
      let hash = space.hash(of: encoded, in: generation)
      var record = try transaction.transaction.value(forKey: hash, in: generation.entries)!.copied()
      record[0] = 0
      try record.withRawSpan {
        try transaction.transaction.put($0, forKey: hash, in: generation.entries)
      }
      transaction.force()
    }
  }

  @Test func `A repair finds and mends an index that misses an entry`() throws {
    var store: SharedStore? = try open()
    let names = try store!.namespace("n")
    try names.setLimits(.init(maximumEntries: 100))
    for key in 0..<50 { try names.setBytes(value(10), forKey: key) }
    try store!.core.write { transaction in
      let generation = transaction.generation
      var key: [UInt8] = []
      do {
        var cursor = try Cursor(over: generation.members, in: transaction.transaction)
        #expect(try cursor.moveToFirst())
        key = cursor.currentKey.copied()
      }
      try transaction.transaction.remove(key: key, in: generation.members)
      transaction.force()
    }
    #expect(try store!.verify().map(\.place) == ["members"])
    store!.close()
    store = nil
    #expect(try SharedStore.repair(at: path).outcome == .repaired)
    store = try open()
    #expect(try store!.verify() == [])
    #expect(try contents("n", store!).entries == 50)
  }

  // MARK: Budgets of entries

  @Test func `An entry budget below a minimum of bytes is reached and freezes nothing`() throws {
    let store = try open(budget: .megabytes(1))
    let names = try store.namespace("a")
    try names.setLimits(.init(minimum: .kilobytes(60)))
    for key in 0..<500 { try names.setBytes(value(30), forKey: key) }
    var limits = try store.limits()
    limits.entryBudget = 100
    try store.setLimits(limits)
    #expect(try store.statistics().entries <= 100)
    for key in 0..<50 { try store.setBytes(value(10), forKey: key) }
    for key in 0..<50 { try names.setBytes(value(40), forKey: key) }
    #expect(try store.statistics().entries <= 100)
    #expect(try store.verify() == [])
  }

  // MARK: Calls that did not come to their end

  @Test func `An index that a killed call began is removed by a call without a maximum`() throws {
    let store = try open()
    let names = try store.namespace("n")
    for key in 0..<50 { try names.setBytes(value(10), forKey: key) }
    let space = names.space
    try store.core.write { transaction in
      let number = try transaction.number(of: space)
      try transaction.changeNamespace(number) { $0.beginIndex() }
    }
    for key in 0..<50 { try names.setBytes(value(20), forKey: key) }
    try names.setLimits(.init())
    for key in 0..<50 { try names.setBytes(value(30), forKey: key) }
    #expect(try store.core.memberRecords() == 0)
    #expect(try store.verify() == [])
  }

  @Test func `A namespace above a lowered maximum does not grow`() throws {
    let store = try open()
    let names = try store.namespace("n")
    for key in 0..<3000 { try names.setBytes(value(100), forKey: key) }
    try names.setLimits(.init(maximum: .megabytes(1)))
    // As if the process that lowered the maximum was killed before it evicted.
    let space = names.space
    try store.core.write { transaction in
      let number = try transaction.number(of: space)
      try transaction.changeNamespace(number) { $0.maximum = 250_000 }
    }
    let before = try contents("n", store)
    #expect(before.bytes > 250_000)
    try names.setBytes(value(200_000), forKey: 10_000)
    #expect(try contents("n", store).bytes <= before.bytes)
    for key in 0..<10 { try names.setBytes(value(10), forKey: 20_000 + key) }
    #expect(try contents("n", store).bytes <= 250_000)
    #expect(try store.verify() == [])
  }
}
