// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

// ENTRIES
//
// The table `entries` maps the keyed 64-bit hash of a key to a record. A record is one entry or,
// where hashes collide, several, one behind the other. All integers are little-endian.
//
//      0  version        u8    1
//      1  flags          u8    1: key and payload are in chunks
//      2  codec          u16   how the payload is encoded
//      4  key length     u32
//      8  label          u64   of the transaction that wrote it
//     16  created        i64   milliseconds since 1970
//     24  expires        i64   milliseconds since 1970; Int64.max: never
//     32  payload length u64
//     40  checksum       u64   over the payload, the key and this header (with zero here)
//     48  namespace      u32
//     52  epoch          u32   of the namespace; an entry of an earlier epoch is gone
//     56  stored length  u32   bytes this entry takes in the record, header included
//     60  key tag        u8
//     61  zero           3 bytes
//     64  key, payload         or, in chunks: first chunk id u64, chunk count u32, zero u32
//
// Checksum: XXH64(header, seed: XXH64(payload, seed: XXH64(key))).
//
// The table `chunks` maps ids from a sequence to runs of key and payload: a checksum
// XXH64(bytes, seed: id), then up to 32,744 bytes. Eight pages exactly: longer runs of overflow
// pages fragment the file without bound.
//
// What an entry counts against the budget is 64 bytes, its key and its payload.

