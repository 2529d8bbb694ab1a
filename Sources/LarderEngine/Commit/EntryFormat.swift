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
//      1  flags          u8    1: key and payload are in chunks; 2: sliding expiration; 4: pinned;
//                              8: known to be absent; 16: tagged; 32: of a remote server; 64: kept
//                              for a refresh
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
//     61  extension      u8    length in units of 8 bytes; 0 without any of the parts below
//     62  zero           2 bytes
//     64  extension, key, payload         or, in chunks: first chunk id u64, chunk count u32, zero u32
//
// Checksum: XXH64(header, seed: XXH64(payload, seed: XXH64(key))). For the checksum of an entry with
// an extension, the hash of the extension is in the place of the checksum.
//
// An extension contains, in the order of their flags: the lifetime of a sliding expiration u64,
// in milliseconds; the order u32 of a tagged entry, the number of its tags u32, and their hashes u64
// (`TagRemovals.swift`); the time u64 in milliseconds for which a value is kept after its expiration,
// the time u32 in milliseconds that its computation took, and 4 zero bytes; the version u64 that a
// remote server has for the value. An entry with an unknown flag or another extension was written by a
// newer version of the library, and is unreadable for this one.
//
// The table `chunks` maps ids from a sequence to runs of key and payload: a checksum XXH64(bytes,
// seed: id), then up to 32,744 bytes. That is exactly eight pages: longer runs of overflow pages
// fragment the file without bound.
//
// The cost of an entry against the budget is the size of header, extension, key and payload.

