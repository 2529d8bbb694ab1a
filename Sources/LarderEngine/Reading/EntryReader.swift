// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// READING AN ENTRY
//
// The look-up in the tree, the location cache, lists, exports and objects read entries with the
// functions below. A record is untrusted: another process may be writing to its page, or the page
// may have been reused. So the bytes are copied first, and the checksum is compared with the copy.
// It covers the key, the payload and the header.

extension EntryHeader {
  /// Returns whether the entry may belong to a key: namespace, tag and length are those of the key.
  @inline(__always)
  func matches(_ tag: UInt8, keyLength length: Int, namespace number: UInt32) -> Bool {
    namespace == number && keyTag == tag && keyLength == length
  }

  /// Returns the hash of stored content, key before payload, that the checksum covers.
  package static func contentHash(_ content: RawSpan, keyLength: Int) -> UInt64 {
    XXH64.hash(
      content.slice(keyLength..<content.byteCount)!,
      seed: XXH64.hash(content.slice(0..<keyLength)!))
  }
}

/// The knowledge and the wishes of the caller of a look-up.
struct EntrySearch {
  /// The commit version of the entry that the caller has decoded, or zero.
  var known: UInt64 = 0
  /// Whether an expired entry that is kept for a refresh is found as well.
  var includesKept = false
  /// Whether the read repeats one that was counted, and is not counted itself.
  var isRepeated = false
}

extension StoredValue {
  /// Copies the payload of an entry that is stored in one piece.
  ///
  /// - Parameters:
  ///   - keyHash: The hash of the key that the caller reads, which the checksum covers.
  /// - Returns: `nil` if the checksum does not match: the entry is damaged or of another key.
  @inline(__always)
  init?(copying header: EntryHeader, in record: RawSpan, at offset: Int, keyHash: UInt64) {
    let start = offset + header.contentOffset + header.keyLength
    let payload = record.slice(start..<(start + header.payloadLength))!.copied()
    guard header.isIntact(contentHash: XXH64.hash(payload, seed: keyHash)) else { return nil }
    guard header.isTagged || header.isRemote else {
      self.init(payload, header, tags: [])
      return
    }
    self.init(payload, header, extensionIn: record, at: offset)
  }

  /// Creates the value of an entry, whose extension is read from its record.
  ///
  /// - Returns: `nil` if the extension has changed since: the page was reused.
  init?(_ payload: [UInt8], _ header: EntryHeader, extensionIn record: RawSpan, at offset: Int) {
    guard let tags = header.tags(in: record, at: offset),
      let remoteVersion = header.remoteVersion(in: record, at: offset)
    else { return nil }
    self.init(payload, header, tags: tags, remoteVersion: remoteVersion)
  }
}

extension Snapshot {
  /// Passes a chunk to `body`. Returns `false` if it is missing.
  func withChunk(_ id: UInt64, _ body: (RawSpan) -> Bool) throws -> Bool {
    guard let chunk = try transaction.value(forKey: id, in: generation.chunks) else { return false }
    return body(chunk)
  }

  /// Returns a copy of the first `length` bytes of an entry's content, key before payload. The
  /// entry's checksum is not verified.
  ///
  /// - Returns: `nil` if a chunk is missing or damaged.
  package func content(
    of header: EntryHeader, in record: RawSpan, at offset: Int, length: Int
  ) throws -> [UInt8]? {
    guard header.isChunked else {
      let start = offset + header.contentOffset
      return record.slice(start..<(start + length))?.copied()
    }
    guard let chunks = try? ChunkReference(in: record, at: offset, of: header) else { return nil }
    return try self.content(of: chunks, length: length)
  }

  /// Returns a copy of the first `length` bytes in chunks, or `nil` if one is missing or damaged.
  package func content(of chunks: ChunkReference, length: Int) throws -> [UInt8]? {
    try Record.chunkedContent(chunks, length: length) { try withChunk($0, $1) }
  }

  /// Returns a copy of an entry's content, key before payload, whose checksum matches.
  ///
  /// - Returns: `nil` if the entry is damaged.
  package func verifiedContent(
    of header: EntryHeader, in record: RawSpan, at offset: Int
  ) throws -> [UInt8]? {
    let content = try content(of: header, in: record, at: offset, length: header.contentLength)
    guard let content else { return nil }
    let hash = content.withRawSpan { EntryHeader.contentHash($0, keyLength: header.keyLength) }
    return header.isIntact(contentHash: hash) ? content : nil
  }
}

