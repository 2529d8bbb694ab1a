// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct Leaf: Storable, Equatable {
  let id: Int
  var text: String
  static let storedName = "Leaf"
}

/// Objects and the budget of their store.
@Suite(.timeLimit(.minutes(60))) struct StoreBudgetTests {
  private let budget = 1_000_000

  private func fixture() throws -> StoreFixture {
    let ground = try StoreFixture(StoreOptions(budget: .bytes(budget)))
    for key in 0..<200 {
      try ground.store.storage.setBytes([UInt8](repeating: 7, count: 4000), forKey: key)
    }
    return ground
  }

  private func leaf(_ id: Int, _ size: Int = 10_000) -> Leaf {
    Leaf(id: id, text: String(repeating: "x", count: size))
  }

  private func requireFit(_ store: ObjectStore) throws -> StoreStatistics {
    let statistics = try store.storage.statistics()
    #expect(statistics.bytes + statistics.objectBytes <= budget)
    return statistics
  }

  @Test func `Objects count against the store's budget, and entries are evicted for them`() throws {
    let ground = try fixture()
    let before = try requireFit(ground.store)
    #expect(before.entries == 200 && before.objectBytes == 0)
    // Ids of three digits have one size.
    for id in 100..<160 {
      try ground.store.save(leaf(id))
      _ = try requireFit(ground.store)
    }
    let after = try requireFit(ground.store)
    #expect(after.objectBytes > 600_000 && after.evictions > 90 && after.entries > 60)
    #expect(after.objectBytes == (try ground.store.usage(of: Leaf.self).bytes.bytes))
    // A new entry gets the room of other entries.
    try ground.store.storage.setBytes([UInt8](repeating: 8, count: 100_000), forKey: "large")
    #expect(try requireFit(ground.store).objectBytes == after.objectBytes)
    #expect(try ground.store.objects(Leaf.self).count() == 60)
    // What is deleted makes room again, also in one transaction.
    try ground.store.write { transaction in
      for id in 100..<150 { try transaction.delete(Leaf.self, id: id) }
      for id in 200..<250 { try transaction.save(leaf(id)) }
    }
    #expect(try requireFit(ground.store).objectBytes == after.objectBytes)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `Objects that do not fit the store's budget are an error, and nothing is stored`()
    throws
  {
    let ground = try fixture()
    try ground.store.save((0..<80).map { leaf($0) })
    let before = try requireFit(ground.store)
    let error = #expect(throws: StoreError.self) {
      try ground.store.save((100..<130).map { leaf($0) })
    }
    #expect(error?.code == .valueTooLarge)
    #expect(error?.message.contains("objects have") == true, "\(error?.message ?? "")")
    let after = try requireFit(ground.store)
    #expect(after.entries == before.entries && after.objectBytes == before.objectBytes)
    #expect(try ground.store.objects(Leaf.self).count() == 80)
    // Below a lowered budget, too, objects may shrink and be deleted, and no more may be added.
    try ground.store.storage.setLimits(StoreLimits(budget: .bytes(400_000)))
    #expect(try ground.store.storage.statistics().entries == 0)
    #expect(throws: StoreError.self) { try ground.store.save(leaf(200)) }
    #expect(throws: StoreError.self) { try ground.store.storage.setBytes([1], forKey: 1) }
    try ground.store.save(leaf(0, 10))
    for id in 1..<70 { try ground.store.delete(Leaf.self, id: id) }
    try ground.store.save(leaf(200))
    try ground.store.storage.setBytes([1], forKey: 1)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `In a store that exceeds a lower budget objects add nothing to its size`() throws {
    let ground = try StoreFixture(StoreOptions(budget: .bytes(budget)))
    try ground.store.storage.write { transaction in
      for key in 0..<6000 { try transaction.setBytes([1, 2, 3], forKey: key) }
    }
    let before = try ground.store.storage.statistics()
    // As a process leaves it that was killed after it had stored the limit.
    try ground.store.storage.core.generation().table.budget = 200_000
    try ground.store.save((0..<20).map { leaf($0) })
    let after = try ground.store.storage.statistics()
    #expect(after.bytes + after.objectBytes <= before.bytes && after.objectBytes > 200_000)
    #expect(throws: StoreError.self) { try ground.store.save((100..<140).map { leaf($0) }) }
    #expect(try ground.store.objects(Leaf.self).count() == 20)
  }

  @Test func `The size of objects is known after a repair, and zero once all were deleted`() throws
  {
    let ground = try fixture()
    try ground.store.save((0..<50).map { leaf($0) })
    let size = try requireFit(ground.store).objectBytes
    ground.store.storage.close()
    let report = try SharedStore.repair(at: ground.path)
    #expect(report.objectsKept == 50)
    let again = try ObjectStore(at: ground.path, StoreOptions())
    #expect(try requireFit(again).objectBytes == size)
    try again.deleteAll(Leaf.self)
    #expect(try requireFit(again).objectBytes == 0)
    try again.save((0..<80).map { leaf($0) })
    #expect(try again.storage.verify() == [])
  }

  @Test func `Objects deleted and saved again around new entries do not exceed the budget`()
    throws
  {
    let ground = try StoreFixture(StoreOptions(budget: .bytes(budget)))
    try ground.store.save((0..<90).map { leaf($0) })
    let leaves = (0..<80).map { leaf($0) }
    let error = #expect(throws: StoreError.self) {
      try ground.store.write { transaction in
        for id in 0..<80 { try transaction.delete(Leaf.self, id: id) }
        let value = [UInt8](repeating: 7, count: 10_000)
        for key in 0..<70 {
          try transaction.entries.setBytes(value, forKey: key, pinned: key < 40)
        }
        for leaf in leaves { try transaction.save(leaf) }
      }
    }
    #expect(error?.code == .valueTooLarge)
    try ground.store.write { transaction in
      for id in 0..<80 { try transaction.delete(Leaf.self, id: id) }
      let value = [UInt8](repeating: 7, count: 10_000)
      for key in 0..<70 { try transaction.entries.setBytes(value, forKey: key) }
      for leaf in leaves { try transaction.save(leaf) }
    }
    _ = try requireFit(ground.store)
    #expect(try ground.store.objects(Leaf.self).count() == 90)
    #expect(try ground.store.storage.verify() == [])
  }
}
