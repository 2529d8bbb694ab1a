// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

extension StampSlot {
  /// Returns the slot of every write to a type.
  package static func type(_ number: UInt32, in generation: Generation) -> StampSlot {
    StampSlot(hash: ObjectFormat.typeSlot(number, in: generation))
  }

  /// Returns the slot of every change of the catalog.
  package static func catalog(in generation: Generation) -> StampSlot {
    StampSlot(hash: ObjectFormat.typeSlot(0, in: generation))
  }
}

extension Generation {
  /// Returns the hash under which the id of an object is stored.
  package func objectHash(type: UInt32, id: [UInt8]) -> UInt64 {
    ObjectFormat.hash(type: type, id: id, in: self)
  }

  /// Returns the hash under which the id of an object is stored.
  package func objectHash(type: UInt32, id: RawSpan) -> UInt64 {
    ObjectFormat.hash(type: type, id: id, meta: meta)
  }
}
