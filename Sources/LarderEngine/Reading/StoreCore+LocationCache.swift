// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// THE LOCATION CACHE
//
// A look-up that found a complete entry in a snapshot stores the entry's location in the map, with
// the snapshot's inverted read version and the entry's checksum (`RecordLocationCache`). The next
// look-up of the key checks the following conditions in this order, as a memory hit does:
//
// 1. Whether this process has a pending write of the key. The caller checks that first.
// 2. Whether a write to the key's slot was stamped since the snapshot, the floor was raised, or the
//    generation was fenced. If so, the look-up searches the tree (R1 to R3). The slots of an entry's
//    tags are checked after the copy.
// 3. Whether a copy of the bytes at the location, together with this key, still has that checksum.
//    The checksum covers key, payload and header, including the commit version of the transaction
//    that wrote the entry. If it matches, the copy is what the snapshot contained, whatever has
//    happened to the page since, and by condition 2 it is the newest. If not, the page was reused,
//    and the look-up searches the tree.
//
// No snapshot is acquired and no pages are pinned; only the environment must stay open.

extension StoreCore {
  /// Returns the hash of a key and the namespace's identifier, and prefetches the words of the
  /// hash.
  @inline(__always)
  func place(
    of tag: UInt8, _ key: RawSpan, in space: NamespaceHandle, _ generation: Generation
  ) -> (hash: UInt64, number: UInt32) {
    let (hash, number) = space.place(of: tag, key, in: generation)
    generation.table.prefetch(hash: hash)
    generation.places?.prefetch(hash)
    return (hash, number)
  }

  /// Returns an entry from its cached location, with the inverted read version of the snapshot in
  /// which it was found. Counts a hit and updates the recency.
  ///
  /// - Parameter number: The namespace identifier; zero while it is unknown in this process.
  /// - Returns: The entry, or `nil` if the caller has to search the tree.
  @inline(__always)
  func readCachedLocation(
    _ tag: UInt8, _ key: RawSpan, _ hash: UInt64, _ number: UInt32, in generation: Generation
  ) -> (value: StoredValue, readVersion: UInt64)? {
    guard let places = generation.places, let record = places.place(of: hash) else { return nil }
    places.prefetch(record)
    guard !generation.table.isFenced,
      generation.table.isCurrent(slot: StampSlot(hash: hash), readVersion: record.readVersion)
        || Mutant.placesIgnoreStamps.isActive
    else { return nil }
    // The generation is closed, or every reader is in use: the search of the tree handles both.
    guard let readerIndex = generation.pool.enter() else { return nil }
    generation.table.markInsideLMDB(process: generation.process, index: readerIndex, true)
    let value = places.withBytes(at: record) {
      read(tag, key, (hash, number), in: generation, record, $0)
    }
    generation.table.markInsideLMDB(process: generation.process, index: readerIndex, false)
    generation.pool.leave(readerIndex)
    guard let value else { return nil }
    fault(.beforeFill)
    generation.count(.storeHits)
    recordUse(of: value, hash: hash, in: generation)
    return (value, record.readVersion)
  }

  @inline(__always)
  private func read(
    _ tag: UInt8, _ key: RawSpan, _ place: (hash: UInt64, number: UInt32),
    in generation: Generation, _ location: RecordLocation, _ record: RawSpan
  ) -> StoredValue? {
    guard let header = try? EntryHeader(in: record, at: 0), header.checksum == location.checksum,
      header.matches(tag, keyLength: key.byteCount, namespace: place.number), !header.isChunked,
      header.storedLength == record.byteCount, !isExpired(header, hash: place.hash, generation)
    else { return nil }
    let value = StoredValue(copying: header, in: record, at: 0, keyHash: XXH64.hash(key))
    if header.isTagged {
      guard let value, generation.table.areCurrent(value.tags, readVersion: location.readVersion)
      else { return nil }
    }
    return value
  }

  /// Returns the payload of a key from its cached location, or `nil` if a look-up would search the
  /// tree. For tests.
  package func readCachedLocation(_ key: EncodedKey, in space: NamespaceHandle) throws -> [UInt8]? {
    let generation = try generation()
    return key.bytes.withRawSpan { bytes in
      let (hash, number) = place(of: key.tag, bytes, in: space, generation)
      return readCachedLocation(key.tag, bytes, hash, number, in: generation)?.value.payload
    }
  }
}