/// The header of a stored entry. In this order its fields have less than 128 bytes: a copy is short.
package struct EntryHeader: Sendable, Hashable {
  package static let size = 64
  package static let version: UInt8 = 2
  /// The most tags of an entry.
  package static let maximumTags = 64
  package static let chunkReferenceSize = 16
  package static let chunkDataSize = 32_744
  /// The largest record without chunks: eight pages less LMDB's page header.
  package static let inlineLimit = 32_752
  /// The expiration time of an entry that never expires.
  package static let never = Int64.max
  /// The limit for key and value together in bytes; larger entries are rejected.
  package static let maximumContent = 1 << 30

  private var flags: Flags = []
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
  /// The time in milliseconds for which the entry is kept after its expiration, for a refresh.
  package private(set) var kept: Int64 = 0
  /// The time in milliseconds that the computation of the value took, or zero.
  package private(set) var computeTime: UInt32 = 0
  /// The number of removals by tag that the transaction had made before it wrote the entry.
  package private(set) var tagOrder: UInt32 = 0
  /// The number of tags; ``tags(in:at:)`` reads them.
  package private(set) var tagCount = 0
  /// The hash of the extension, or zero without one.
  private var extensionHash: UInt64 = 0
  /// The length of the extension and the two bytes that should be zero, at their position in the last
  /// header word. The checksum covers them.
  private var padding: UInt32 = 0

  /// Whether key and payload are in chunks.
  @inline(__always) package var isChunked: Bool {
    get { flags.contains(.chunked) }
    set { if newValue { flags.insert(.chunked) } else { flags.remove(.chunked) } }
  }
  /// Whether the entry is never evicted.
  package var isPinned: Bool { flags.contains(.pinned) }
  /// Whether the entry says that its key is known to have no value.
  @inline(__always) package var isAbsent: Bool { flags.contains(.absent) }
  /// The size of key and payload in bytes.
  package var contentLength: Int { keyLength + payloadLength }
  /// The cost of the entry against the budget, in bytes.
  package var cost: Int { contentOffset + contentLength }
  /// The size of header and extension in bytes: the offset of the key, or of the chunk reference.
  @inline(__always)
  package var contentOffset: Int { EntryHeader.size + Int(padding >> 8 & 0xFF) * 8 }
  @inline(__always) private var hasExtension: Bool { padding & 0xFF00 != 0 }
  /// The time from which the entry may be removed, in milliseconds since 1970.
  package var keptUntil: Int64 {
    expires == EntryHeader.never ? expires : EntryHeader.deadline(of: kept, from: expires)
  }
  /// Whether the extension has a version of a remote server.
  @inline(__always) package var isRemote: Bool { flags.contains(.remote) }
  /// Whether the entry has tags.
  package var isTagged: Bool { tagCount != 0 }
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
    flags = Flags(rawValue: bytes.integer(at: 1)!)
    guard flags.rawValue & Flags.unknown == 0 else { throw .newerFormat }
    let payload: UInt32 = bytes.integer(at: 32)!
    let stored: UInt32 = bytes.integer(at: 56)!
    guard payload <= UInt32(EntryHeader.maximumContent) else { throw .damaged }
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
    if hasExtension || flags.rawValue & Flags.extending != 0 {
      try readExtension(in: record, at: offset)
    }
    guard
      keyLength + payloadLength <= EntryHeader.maximumContent,
      Int(stored) == storedLength, offset + Int(stored) <= record.byteCount
    else { throw .damaged }
  }

  /// Creates the header of a new entry without its checksum.
  package init(
    codec: UInt16, keyTag: UInt8, keyLength: Int, payloadLength: Int, commitVersion: UInt64,
    created: Int64, expires: Int64, traits: Traits = Traits(), namespace: UInt32, epoch: UInt32
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
    lifetime = traits.lifetime
    tagCount = traits.tagCount
    tagOrder = traits.tagOrder
    if traits.isKept {
      kept = traits.kept
      computeTime = traits.computeTime
      flags.insert(.kept)
    }
    let extensionLength =
      (lifetime == 0 ? 0 : 1) + (tagCount == 0 ? 0 : 1 + tagCount) + (traits.isKept ? 2 : 0)
      + (traits.isRemote ? 1 : 0)
    padding = UInt32(extensionLength) << 8
    if traits.isPinned { flags.insert(.pinned) }
    if traits.isAbsent { flags.insert(.absent) }
    if lifetime != 0 { flags.insert(.sliding) }
    if tagCount != 0 { flags.insert(.tagged) }
    if traits.isRemote { flags.insert(.remote) }
    if contentOffset + keyLength + payloadLength > EntryHeader.inlineLimit {
      flags.insert(.chunked)
    }
  }

  /// Returns the bytes of the header, without the extension, and with the current checksum field.
  package func bytes() -> [UInt8] {
    withByteScratch(EntryHeader.size) { bytes in
      write(to: &bytes)
      return bytes.span.copied()
    }
  }

  private func write(to bytes: inout ScratchBuffer) {
    bytes.store(EntryHeader.version, at: 0)
    bytes.store(flags.rawValue, at: 1)
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
  }

  /// Writes header and extension for content of this hash, with their checksum.
  ///
  /// - Parameters:
  ///   - tags: The hashes of the tags, as many as the header has.
  ///   - remoteVersion: The version of a remote server, if the header has one.
  package mutating func seal(
    contentHash: UInt64, tags: [UInt64], remoteVersion: UInt64 = 0, into bytes: inout ScratchBuffer
  ) {
    if hasExtension {
      writeExtension(tags: tags, remoteVersion: remoteVersion, to: &bytes)
      extensionHash = XXH64.hash(bytes.span.slice(EntryHeader.size..<contentOffset)!)
    }
    checksum = checksum(over: contentHash)
    write(to: &bytes)
  }

  /// Returns the bytes of header and extension for content of this hash, with their checksum.
  package mutating func sealed(
    contentHash: UInt64, tags: [UInt64] = [], remoteVersion: UInt64 = 0
  ) -> [UInt8] {
    withByteScratch(contentOffset) { bytes in
      seal(contentHash: contentHash, tags: tags, remoteVersion: remoteVersion, into: &bytes)
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
        UInt64(EntryHeader.version) | UInt64(flags.rawValue) << 8
          | UInt64(codec) << 16 | UInt64(truncatingIfNeeded: keyLength) << 32,
        commitVersion, UInt64(bitPattern: created), UInt64(bitPattern: expires),
        UInt64(truncatingIfNeeded: payloadLength) & 0xFFFF_FFFF | UInt64(admission) << 32,
        extensionHash, UInt64(namespace) | UInt64(epoch) << 32,
        UInt64(truncatingIfNeeded: storedLength) & 0xFFFF_FFFF | UInt64(padding) << 32
          | UInt64(keyTag) << 32
      ), seed: contentHash)
  }
}

