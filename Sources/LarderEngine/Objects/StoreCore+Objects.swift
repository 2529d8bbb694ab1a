// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem

/// One snapshot, lent to code that reads objects.
package struct SnapshotView: Sendable {
  package let generation: Generation
  /// The newest transaction the snapshot contains.
  package let label: UInt64

  /// What memory tiers compare with the stamps.
  package var seal: UInt64 { ~label }

  /// Whether nothing of what was learned under another snapshot's label changed since.
  package func isCurrent(_ slot: StampSlot, since label: UInt64) -> Bool {
    generation.table.minimumValidReadVersion(slot: slot.index) <= label
  }
}

/// A stamp slot that tells of more than one key.
package struct StampSlot: Sendable, Hashable {
  let index: Int

  private init(_ hash: UInt64) { index = Int(hash & UInt64(SharedTableLayout.stampCount - 1)) }

  /// Every write to a key of a hash.
  package static func key(hash: UInt64) -> StampSlot { StampSlot(hash) }

  /// Every write to a type.
  package static func type(_ number: UInt32, in generation: Generation) -> StampSlot {
    StampSlot(ObjectFormat.typeSlot(number, in: generation))
  }

  /// Every change of the catalog.
  package static func catalog(in generation: Generation) -> StampSlot {
    StampSlot(ObjectFormat.typeSlot(0, in: generation))
  }
}

extension StoreCore {
  /// Reads in one snapshot; damage as in ``reading(_:_:)``.
  package func withObjectSnapshot<R>(
    _ operation: String,
    _ body: (borrowing ReadTransaction, SnapshotView) throws -> R
  ) throws -> R {
    try reading(operation) { generation in
      try generation.withSnapshot { transaction, label in
        try body(transaction, SnapshotView(generation: generation, label: label))
      }
    }
  }
}

extension Generation {
  /// Whether what was learned under a label is still true: one look at the stamps, no snapshot.
  package func isCurrent(_ slot: StampSlot, since label: UInt64) -> Bool {
    !table.isFenced && table.minimumValidReadVersion(slot: slot.index) <= label
  }

  /// The hash under which an object's id is filed.
  package func objectHash(type: UInt32, id: [UInt8]) -> UInt64 {
    ObjectFormat.hash(type: type, id: id, in: self)
  }
}
