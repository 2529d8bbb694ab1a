// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

// ENTRIES
//
// The table `entries` maps the keyed 64-bit hash of a key to a record. A record is one entry or,
// where hashes collide, several consecutive entries. All integers are little-endian.
//
//      0  version        u8    2
//      1  flags          u8    1: key and payload are in chunks; 2: sliding expiration; reserved:
//                              4 pinned, 8 known to be absent, 16 tagged, 32 of a remote store
//      2  codec          u16   how the payload is encoded
//      4  key length     u32
//      8  label          u64   commit version of the transaction that wrote it
//     16  created        i64   milliseconds since 1970
//     24  expires        i64   milliseconds since 1970; Int64.max: never; with sliding expiration:
//                              unless the use table has a later use
//     32  payload length u32
//     36  admission      u32   number of the admission into the eviction queues; odd: into the
//                              main queue (`EvictionQueues.swift`); a new value keeps it
//     40  checksum       u64   over the payload, the key and this header (with zero here)
//     48  namespace      u32
//     52  epoch          u32   of the namespace; an entry of an earlier epoch is invisible
//     56  stored length  u32   bytes of this entry in the record, header included
//     60  key tag        u8
//     61  extension      u8    length in units of 8 bytes: 1 with sliding expiration, otherwise 0
//     62  zero           2 bytes
//     64  extension, key, payload         or, in chunks: first chunk id u64, chunk count u32, zero u32
//
// Checksum: XXH64(header, seed: XXH64(payload, seed: XXH64(key))). An extension is hashed between
// payload and header: its hash has the seed of the payload's, and is the seed of the header's.
//
// An extension contains, in the order of their flags: the lifetime of a sliding expiration u64,
// in milliseconds; later the identifiers and epochs of tags; the epoch u32, 4 zero bytes and the
// version u64 of a remote store. An entry with a reserved flag or another extension was written by a
// newer version of the library, and is unreadable for this one.
//
// The table `chunks` maps ids from a sequence to runs of key and payload: a checksum XXH64(bytes,
// seed: id), then up to 32,744 bytes. That is exactly eight pages: longer runs of overflow pages
// fragment the file without bound.
//
// The cost of an entry against the budget is 64 bytes plus its key and its payload.

