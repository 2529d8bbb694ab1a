// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

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
