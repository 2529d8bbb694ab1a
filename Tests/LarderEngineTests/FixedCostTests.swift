// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// The size of a store on the disk before it holds much data.
@Suite(.timeLimit(.minutes(60))) struct FixedCostTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// The bytes of all blocks below the store's directory.
  private func diskUse() throws -> Int {
    let outcome = try ChildProcess.run("du", ["-s", "--block-size=1", path])
    let bytes = outcome.output.split(separator: "\t").first.flatMap { Int($0) }
    return try #require(bytes, "\(outcome)")
  }

  @Test(arguments: [1, 16, 64])
  func `A cache with a small budget takes at most 2.9 MB`(megabytes: Int) throws {
    let store = try SharedStore(at: path, StoreOptions(budget: .megabytes(megabytes)))
    let empty = try diskUse()
    try store.setBytes([1], forKey: 1)
    let first = try diskUse()
    print("A cache of \(megabytes) MiB: \(empty) bytes, with a value \(first)")
    #expect(empty <= 2_900_000 && first <= 2_900_000)
    #expect(try store.verify() == [])
  }

  @Test func `A compaction fits the shared table to the budget and keeps last uses`() throws {
    let clock = ManualClock()
    let store = try SharedStore(
      at: path, StoreOptions(budget: .megabytes(1024), clock: clock.storeClock))
    let entries = try store.namespace("n")
    func size() throws -> Int { try store.core.generation().table.shape.fileSize }
    let large = try size()
    for key in 0..<200 {
      try entries.setBytes([1], forKey: key, expires: .afterAccess(.seconds(60)))
    }
    for budget in [ByteCount.bytes(100_000), .megabytes(1024), .megabytes(1)] {
      clock.advance(by: .seconds(50))
      for key in 0..<200 { #expect(try entries.bytes(forKey: key) == [1], "key \(key)") }
      var limits = try store.limits()
      limits.budget = budget
      try store.setLimits(limits)
      try store.compact()
      let number = try store.core.generation().number
      let file = path + "/v1/g-\(number)/shared.table"
      #expect(try TestFiles.size(file) == size())
      if budget.bytes >= 1 << 30 { #expect(try size() == large) }
      if budget.bytes <= 1 << 20 { #expect(try size() < 2_000_000) }
    }
    #expect(large > 10 << 20)
    clock.advance(by: .seconds(50))
    for key in 0..<200 { #expect(try entries.bytes(forKey: key) == [1]) }
    // The order of eviction goes on.
    for key in 1000..<20_000 { try entries.setBytes([1], forKey: key) }
    let statistics = try store.statistics()
    #expect(statistics.bytes <= 1 << 20 && statistics.bytes > 900_000)
    #expect(try store.verify() == [])
  }

  @Test func `A small store takes at most 256 kB when empty and is as good as any`() throws {
    var options = StoreOptions(durability: .durable)
    options.isSmall = true
    let store = try SharedStore(at: path, options)
    let empty = try diskUse()
    for key in 0..<20 { try store.setBytes([UInt8(key)], forKey: key) }
    let filled = try diskUse()
    print("A small store: \(empty) bytes, with values \(filled)")
    // Between two checkpoints no page of the first is used again.
    #expect(empty <= 256_000 && filled <= 640_000)
    // Many keys for each of its stamps: no remembered value is stale.
    let numbers = PersistentCache<Int, Int>(storage: store)
    for key in 0..<400 { try numbers.setValue(key, forKey: key) }
    for key in 0..<400 { #expect(try numbers.value(forKey: key) == key) }
    for key in 0..<400 { try numbers.setValue(key + 1, forKey: key) }
    for key in 0..<400 { #expect(try numbers.value(forKey: key) == key + 1) }
    #expect(try store.verify() == [])
    try store.compact()
    #expect(try numbers.value(forKey: 7) == 8)
    store.close()
    // The files record their kind.
    let again = try SharedStore(at: path, StoreOptions(durability: .durable))
    #expect(try again.statistics().maximumReaders == 510)
    #expect(try again.core.generation().table.shape == .small)
  }
}
