// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Computation leases, and what forbids a computed value.
@Suite(.timeLimit(.minutes(60))) struct LeaseTests {
  let temporary: TemporaryStore
  var store: SharedStore { temporary.store }
  init() throws { temporary = try TemporaryStore() }

  @Test func `After a burst of computations a write reads no more lease slots than before`() throws
  {
    let table = try store.core.generation().table
    let leases = (0..<1024).compactMap {
      table.takeLease(hash: UInt64($0), namespace: 1, process: 0)
    }
    #expect(leases.count == 1024 && table.leasesInUse == 1024)
    #expect(table.takeLease(hash: 1, namespace: 1, process: 0) == nil)
    table.cancelLeases(hash: 7)
    #expect(leases.filter { !table.isValid($0) } == [leases[7]])
    for lease in leases { table.dropLease(lease) }
    #expect(table.leasesInUse == 0)
  }

  @Test func `A lease of an earlier acquisition of a slot is neither valid nor able to free it`()
    throws
  {
    let table = try store.core.generation().table
    let first = try #require(table.takeLease(hash: 1, namespace: 1, process: 3))
    table.dropLease(first)
    let second = try #require(table.takeLease(hash: 1, namespace: 1, process: 3))
    #expect(!table.isValid(first) && table.isValid(second))
    table.dropLease(first)
    #expect(table.isValid(second) && table.leasesInUse == 1)
    table.cancelLeases(hash: 1)
    #expect(!table.isValid(second))
    table.dropLease(second)
    table.dropLease(second)
    #expect(table.leasesInUse == 0)
  }

  @Test func `A value computed across a commit without stamps is returned and not stored`()
    async throws
  {
    let cache = PersistentCache<String, Int>(storage: store, options: .init(memoryCountLimit: 0))
    try await cache.setValue(1, forKey: "other")
    let core = store.core
    let value = try await cache.value(forKey: "k") {
      // As if a program had committed past the table: nothing was stamped for the last two commits.
      let table = try core.generation().table
      try await cache.setValue(2, forKey: "other")
      table.lastStamped -= 2
      try await cache.setValue(3, forKey: "other")
      return 10
    }
    #expect(value == 10)
    #expect(try await cache.value(forKey: "k") == nil)
    #expect(try store.statistics().rejectedFills == 1)
    // The next one is stored.
    #expect(try await cache.value(forKey: "k") { 11 } == 11)
    #expect(try await cache.value(forKey: "k") == 11)
  }
}