/// The header of a stored entry; the table above describes its fields.
package struct EntryHeader: Sendable, Hashable {
  package static let size = 64
  package static let version: UInt8 = 2
  /// The flags of entries that only newer versions of the library write.
  private static let reservedFlags: UInt8 = 0b11_1100
  private static let lifetimeSize = 8
  package static let chunkReferenceSize = 16
  package static let chunkDataSize = 32_744
  /// The largest record without chunks: eight pages less LMDB's page header.
  package static let inlineLimit = 32_752
  /// The expiration time of an entry that never expires.
  package static let never = Int64.max
  /// The limit for key and value together in bytes; larger entries are rejected.
  package static let maximumContent = 1 << 30

  package var isChunked = false
  package var codec: UInt16
  package var keyLength: Int
  package var commitVersion: UInt64
  package var created: Int64
  package var expires: Int64
  package var payloadLength: Int
  package var checksum: UInt64 = 0
  package var namespace: UInt32
  package var epoch: UInt32
  package var keyTag: UInt8
  /// The number of the admission into the eviction queues.
  package var admission: UInt32 = 0
  /// The lifetime of a sliding expiration in milliseconds; zero for any other entry.
  package var lifetime: Int64 = 0
  /// The length of the extension and the two bytes that should be zero, at their position in the last
  /// header word. The checksum covers them.
  private var padding: UInt32 = 0

  /// The size of key and payload in bytes.
  package var contentLength: Int { keyLength + payloadLength }
  /// The cost of the entry against the budget, in bytes.
  package var cost: Int { EntryHeader.size + contentLength }
  /// The size of header and extension in bytes: the offset of the key, or of the chunk reference.
  package var contentOffset: Int {
    EntryHeader.size + (lifetime == 0 ? 0 : EntryHeader.lifetimeSize)
  }
  /// The size of the entry in its record in bytes.
  package var storedLength: Int {
    contentOffset + (isChunked ? EntryHeader.chunkReferenceSize : contentLength)
  }

  /// Returns the expiration time of a lifetime that begins at `now`.
  package static func deadline(of lifetime: Int64, from now: Int64) -> Int64 {
    let (sum, overflow) = now.addingReportingOverflow(lifetime)
    return overflow ? never : sum
  }

  /// The reasons why bytes are not an entry.
  package enum Defect: Error, Sendable { case damaged, newerFormat }

  /// Reads the header at `offset` of a record, and checks that all its lengths are within the
  /// record.
  package init(in record: RawSpan, at offset: Int) throws(Defect) {
    guard let bytes = record.slice(offset..<min(offset + EntryHeader.size, record.byteCount)),
      bytes.byteCount == EntryHeader.size,
      let version: UInt8 = bytes.integer(at: 0)
    else { throw .damaged }
    guard version == EntryHeader.version else {
      throw version > EntryHeader.version ? .newerFormat : .damaged
    }
    let flags: UInt8 = bytes.integer(at: 1)!
    let isSliding = flags & 2 != 0
    guard flags & EntryHeader.reservedFlags == 0,
      bytes.integer(at: 61, as: UInt8.self) == (isSliding ? 1 : 0)
    else { throw .newerFormat }
    if isSliding {
      guard let stored: Int64 = record.integer(at: offset + EntryHeader.size), stored > 0 else {
        throw .damaged
      }
      lifetime = stored
    }
    let payload: UInt32 = bytes.integer(at: 32)!
    let stored: UInt32 = bytes.integer(at: 56)!
    guard payload <= UInt32(EntryHeader.maximumContent) else { throw .damaged }
    isChunked = flags & 1 != 0
    codec = bytes.integer(at: 2)!
    keyLength = Int(bytes.integer(at: 4, as: UInt32.self)!)
    commitVersion = bytes.integer(at: 8)!
    created = bytes.integer(at: 16)!
    expires = bytes.integer(at: 24)!
    payloadLength = Int(payload)
    admission = bytes.integer(at: 36)!
    checksum = bytes.integer(at: 40)!
    namespace = bytes.integer(at: 48)!
    epoch = bytes.integer(at: 52)!
    keyTag = bytes.integer(at: 60)!
    padding = bytes.integer(at: 60, as: UInt32.self)! & ~0xFF
    guard
      flags & ~3 == 0, keyLength + payloadLength <= EntryHeader.maximumContent,
      Int(stored) == storedLength, offset + Int(stored) <= record.byteCount
    else { throw .damaged }
  }

  /// Creates the header of a new entry without its checksum.
  package init(
    codec: UInt16, keyTag: UInt8, keyLength: Int, payloadLength: Int, commitVersion: UInt64,
    created: Int64, expires: Int64, lifetime: Int64 = 0, namespace: UInt32, epoch: UInt32
  ) {
    self.codec = codec
    self.keyTag = keyTag
    self.keyLength = keyLength
    self.payloadLength = payloadLength
    self.commitVersion = commitVersion
    self.created = created
    self.expires = expires
    self.namespace = namespace
    self.epoch = epoch
    self.lifetime = lifetime
    if lifetime != 0 { padding = 1 << 8 }
    self.isChunked = contentOffset + keyLength + payloadLength > EntryHeader.inlineLimit
  }

  /// Returns the bytes of header and extension with the current checksum field.
  package func bytes() -> [UInt8] {
    withByteScratch(contentOffset) { bytes in
      write(to: &bytes)
      return bytes.span.copied()
    }
  }

  private func write(to bytes: inout ScratchBuffer) {
    bytes.store(EntryHeader.version, at: 0)
    bytes.store((isChunked ? 1 : 0) | (lifetime == 0 ? 0 : 2) as UInt8, at: 1)
    bytes.store(codec, at: 2)
    bytes.store(UInt32(keyLength), at: 4)
    bytes.store(commitVersion, at: 8)
    bytes.store(created, at: 16)
    bytes.store(expires, at: 24)
    bytes.store(UInt32(payloadLength), at: 32)
    bytes.store(admission, at: 36)
    bytes.store(checksum, at: 40)
    bytes.store(namespace, at: 48)
    bytes.store(epoch, at: 52)
    bytes.store(UInt32(storedLength), at: 56)
    bytes.store(padding | UInt32(keyTag), at: 60)
    if lifetime != 0 { bytes.store(lifetime, at: EntryHeader.size) }
  }

  /// Writes header and extension for content of this hash, with their checksum.
  package mutating func seal(contentHash: UInt64, into bytes: inout ScratchBuffer) {
    checksum = checksum(over: contentHash)
    write(to: &bytes)
  }

  /// Returns the bytes of header and extension for content of this hash, with their checksum.
  package mutating func sealed(contentHash: UInt64) -> [UInt8] {
    withByteScratch(contentOffset) { bytes in
      seal(contentHash: contentHash, into: &bytes)
      return bytes.span.copied()
    }
  }

  /// Returns the hash of key and payload that the checksum covers.
  package static func contentHash(key: [UInt8], payload: [UInt8]) -> UInt64 {
    XXH64.hash(payload, seed: XXH64.hash(key))
  }

  /// Returns whether the checksum matches the header and this content.
  ///
  /// The check covers the fields as they were read, even if the record changes in the meantime.
  package func isIntact(contentHash: UInt64) -> Bool { checksum(over: contentHash) == checksum }

  /// Returns the checksum for content of this hash.
  @inline(__always)
  private func checksum(over contentHash: UInt64) -> UInt64 {
    XXH64.hash(
      words: (
        UInt64(EntryHeader.version) | (isChunked ? 1 << 8 : 0) | (lifetime == 0 ? 0 : 1 << 9)
          | UInt64(codec) << 16 | UInt64(truncatingIfNeeded: keyLength) << 32,
        commitVersion, UInt64(bitPattern: created), UInt64(bitPattern: expires),
        UInt64(truncatingIfNeeded: payloadLength) & 0xFFFF_FFFF | UInt64(admission) << 32, 0,
        UInt64(namespace) | UInt64(epoch) << 32,
        UInt64(truncatingIfNeeded: storedLength) & 0xFFFF_FFFF | UInt64(padding) << 32
          | UInt64(keyTag) << 32
      ), seed: lifetime == 0 ? contentHash : extensionHash(after: contentHash))
  }

  private func extensionHash(after contentHash: UInt64) -> UInt64 {
    withByteScratch(EntryHeader.lifetimeSize) { bytes in
      bytes.store(lifetime, at: 0)
      return XXH64.hash(bytes.span, seed: contentHash)
    }
  }
}

