// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderSystem

// UNIQUE KEYS
//
// The entry of an index key ends with the sequence of its object, so within a transaction several
// objects can have one key of a unique index, as two objects that exchange their keys do. A save
// that finds its key in use notes the key. Before the commit only the noted keys are looked up
// again: no other key can have two objects, and a transaction without a conflict looks up nothing.

/// The error for a key of a unique index that another object has.
package struct UniqueKeyConflict: Error, Sendable {
  package let index: UInt32
  package let key: [UInt8]
  package let holder: [UInt8]
  package let id: [UInt8]
}

extension StoreTransaction {
  /// Returns an object with a key other than the given one, or `nil` if there is none.
  func holder(of key: ObjectIndexKey, except own: UInt64?) throws -> UInt64? {
    try withSnapshot { snapshot in
      var holder: UInt64?
      try ObjectReading.scanIndex(
        key.index, from: key.bytes, below: key.bytes + [0], in: snapshot
      ) { found, sequence in
        if sequence != own, found.equals(key.bytes) { holder = sequence }
        return holder == nil
      }
      return holder
    }
  }

  func conflict(
    _ key: ObjectIndexKey, _ id: [UInt8], heldBy holder: UInt64, _ type: UInt32
  ) -> UniqueKeyConflict {
    let holder = try? withSnapshot {
      try ObjectReading.object(type: type, sequence: holder, in: $0)
    }
    return UniqueKeyConflict(index: key.index, key: key.bytes, holder: holder?.id ?? [], id: id)
  }

  /// Returns the first key of a unique index that two objects have, or `nil` if there is none.
  ///
  /// - Complexity: O(*n*) in the keys of the index.
  package mutating func firstDuplicate(in index: UInt32, type: UInt32) throws -> UniqueKeyConflict?
  {
    try putHeldEntries()
    var last: (key: [UInt8], sequence: UInt64) = ([], 0)
    var second: UInt64?
    try withSnapshot { snapshot in
      try ObjectReading.scanIndex(index, in: snapshot) { key, sequence in
        if last.sequence != 0, key.equals(last.key) {
          let key = ObjectIndexKey(index: index, bytes: last.key)
          if !key.isEmpty { second = sequence }
        } else {
          last = (key.copied(), sequence)
        }
        return second == nil
      }
    }
    guard let second else { return nil }
    let id = try withSnapshot { snapshot in
      do {
        return try ObjectReading.object(type: type, sequence: second, in: snapshot)?.id
      } catch is DamagedObject {
        return Array("of sequence number \(second), damaged".utf8)
      }
    }
    return conflict(
      ObjectIndexKey(index: index, bytes: last.key), id ?? [], heldBy: last.sequence, type)
  }

  /// Returns a conflict of a save that deferred its conflicts, if no later change of the transaction
  /// has resolved it, or `nil` if there is none.
  package mutating func firstConflict() throws -> UniqueKeyConflict? {
    for (key, id, type) in objects.conflicts {
      guard let first = try holder(of: key, except: nil),
        let second = try holder(of: key, except: first)
      else { continue }
      let own = try objectSequence(type: type, id: id)
      if own == first { return conflict(key, id, heldBy: second, type) }
      // The object that was noted may have another key now.
      let other = own == second ? id : conflict(key, id, heldBy: second, type).holder
      return conflict(key, other, heldBy: first, type)
    }
    return nil
  }
}