extension StoreCore {
  /// Searches the tree for the live entry of a key.
  ///
  /// - Parameters:
  ///   - place: The hash of the key and the namespace identifier; zero while the identifier is unknown
  ///     in this process.
  ///   - search: What the caller knows of the entry.
  ///   - readVersion: The inverted read version to store with the entry's location.
  /// - Throws: ``DamagedEntry`` if the key's entry, or possibly its entry, is damaged.
  func find(
    _ key: EncodedKey, at place: (hash: UInt64, number: UInt32), in space: NamespaceHandle,
    _ snapshot: borrowing Snapshot, _ search: EntrySearch, readVersion: UInt64
  ) throws -> Lookup.Outcome {
    guard
      let record = try snapshot.transaction.value(
        forKey: place.hash, in: snapshot.generation.entries)
    else { return .absent }
    record.prefetch(limit: 1024)
    var number = place.number
    if number == 0 {
      guard let found = try self.number(of: space, snapshot) else { return .absent }
      number = found
    }
    var damage: DamagedEntry?
    var offset = 0
    while offset < record.byteCount {
      let header = try readableHeader(in: record, at: offset)
      let start = offset
      offset += header.storedLength
      guard header.matches(key.tag, keyLength: key.bytes.count, namespace: number) else { continue }
      let value: StoredValue?
      if header.isChunked {
        guard
          try isAlive(header, in: record, at: start, snapshot, hash: place.hash, search),
          let payload = try chunkedPayload(of: header, in: record, at: start, key, snapshot)
        else { continue }
        if search.known != 0, header.commitVersion == search.known { return .unchanged }
        let hashed = EntryHeader.contentHash(key: key.bytes, payload: payload)
        value =
          header.isIntact(contentHash: hashed)
          ? StoredValue(payload, header, extensionIn: record, at: start) : nil
      } else {
        let content = record.slice((start + header.contentOffset)..<offset)!
        guard content.slice(0..<header.keyLength)!.equals(key.bytes) else {
          // The entry belongs to another key with the same hash, unless it is this key's entry and
          // damaged.
          let hashed = EntryHeader.contentHash(content, keyLength: header.keyLength)
          if !header.isIntact(contentHash: hashed) { damage = .wrongChecksum(header) }
          continue
        }
        guard try isAlive(header, in: record, at: start, snapshot, hash: place.hash, search)
        else { return .absent }
        if search.known != 0, header.commitVersion == search.known { return .unchanged }
        value = StoredValue(
          copying: header, in: record, at: start, keyHash: XXH64.hash(key.bytes))
        if value != nil, !header.isAbsent {
          snapshot.generation.places?.remember(
            record.slice(start..<offset)!, of: place.hash, readVersion: readVersion,
            checksum: header.checksum)
        }
      }
      guard let value else { throw DamagedEntry.wrongChecksum(header) }
      return header.isAbsent ? .knownAbsent(value) : .found(value)
    }
    if let damage { throw damage }
    return .absent
  }

  @inline(__always)
  private func readableHeader(
    in record: RawSpan, at offset: Int
  ) throws(DamagedEntry) -> EntryHeader {
    do throws(EntryHeader.Defect) {
      return try EntryHeader(in: record, at: offset)
    } catch {
      throw DamagedEntry(
        text: error == .newerFormat
          ? "the entry was written by a newer version" : "the entry's header is damaged",
        commitVersion: 0)
    }
  }

  /// Returns the payload of an entry in chunks, or `nil` if it belongs to another key. The chunks
  /// contain the key as well, a small cost for large entries.
  private func chunkedPayload(
    of header: EntryHeader, in record: RawSpan, at start: Int, _ key: EncodedKey,
    _ snapshot: borrowing Snapshot
  ) throws -> [UInt8]? {
    if let chunks = try? ChunkReference(in: record, at: start, of: header) {
      switch try Record.chunkedPayload(
        chunks, of: header, key: key.bytes, { try snapshot.withChunk($0, $1) })
      {
      case .ofOtherKey: return nil
      case .payload(let payload): return payload
      case .missing: break
      }
    }
    throw DamagedEntry(
      text: "a chunk of the entry is missing", commitVersion: header.commitVersion)
  }

  /// Returns the namespace identifier in this snapshot, or `nil` if nothing was ever stored in the
  /// namespace.
  func number(of space: NamespaceHandle, _ snapshot: borrowing Snapshot) throws -> UInt32? {
    let known = space.number(in: snapshot.generation)
    if known != 0 { return known }
    let key = NamespaceRecord.nameKey(space.nameBytes)
    guard let bytes = try snapshot.transaction.value(forKey: key, in: .main) else { return nil }
    guard let number = NamespaceRecord.number(in: bytes, name: space.nameBytes) else {
      throw LMDBError(.corrupted, during: "a namespace's name")
    }
    space.learn(number: number, in: snapshot.generation)
    return number
  }

  /// Returns whether an entry has expired, for a read of its key.
  @inline(__always)
  func isExpired(_ header: EntryHeader, hash: UInt64, _ generation: Generation) -> Bool {
    guard header.expires != EntryHeader.never else { return false }
    return generation.table.isExpired(header, hash: hash, at: options.clock.now())
  }

  /// Returns whether an entry is neither expired nor removed together with others. Its header was read
  /// from `record` at `offset`.
  @inline(__always)
  func isAlive(
    _ header: EntryHeader, in record: RawSpan, at offset: Int, _ snapshot: borrowing Snapshot,
    hash: UInt64, _ search: EntrySearch = EntrySearch()
  ) throws -> Bool {
    if isExpired(header, hash: hash, snapshot.generation) {
      guard search.includesKept, header.keptUntil > options.clock.now() else { return false }
    }
    if header.isTagged, try snapshot.isRemovedByTag(header, in: record, at: offset) {
      return false
    }
    return try isOfCurrentEpoch(header, snapshot)
  }

  private func isOfCurrentEpoch(
    _ header: EntryHeader, _ snapshot: borrowing Snapshot
  ) throws -> Bool {
    // An entry that was written after the last published clear is alive. Otherwise this snapshot's
    // namespace record decides.
    let number = header.namespace
    if header.commitVersion > snapshot.generation.table.namespaceLabel(number) { return true }
    let key = NamespaceRecord.key(number)
    guard let bytes = try snapshot.transaction.value(forKey: key, in: .main) else { return true }
    guard let epoch = NamespaceRecord.epoch(in: bytes) else {
      throw LMDBError(.corrupted, during: "a namespace's record")
    }
    return epoch == header.epoch
  }
}
