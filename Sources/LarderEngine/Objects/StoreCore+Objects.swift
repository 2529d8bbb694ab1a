// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

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

extension Generation {
  /// Whether what was learned under a label is still true: one look at the stamps, no snapshot.
  package func isCurrent(_ slot: StampSlot, since commitVersion: UInt64) -> Bool {
    !table.isFenced && table.minimumValidReadVersion(slot: slot.index) <= commitVersion
  }

  /// The hash under which an object's id is filed.
  package func objectHash(type: UInt32, id: [UInt8]) -> UInt64 {
    ObjectFormat.hash(type: type, id: id, in: self)
  }
}
