// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine
public import Synchronization

// SPOTS
//
// A query's walk knows its objects by numbers, not by their keys. Whoever remembers where in memory
// the value of a number was last seen finds it there without the key, without reading and checking
// the record that says the key. A spot is a hint: the value there says itself what it is.

/// Where a value lies in a memory tier, until others are filed or go.
@usableFromInline
package struct TierPosition: Sendable {
  @usableFromInline package let shard: Int
  @usableFromInline package let position: Int

  @inlinable
  package init(shard: Int, position: Int) {
    self.shard = shard
    self.position = position
  }
}

extension MemoryTier {
  /// Where the value of a key lies now.
  @inlinable
  package func spot(of key: Key) -> TierPosition? {
    if fork.isForkedChild { return nil }
    let hash = key.hashValue
    let position = shard(hash).state.withLock { $0.position(of: key, hash: hash) }
    guard position >= 0 else { return nil }
    return TierPosition(shard: number(ofShard: hash), position: position)
  }

  @inlinable @inline(__always)
  func number(ofShard hash: Int) -> Int {
    shards.count == 1 ? 0 : Int(truncatingIfNeeded: UInt(bitPattern: hash) >> shift)
  }

  /// The value at a spot, if it is the wanted one and a snapshot has it exactly so: it was written by
  /// a transaction the snapshot contains, and nothing of its key has been written since.
  ///
  /// - Parameters:
  ///   - newest: The label of the newest transaction in the snapshot.
  ///   - table: That of the snapshot's generation.
  /// - Returns: The value and the label of the transaction that wrote it.
  @inlinable
  package func value(
    at spot: TierPosition, newest: UInt64, table: SharedTable, if isWanted: (Value) -> Bool
  ) -> (value: Value, label: UInt64)? {
    guard spot.shard < shards.count else { return nil }
    return shards[spot.shard].state.withLock { shard -> (value: Value, label: UInt64)? in
      let position = spot.position
      guard position < shard.entries.count, shard.view.isOf(table) else { return nil }
      let label = shard.entries[position].label
      let slot = Int(truncatingIfNeeded: shard.entries[position].storeHash & 0xFFFF)
      // In this order; see ``hit(_:)``.
      guard
        label != 0, label <= newest, shard.entries[position].record == nil,
        shard.entries[position].expires == Int64.max, !shard.view.mayBeShadowed(slot: slot),
        shard.view.isCurrent(slot: slot, seal: shard.entries[position].seal),
        isWanted(shard.entries[position].value)
      else { return nil }
      if !shard.entries[position].wasUsed { shard.entries[position].wasUsed = true }
      return (shard.entries[position].value, label)
    }
  }
}
