// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// LOOKING WHERE AN ENTRY WAS
//
// A look-up that found an entry whole in a snapshot remembers where in the map it lay, with the
// snapshot's seal and the entry's checksum (`RecordPlaces`). The next look-up of the key asks, in
// this order, as a hit in memory does:
//
// 1. Waits a write of the key in this process's queue? Asked by the caller, before.
// 2. Was anything written to the key's slot since the snapshot, or the floor raised? Then the tree
//    is asked (R1 to R3).
// 3. Do a copy of the bytes at the place and this key still have that checksum? It is over key,
//    payload and header, the label of the transaction that wrote it included: then this is what the
//    snapshot had, whatever has become of the page, and by 2 it is the newest. If not, the page was
//    used again for something else, and the tree is asked.
//
// No snapshot is taken: nothing is pinned, and only the environment must stay open.

extension StoreCore {
  /// Finds an entry without the tree; `nil`: it has to be looked for there.
  @inline(__always)
  func remembered(
    _ key: EncodedKey, _ hash: UInt64, _ number: UInt32, _ generation: Generation
  ) throws -> Lookup? {
    guard let places = generation.places, let place = places.place(of: hash) else { return nil }
    places.prefetch(place)
    guard
      generation.table.isCurrent(slot: slotIndex(hash), seal: place.seal)
        || Mutant.placesIgnoreStamps.isActive
    else { return nil }
    let value = try generation.whileOpen { _ in
      places.withBytes(at: place) { read(key, number, place, $0) }
    }
    return value.map {
      Lookup(outcome: .found($0), hash: hash, seal: place.seal, generation: generation)
    }
  }

  /// What a key has where it was last seen; `nil`: the tree would be asked. For tests.
  package func remembered(_ key: EncodedKey, in space: Space) throws -> [UInt8]? {
    let generation = try generation()
    let (hash, number) = space.place(of: key, in: generation)
    guard let lookup = try remembered(key, hash, number, generation),
      case .found(let value) = lookup.outcome
    else { return nil }
    return value.payload
  }

  @inline(__always)
  private func read(
    _ key: EncodedKey, _ number: UInt32, _ place: RecordPlace, _ record: RawSpan
  ) -> StoredValue? {
    guard let header = try? EntryHeader(in: record, at: 0),
      header.checksum == place.checksum, header.namespace == number, header.keyTag == key.tag,
      header.keyLength == key.bytes.count, !header.isChunked,
      header.storedLength == record.byteCount,
      header.expires == EntryHeader.never || !header.isExpired(at: options.clock.now())
    else { return nil }
    let start = EntryHeader.size + header.keyLength
    let payload = record.slice(start..<(start + header.payloadLength))!.copied()
    let hashed = EntryHeader.contentHash(key: key.bytes, payload: payload)
    return header.isIntact(contentHash: hashed) ? StoredValue(payload, header) : nil
  }
}
