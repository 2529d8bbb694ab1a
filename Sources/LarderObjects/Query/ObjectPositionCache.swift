// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
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
    /// Sets of four entries of: the low half of a sequence number, a shard (4 bits), a position plus
    /// one (28 bits); zero if empty. The low bits of the sequence number select the set, because the
    /// sequence numbers of a type are consecutive. Four, because the numbers in memory are not: two
    /// of them that displaced each other would cost a read of the store in each query.
    var words: ContiguousArray<UInt64> = []
    var used = 0

    /// Returns the position of the first entry of a sequence number's set.
    func set(of sequence: UInt64) -> Int {
      Int(truncatingIfNeeded: sequence) & (words.count / width &- 1) &* width
    }

    /// Enters a word, in place of an entry of the same sequence number or of an older one if the set
    /// is full.
    mutating func enter(_ word: UInt64) {
      let first = set(of: word >> 32)
      var slot = first + Int(truncatingIfNeeded: word) & (width - 1)
      for position in first..<first + width {
        if words[position] == 0 {
          used += 1
          slot = position
          break
        }
        if words[position] >> 32 == word >> 32 {
          slot = position
          break
        }
      }
      words[slot] = word
    }
  }

  private let state = Mutex(State())
  private static let smallest = 1024
  private static let largest = 1 << 20

  func spot(of sequence: UInt64) -> TierPosition? {
    let word = state.withLock { state -> UInt64 in
      if state.words.isEmpty { return 0 }
      let first = state.set(of: sequence)
      for position in first..<first &+ width
      where state.words[position] >> 32 == sequence & 0xFFFF_FFFF {
        return state.words[position]
      }
      return 0
    }
    guard word != 0 else { return nil }
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
      state.enter(word)
    }
  }

  private static func grow(_ state: inout State) {
    let old = state.words
    let size = max(old.count * 2, smallest)
    state.words = ContiguousArray(repeating: 0, count: size)
    state.used = 0
    for word in old where word != 0 { state.enter(word) }
  }
}

/// The number of entries of a set.
private let width = 4

/// The objects of a type in memory, for a query of one snapshot.
// A class: the queries' closures copy a reference.
final class ObjectMemory: Sendable {
  private let tier: MemoryTier<String, DecodedObject>
  private let spots: ObjectPositionCache
  private let type: UInt32
  private let view: SnapshotView
  private let table: SharedTable

  init(
    _ tier: MemoryTier<String, DecodedObject>, _ spots: ObjectPositionCache, type: UInt32,
    _ view: SnapshotView
  ) {
    self.tier = tier
    self.spots = spots
    self.type = type
    self.view = view
    table = view.generation.table
  }

  /// Returns the object of a sequence number if the memory tier holds the version of the snapshot.
  func object(_ sequence: UInt64) -> FoundObject? {
    guard let spot = spots.spot(of: sequence),
      let found = tier.value(
        at: spot, newest: view.commitVersion, table: table,
        if: { $0.sequence == sequence && $0.type == type && $0.isFresh })
    else { return nil }
    return FoundObject(
      decoded: found.value, sequence: sequence, commitVersion: found.commitVersion)
  }

  /// Returns the object of an id if it was decoded from the stored bytes that the snapshot shows.
  func object(
    _ text: String, _ id: RawSpan, _ head: StoredObjectMetadata, cost: Int
  ) -> DecodedObject? {
    guard
      let (known, spot) = tier.revalidate(
        text, commitVersion: head.commitVersion, readVersion: view.readVersion,
        table: table), known.isFresh
    else { return nil }
    if known.sequence == head.sequence, known.type == type {
      spots.note(spot, of: head.sequence)
    } else if known.context == nil {
      // A look-up by id inserted the object.
      insert(known.placed(type: type, sequence: head.sequence), text, id, head, cost: cost)
    }
    return known
  }

  /// Inserts an object that the query has read, under its id and its sequence number.
  func insert(
    _ decoded: DecodedObject, _ text: String, _ id: RawSpan, _ head: StoredObjectMetadata,
    cost: Int
  ) {
    let spot = tier.insert(
      decoded, forKey: text,
      from: TierOrigin(
        readVersion: view.readVersion, commitVersion: head.commitVersion,
        storeHash: view.generation.objectHash(type: type, id: id),
        table: table),
      expires: .max, cost: cost)
    if let spot { spots.note(spot, of: head.sequence) }
  }
}
