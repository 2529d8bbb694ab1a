// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

// OBJECTS IN MEMORY, BY SEQUENCE NUMBER
//
// An index leads to sequence numbers. If the object of one is in memory, and the stamps prove that
// no process has written it since it was read, the query needs neither its record nor the record's
// checksum, and loads a few cache lines instead of twenty. This cache stores hints of one word
// each; the object found contains its type identifier and sequence number, and the memory tier
// validates whether it is current.

/// A cache of the memory tier positions of a type's objects.
final class ObjectPositionCache: Sendable {
  private struct State: Sendable {
    /// Entries of: the low half of a sequence number, a shard (4 bits), a position plus one (28
    /// bits); zero if empty. The low bits of the sequence number select the entry, because the
    /// sequence numbers of a type are consecutive.
    var words: ContiguousArray<UInt64> = []
    var used = 0
  }

  private let state = Mutex(State())
  private static let smallest = 1024
  private static let largest = 1 << 20

  func spot(of sequence: UInt64) -> TierPosition? {
    let word = state.withLock { state -> UInt64 in
      state.words.isEmpty
        ? 0 : state.words[Int(truncatingIfNeeded: sequence) & (state.words.count &- 1)]
    }
    guard word != 0, word >> 32 == sequence & 0xFFFF_FFFF else { return nil }
    return TierPosition(
      shard: Int(word >> 28 & 0xF), position: Int(word & 0x0FFF_FFFF) &- 1)
  }

  func note(_ spot: TierPosition, of sequence: UInt64) {
    guard spot.shard < 16, spot.position < 0x0FFF_FFFF - 1 else { return }
    let word =
      (sequence & 0xFFFF_FFFF) << 32 | UInt64(spot.shard) << 28 | UInt64(spot.position + 1)
    state.withLock { state in
      if (state.used + 1) * 2 > state.words.count, state.words.count < Self.largest {
        Self.grow(&state)
      }
      let slot = Int(truncatingIfNeeded: sequence) & (state.words.count - 1)
      if state.words[slot] == 0 { state.used += 1 }
      state.words[slot] = word
    }
  }

  private static func grow(_ state: inout State) {
    let old = state.words
    let size = max(old.count * 2, smallest)
    state.words = ContiguousArray(repeating: 0, count: size)
    state.used = 0
    for word in old where word != 0 {
      let slot = Int(word >> 32) & (size - 1)
      if state.words[slot] == 0 { state.used += 1 }
      state.words[slot] = word
    }
  }
}

extension ObjectTypeDescriptor {
  /// Returns the object of a sequence number if the memory tier holds the version of a snapshot.
  func remembered(
    _ sequence: UInt64, _ type: UInt32, _ view: SnapshotView
  ) -> (object: Object, commitVersion: UInt64)? {
    guard let spot = spots.spot(of: sequence),
      let found = tier.value(
        at: spot, newest: view.commitVersion, table: view.generation.table,
        if: { $0.sequence == sequence && $0.type == type }),
      let object = object(in: found.value)
    else { return nil }
    return (object, found.commitVersion)
  }

  /// Inserts an object that a query has read into the memory tier, under its id and its sequence
  /// number.
  func insert(
    _ decoded: Decoded, _ text: String, _ id: [UInt8], _ head: StoredObjectMetadata, cost: Int,
    _ view: SnapshotView
  ) {
    guard sharesInstances else { return }
    tier.insert(
      decoded, forKey: text,
      from: TierOrigin(
        readVersion: view.readVersion, commitVersion: head.commitVersion,
        storeHash: view.generation.objectHash(type: decoded.type, id: id),
        table: view.generation.table),
      expires: .max, cost: cost)
    noteSpot(of: text, head.sequence)
  }

  func noteSpot(of text: String, _ sequence: UInt64) {
    if let spot = tier.spot(of: text) { spots.note(spot, of: sequence) }
  }
}
