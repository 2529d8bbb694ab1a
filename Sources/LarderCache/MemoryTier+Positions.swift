// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine
public import Synchronization

// TIER POSITIONS
//
// An index scan of a query yields sequence numbers, not keys. With the tier position at which the object
// of a sequence number was last found, the query gets the object without reading and verifying the
// record that contains its key. A position is a hint: the caller checks the value it finds there.

/// The position of a value in a memory tier, valid until values are inserted or removed.
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
  @inlinable @inline(__always)
  func number(ofShard hash: Int) -> Int {
    shards.count == 1 ? 0 : Int(truncatingIfNeeded: UInt(bitPattern: hash) >> shift)
  }

  /// Returns the value at a position, if it is the wanted one and a snapshot contains this version: a
  /// transaction in the snapshot wrote it, and no process has written its key since.
  ///
  /// - Parameters:
  ///   - newest: The commit version of the snapshot.
  ///   - table: The table of the snapshot's generation.
  /// - Returns: The value and its commit version.
  @inlinable
  package func value(
    at spot: TierPosition, newest: UInt64, table: SharedTable, if isWanted: (Value) -> Bool
  ) -> (value: Value, commitVersion: UInt64)? {
    guard spot.shard < shards.count else { return nil }
    return shards[spot.shard].state.withLock { shard -> (value: Value, commitVersion: UInt64)? in
      let position = spot.position
      guard position < shard.entries.count, shard.view.matches(table) else { return nil }
      let commitVersion = shard.entries[position].commitVersion
      let slot = StampSlot(hash: shard.entries[position].storeHash)
      // Pending writes first, then the stamps: see ``validValue(_:)``.
      guard
        commitVersion != 0, commitVersion <= newest, shard.entries[position].record == nil,
        shard.entries[position].expires == Int64.max, !shard.view.mayBeShadowed(slot: slot),
        shard.view.isCurrent(slot: slot, readVersion: shard.entries[position].readVersion),
        isWanted(shard.entries[position].value)
      else { return nil }
      if !shard.entries[position].wasUsed { shard.entries[position].wasUsed = true }
      return (shard.entries[position].value, commitVersion)
    }
  }
}