/// The ids of an entry's chunks.
package struct ChunkReference: Sendable, Hashable {
  package let first: UInt64
  package let count: Int

  package init(first: UInt64, count: Int) {
    self.first = first
    self.count = count
  }

  /// Reads the reference after the header of a chunked entry.
  package init(
    in record: RawSpan, at offset: Int, of header: EntryHeader
  ) throws(EntryHeader.Defect) {
    guard
      let first: UInt64 = record.integer(at: offset + header.contentOffset),
      let count: UInt32 = record.integer(at: offset + header.contentOffset + 8),
      Int(count) == ChunkReference.count(forContent: header.contentLength),
      first <= UInt64.max - UInt64(count)
    else { throw .damaged }
    self.first = first
    self.count = Int(count)
  }

  /// Returns the number of chunks for content of `length` bytes.
  package static func count(forContent length: Int) -> Int {
    (length + EntryHeader.chunkDataSize - 1) / EntryHeader.chunkDataSize
  }

  /// Returns the stored form of the reference.
  package func bytes() -> [UInt8] {
    var bytes = [UInt8].zeros(EntryHeader.chunkReferenceSize)
    bytes.store(first, at: 0)
    bytes.store(UInt32(count), at: 8)
    return bytes
  }

  /// Returns the stored value of one of the ids: the checksum, and its run of key and payload.
  package func chunk(
    _ id: UInt64, of key: [UInt8], _ payload: [UInt8]
  ) -> (checksum: [UInt8], data: [UInt8]) {
    let length = key.count + payload.count
    let position = Int(id - first) * EntryHeader.chunkDataSize
    let end = min(position + EntryHeader.chunkDataSize, length)
    var data: [UInt8] = []
    data.reserveCapacity(end - position)
    if position < key.count { data += key[position..<min(end, key.count)] }
    if end > key.count {
      data += payload[(max(position, key.count) - key.count)..<(end - key.count)]
    }
    var checksum: [UInt8] = []
    checksum.append(littleEndian: XXH64.hash(data, seed: id))
    return (checksum, data)
  }

  package var ids: Range<UInt64> { first..<(first + UInt64(count)) }
}
