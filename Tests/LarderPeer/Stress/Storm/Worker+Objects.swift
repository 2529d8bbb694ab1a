// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderObjects
import LarderTesting

// Objects by identifier. Each has one writer at a time, so the order of issue is the order of
// commits.

extension Worker {
  /// Saves, merges and deletes its own objects with every write operation of the object store.
  func saveObjects() -> [Operation] {
    let own = OracleRegion.keptItems.own(place)
    let transient = OracleRegion.transientItems.own(place)
    let objects = ObjectStore(store)
    let items = objects.collection(StressItem.self)
    return [
      Operation(7) { try self.save([own.randomElement()!], objects) },
      Operation(4) { try self.save(own.shuffled().prefix(4), objects) },
      Operation(2) { try self.change(own.randomElement()!, objects) },
      Operation(2) { try self.merge(transient, objects) },
      Operation(3) { try self.delete(transient, objects) },
      Operation(place.count == 1 ? 1 : 0) { try self.saveBulk(objects) },
      Operation(1) {
        let key = own.randomElement()!
        if let item = try items.object(id: key), !item.isWhole(key) {
          self.violation("object \(key) is torn")
        }
      },
    ]
  }

  private func save(_ keys: some Sequence<Int>, _ objects: ObjectStore) throws {
    let writes = board.issue(keys, of: .keptItems)
    try objects.save(writes.map { StressItem($0) })
    board.acknowledge(writes, of: .keptItems)
  }

  /// Reads and writes in one transaction, then writes in another that is rolled back.
  private func change(_ key: Int, _ objects: ObjectStore) throws {
    let acknowledged = board[.keptItems, key, .acknowledged]
    let write = board.issue(key, of: .keptItems)
    let seen = try objects.write { transaction in
      let seen = try transaction.object(StressItem.self, id: key)?.sequence ?? 0
      try transaction.save(StressItem(write))
      let now = try transaction.object(StressItem.self, id: key)?.sequence
      return now == write.sequence ? seen : UInt64.max
    }
    board.acknowledge(write, of: .keptItems)
    if seen < acknowledged || seen >= write.sequence {
      violation("object \(key) is \(seen) in the transaction of \(write.sequence)")
    }
    struct Undone: Error {}
    do {
      try objects.write { transaction in
        try transaction.save(StressItem((key, 0)))
        try transaction.deleteAll(StressBulk.self)
        throw Undone()
      }
    } catch is Undone {}
  }

  /// Replaces the transient objects of this writer by a random subset.
  private func merge(_ keys: [Int], _ objects: ObjectStore) throws {
    let owner = place.index
    let split = keys.shuffled().prefix(Int.random(in: 0...keys.count))
    let saved = board.issue(split, of: .transientItems)
    let deleted = board.issue(
      keys.filter { !split.contains($0) }, of: .transientItems, removing: true)
    try objects.merge(
      saved.map { StressItem($0, owner: owner) },
      into: \StressItem.owner == owner && \StressItem.isKept == false)
    board.acknowledge(saved + deleted, of: .transientItems)
  }

  private func delete(_ keys: [Int], _ objects: ObjectStore) throws {
    let owner = place.index
    for key in keys where Bool.random() {
      let write = board.issue(key, of: .transientItems)
      try objects.save(StressItem(write, owner: owner))
      board.acknowledge(write, of: .transientItems)
    }
    let gone = Bool.random() ? [keys.randomElement()!] : keys
    let writes = board.issue(gone, of: .transientItems, removing: true)
    switch Int.random(in: 0..<3) {
    case 0 where gone.count == 1: try objects.delete(StressItem.self, id: gone[0])
    case 1 where gone.count > 1:
      try objects.objects(StressItem.self).where(
        \.owner == owner && \.isKept == false
      ).delete()
    default: try objects.delete(StressItem.self, ids: gone)
    }
    board.acknowledge(writes, of: .transientItems)
    for key in gone {
      try check(key, of: .transientItems) { try objects.object(StressItem.self, id: key) }
    }
  }

  /// Saves objects of a type or deletes all of them; the sweep of deleted ones runs concurrently.
  private func saveBulk(_ objects: ObjectStore) throws {
    let isRemoval = Bool.random()
    let writes = board.issue(OracleRegion.bulkItems.keys, of: .bulkItems, removing: isRemoval)
    if isRemoval {
      try objects.deleteAll(StressBulk.self)
    } else {
      try objects.save(writes.map { StressBulk(id: $0.key, sequence: $0.sequence) })
    }
    board.acknowledge(writes, of: .bulkItems)
  }

  // MARK: Reading

  /// Fetches objects by identifier as fast as it can.
  func readObjects() {
    let objects = ObjectStore(store)
    let items = objects.collection(StressItem.self)
    readFast(
      .keptItems, period: 0x400, slowly: { try readSlowly(objects) },
      { try items.object(id: $0) })
  }

  /// Reads objects of every kind in every byte, also through an object store without memory.
  private func readSlowly(_ known: ObjectStore) throws {
    for objects in [ObjectStore(store), known] {
      for region in [OracleRegion.keptItems, .transientItems] {
        let key = region.keys.randomElement()!
        try check(key, of: region) { try objects.object(StressItem.self, id: key) }
      }
      let key = OracleRegion.bulkItems.keys.randomElement()!
      try check(key, of: .bulkItems) { try objects.object(StressBulk.self, id: key) }
    }
  }
}
#endif