// MARK: The extension

extension EntryHeader {
  /// The offset of the tags in a record whose entry begins at zero.
  private var tagOffset: Int { EntryHeader.size + (lifetime == 0 ? 0 : 8) }

  private mutating func readExtension(in record: RawSpan, at offset: Int) throws(Defect) {
    let start = offset + EntryHeader.size
    guard let bytes = record.slice(start..<min(offset + contentOffset, record.byteCount)),
      bytes.byteCount == contentOffset - EntryHeader.size
    else { throw .damaged }
    extensionHash = XXH64.hash(bytes)
    var expected = 0
    if flags.contains(.sliding) {
      guard let stored: Int64 = bytes.integer(at: 0), stored > 0 else { throw .damaged }
      lifetime = stored
      expected = 8
    }
    if flags.contains(.tagged) {
      guard let order: UInt32 = bytes.integer(at: expected),
        let count: UInt32 = bytes.integer(at: expected + 4),
        (1...UInt32(EntryHeader.maximumTags)).contains(count)
      else { throw .damaged }
      tagOrder = order
      tagCount = Int(count)
      expected += 8 + tagCount * 8
    }
    if flags.contains(.kept) {
      guard let stored: Int64 = bytes.integer(at: expected), stored >= 0,
        let time: UInt32 = bytes.integer(at: expected + 8)
      else { throw .damaged }
      kept = stored
      computeTime = time
      expected += 16
    }
    if isRemote { expected += 8 }
    guard bytes.byteCount == expected else { throw .newerFormat }
  }

  private func writeExtension(
    tags: [UInt64], remoteVersion: UInt64, to bytes: inout ScratchBuffer
  ) {
    precondition(tags.count == tagCount, "the header was made for another number of tags")
    if lifetime != 0 { bytes.store(lifetime, at: EntryHeader.size) }
    if isTagged {
      bytes.store(tagOrder, at: tagOffset)
      bytes.store(UInt32(tagCount), at: tagOffset + 4)
      for (index, tag) in tags.enumerated() { bytes.store(tag, at: tagOffset + 8 + index * 8) }
    }
    var end = contentOffset
    if isRemote {
      end -= 8
      bytes.store(remoteVersion, at: end)
    }
    if flags.contains(.kept) {
      bytes.store(kept, at: end - 16)
      bytes.store(UInt64(computeTime), at: end - 8)
    }
  }

  /// Returns the version that a remote server has for the value of the entry at `offset` of a record, from
  /// which this header was read; zero if it has none.
  ///
  /// - Returns: `nil` if the extension has changed since: the page was reused.
  package func remoteVersion(in record: RawSpan, at offset: Int) -> UInt64? {
    guard isRemote else { return 0 }
    guard
      let bytes = record.slice((offset + EntryHeader.size)..<(offset + contentOffset)),
      let version: UInt64 = bytes.integer(at: bytes.byteCount - 8),
      XXH64.hash(bytes) == extensionHash
    else { return nil }
    return version
  }

  /// Returns the hashes of the tags of the entry at `offset` of a record, from which this header was
  /// read.
  ///
  /// - Returns: `nil` if the extension has changed since: the page was reused. The checksum covers
  ///   what is returned.
  package func tags(in record: RawSpan, at offset: Int) -> [UInt64]? {
    guard isTagged else { return [] }
    guard
      let bytes = record.slice((offset + EntryHeader.size)..<(offset + contentOffset))?.copied(),
      XXH64.hash(bytes) == extensionHash
    else { return nil }
    let start = tagOffset + 8 - EntryHeader.size
    return bytes.withRawSpan { bytes in
      (0..<tagCount).map { bytes.integer(at: start + $0 * 8)! }
    }
  }
}
