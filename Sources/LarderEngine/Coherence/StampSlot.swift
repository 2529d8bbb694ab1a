// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The stamp slot of a key's hash: its place among the stamps, and among the counters of pending
/// writes. Keys with equal low bits share a slot.
///
/// An index is always below ``count``, because it is derived from a hash.
@frozen @usableFromInline
package struct StampSlot: Sendable, Hashable {
  /// The number of slots, a power of two. A table with fewer stamps uses the low bits of an index.
  @inlinable package static var count: Int { 65_536 }

  @usableFromInline package let index: Int

  /// Creates the slot of every write to a key of a hash.
  @inlinable @inline(__always)
  package init(hash: UInt64) {
    index = Int(truncatingIfNeeded: hash) & (StampSlot.count - 1)
  }
}

extension Generation {
  /// Returns whether the keys of a slot are unchanged since a commit version. Needs no snapshot.
  package func isCurrent(_ slot: StampSlot, since commitVersion: UInt64) -> Bool {
    !table.isFenced && table.minimumValidReadVersion(slot: slot) <= commitVersion
  }
}