package struct EntryHeader: Sendable, Hashable {
  package static let size = 64
  package static let version: UInt8 = 1
  package static let chunkReferenceSize = 16
  package static let chunkDataSize = 32_744
  /// Records up to this many bytes stay whole: eight pages less LMDB's page header.
  package static let inlineLimit = 32_752
  package static let never = Int64.max
  /// Keys and values together; more is refused.
  package static let maximumContent = 1 << 30

  package var isChunked = false
  package var codec: UInt16
  package var keyLength: Int
  package var label: UInt64
  package var created: Int64
  package var expires: Int64
  package var payloadLength: Int
  package var checksum: UInt64 = 0
  package var namespace: UInt32
  package var epoch: UInt32
  package var keyTag: UInt8
  /// What should be zero, where it stands in its word: a part of what is judged.
  private var padding: UInt32 = 0

  package var contentLength: Int { keyLength + payloadLength }
  /// What the entry counts against the budget.
  package var cost: Int { EntryHeader.size + contentLength }
  package var storedLength: Int {
    EntryHeader.size + (isChunked ? EntryHeader.chunkReferenceSize : contentLength)
  }

  package func isExpired(at now: Int64) -> Bool { expires <= now }

  /// Why bytes are not an entry.
  package enum Defect: Error, Sendable { case damaged, newerFormat }

  /// Reads the header at `offset` of a record. All lengths in it are within the record afterwards.
  package init(in record: RawSpan, at offset: Int) throws(Defect) {
    guard let bytes = record.slice(offset..<min(offset + EntryHeader.size, record.byteCount)),
      bytes.byteCount == EntryHeader.size,
      let version: UInt8 = bytes.integer(at: 0)
    else { throw .damaged }
    guard version == EntryHeader.version else {
      throw version > EntryHeader.version ? .newerFormat : .damaged
    }
    let flags: UInt8 = bytes.integer(at: 1)!
    let payload: UInt64 = bytes.integer(at: 32)!
    let stored: UInt32 = bytes.integer(at: 56)!
    guard payload <= UInt64(EntryHeader.maximumContent) else { throw .damaged }
    isChunked = flags & 1 != 0
    codec = bytes.integer(at: 2)!
    keyLength = Int(bytes.integer(at: 4, as: UInt32.self)!)
    label = bytes.integer(at: 8)!
    created = bytes.integer(at: 16)!
    expires = bytes.integer(at: 24)!
    payloadLength = Int(payload)
    checksum = bytes.integer(at: 40)!
    namespace = bytes.integer(at: 48)!
    epoch = bytes.integer(at: 52)!
    keyTag = bytes.integer(at: 60)!
    padding = bytes.integer(at: 60, as: UInt32.self)! & ~0xFF
    guard
      flags & ~1 == 0, keyLength + payloadLength <= EntryHeader.maximumContent,
      Int(stored) == storedLength, offset + Int(stored) <= record.byteCount
    else { throw .damaged }
  }

  package init(
    codec: UInt16, keyTag: UInt8, keyLength: Int, payloadLength: Int, label: UInt64,
    created: Int64, expires: Int64, namespace: UInt32, epoch: UInt32
  ) {
    self.codec = codec
    self.keyTag = keyTag
    self.keyLength = keyLength
    self.payloadLength = payloadLength
    self.label = label
    self.created = created
    self.expires = expires
    self.namespace = namespace
    self.epoch = epoch
    self.isChunked = EntryHeader.size + keyLength + payloadLength > EntryHeader.inlineLimit
  }

  /// The bytes of the header, with the checksum field as it is.
  package func bytes() -> [UInt8] {
    withByteScratch(EntryHeader.size) { bytes in
      write(to: &bytes)
      return bytes.span.copied()
    }
  }

  private func write(to bytes: inout ScratchBuffer) {
    bytes.store(EntryHeader.version, at: 0)
    bytes.store(isChunked ? 1 as UInt8 : 0, at: 1)
    bytes.store(codec, at: 2)
    bytes.store(UInt32(keyLength), at: 4)
    bytes.store(label, at: 8)
    bytes.store(created, at: 16)
    bytes.store(expires, at: 24)
    bytes.store(UInt64(payloadLength), at: 32)
    bytes.store(checksum, at: 40)
    bytes.store(namespace, at: 48)
    bytes.store(epoch, at: 52)
    bytes.store(UInt32(storedLength), at: 56)
    bytes.store(padding | UInt32(keyTag), at: 60)
  }

  /// Writes the header with the checksum filled in, for content of this hash.
  package mutating func seal(contentHash: UInt64, into bytes: inout ScratchBuffer) {
    checksum = checksum(over: contentHash)
    write(to: &bytes)
  }

  /// The bytes of the header with the checksum filled in, for content of this hash.
  package mutating func sealed(contentHash: UInt64) -> [UInt8] {
    withByteScratch(EntryHeader.size) { bytes in
      seal(contentHash: contentHash, into: &bytes)
      return bytes.span.copied()
    }
  }

  /// The hash of key and payload that goes into the checksum.
  package static func contentHash(key: [UInt8], payload: [UInt8]) -> UInt64 {
    XXH64.hash(payload, seed: XXH64.hash(key))
  }

  /// Whether the header and this content belong together and are whole.
  ///
  /// The fields are judged as they were read: whatever becomes of the record meanwhile.
  package func isIntact(contentHash: UInt64) -> Bool { checksum(over: contentHash) == checksum }

  /// The checksum for content of this hash.
  @inline(__always)
  private func checksum(over contentHash: UInt64) -> UInt64 {
    XXH64.hash(
      words: (
        UInt64(EntryHeader.version) | (isChunked ? 1 << 8 : 0) | UInt64(codec) << 16
          | UInt64(truncatingIfNeeded: keyLength) << 32,
        label, UInt64(bitPattern: created), UInt64(bitPattern: expires), UInt64(payloadLength), 0,
        UInt64(namespace) | UInt64(epoch) << 32,
        UInt64(truncatingIfNeeded: storedLength) & 0xFFFF_FFFF | UInt64(padding) << 32
          | UInt64(keyTag) << 32
      ), seed: contentHash)
  }
}

/// Where the chunks of an entry are.
package struct ChunkReference: Sendable, Hashable {
  package let first: UInt64
  package let count: Int

  package init(first: UInt64, count: Int) {
    self.first = first
    self.count = count
  }

  /// Reads the reference behind the header of a chunked entry.
  package init(
    in record: RawSpan, at offset: Int, of header: EntryHeader
  ) throws(EntryHeader.Defect) {
    guard
      let first: UInt64 = record.integer(at: offset + EntryHeader.size),
      let count: UInt32 = record.integer(at: offset + EntryHeader.size + 8),
      Int(count) == ChunkReference.count(forContent: header.contentLength),
      first <= UInt64.max - UInt64(count)
    else { throw .damaged }
    self.first = first
    self.count = Int(count)
  }

  package static func count(forContent length: Int) -> Int {
    (length + EntryHeader.chunkDataSize - 1) / EntryHeader.chunkDataSize
  }

  package func bytes() -> [UInt8] {
    var bytes = [UInt8].zeros(EntryHeader.chunkReferenceSize)
    bytes.store(first, at: 0)
    bytes.store(UInt32(count), at: 8)
    return bytes
  }

  /// What is stored for one of the ids: the checksum, and its run of key and payload.
  func chunk(
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
