// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// LOOKING WHERE AN ENTRY WAS
//
// A look-up that found an entry whole in a snapshot remembers where in the map it lay, with the
// snapshot's seal and the entry's checksum (`RecordLocationCache`). The next look-up of the key asks, in
// this order, as a hit in memory does:
//
// 1. Waits a write of the key in this process's queue? Asked by the caller, before.
// 2. Was anything written to the key's slot since the snapshot, the floor raised, the generation
//    condemned? Then the tree is asked (R1 to R3).
// 3. Do a copy of the bytes at the place and this key still have that checksum? It is over key,
//    payload and header, the label of the transaction that wrote it included: then this is what the
//    snapshot had, whatever has become of the page, and by 2 it is the newest. If not, the page was
//    used again for something else, and the tree is asked.
//
// No snapshot is taken: nothing is pinned, and only the environment must stay open.

extension StoreCore {
  /// The hash of a key, whose words are being fetched from here on, and the namespace's number.
  @inline(__always)
  func place(
    of tag: UInt8, _ key: RawSpan, in space: NamespaceHandle, _ generation: Generation
  ) -> (hash: UInt64, number: UInt32) {
    let (hash, number) = space.place(of: tag, key, in: generation)
    generation.table.prefetch(hash: hash)
    generation.places?.prefetch(hash)
    return (hash, number)
  }

  /// An entry that is where it was, with the seal of the snapshot it was found in; `nil`: it has to be
  /// looked for in the tree. A hit is counted, and counts as a use.
  ///
  /// - Parameter number: The namespace's number; zero while this process does not know it.
  @inline(__always)
  func remembered(
    _ tag: UInt8, _ key: RawSpan, _ hash: UInt64, _ number: UInt32, in generation: Generation
  ) -> (value: StoredValue, seal: UInt64)? {
    guard let places = generation.places, let record = places.place(of: hash) else { return nil }
    places.prefetch(record)
    guard !generation.table.isFenced,
      generation.table.isCurrent(slot: slotIndex(hash), seal: record.seal)
        || Mutant.placesIgnoreStamps.isActive
    else { return nil }
    // Closed, or taken: the tree's look-up has an answer to that.
    guard let entrance = generation.pool.enter() else { return nil }
    generation.table.markInsideLMDB(process: generation.process, index: entrance, true)
    let value = places.withBytes(at: record) {
      read(tag, key, number, checksum: record.checksum, $0)
    }
    generation.table.markInsideLMDB(process: generation.process, index: entrance, false)
    generation.pool.leave(entrance)
    guard let value else { return nil }
    fault(.beforeFill)
    generation.count(.storeHits)
    generation.table.touch(hash: hash)
    return (value, record.seal)
  }

  @inline(__always)
  private func read(
    _ tag: UInt8, _ key: RawSpan, _ number: UInt32, checksum: UInt64, _ record: RawSpan
  ) -> StoredValue? {
    guard let header = try? EntryHeader(in: record, at: 0),
      header.checksum == checksum, header.namespace == number, header.keyTag == tag,
      header.keyLength == key.byteCount, !header.isChunked,
      header.storedLength == record.byteCount,
      header.expires == EntryHeader.never || !header.isExpired(at: options.clock.now())
    else { return nil }
    let start = EntryHeader.size + header.keyLength
    let payload = record.slice(start..<(start + header.payloadLength))!.copied()
    let hashed = XXH64.hash(payload, seed: XXH64.hash(key))
    return header.isIntact(contentHash: hashed) ? StoredValue(payload, header) : nil
  }

  /// What a key has where it was last seen; `nil`: the tree would be asked. For tests.
  package func remembered(_ key: EncodedKey, in space: NamespaceHandle) throws -> [UInt8]? {
    let generation = try generation()
    return key.bytes.withRawSpan { bytes in
      let (hash, number) = place(of: key.tag, bytes, in: space, generation)
      return remembered(key.tag, bytes, hash, number, in: generation)?.value.payload
    }
  }
}
