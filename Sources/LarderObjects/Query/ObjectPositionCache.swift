// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
internal import LarderEngine
internal import Synchronization

// OBJECTS IN MEMORY, BY SEQUENCE
//
// An index leads to sequences. Where the object of one is in memory, and the stamps say that nobody
// has written it since it was read, the query needs neither its record nor the checksum of that, and
// waits for a few lines of memory instead of twenty. What is remembered here are hints, a word each;
// the object found says of which type and sequence it is, and the memory tier whether it is current.

/// Where in a memory tier the objects of a type were last seen.
final class ObjectPositionCache: Sendable {
  private struct State: Sendable {
    /// The low half of a sequence, a shard (4 bits), a position plus one (28 bits); zero: nothing.
    /// At the sequence's low bits: those of a type are given one after the other.
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
  /// The object of a sequence, if it is in memory as a snapshot has it.
  func remembered(
    _ sequence: UInt64, _ type: UInt32, _ view: SnapshotView
  ) -> (object: Object, label: UInt64)? {
    guard let spot = spots.spot(of: sequence),
      let found = tier.value(
        at: spot, newest: view.label, table: view.generation.table,
        if: { $0.sequence == sequence && $0.type == type }),
      let object = object(in: found.value)
    else { return nil }
    return (object, found.label)
  }

  /// Files what a query has read, to be found by its id and by its sequence.
  func file(
    _ decoded: Decoded, _ text: String, _ id: [UInt8], _ head: StoredObjectMetadata, cost: Int,
    _ view: SnapshotView
  ) {
    guard sharesInstances else { return }
    tier.file(
      decoded, forKey: text, seal: view.seal, label: head.label, expires: .max, cost: cost,
      storeHash: view.generation.objectHash(type: decoded.type, id: id),
      table: view.generation.table)
    noteSpot(of: text, head.sequence)
  }

  func noteSpot(of text: String, _ sequence: UInt64) {
    if let spot = tier.spot(of: text) { spots.note(spot, of: sequence) }
  }
}
