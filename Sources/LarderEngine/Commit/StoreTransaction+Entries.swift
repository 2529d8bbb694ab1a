// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// What is written for one key.
package struct EntryContent: Sendable {
  package let codec: UInt16
  package let payload: [UInt8]
  package let expires: Int64
  /// `EntryHeader.contentHash`, computed before the writer lock is taken.
  let contentHash: UInt64

  package init(key: EncodedKey, codec: UInt16, payload: [UInt8], expires: Int64) {
    self.codec = codec
    self.payload = payload
    self.expires = expires
    self.contentHash = EntryHeader.contentHash(key: key.bytes, payload: payload)
  }
}

/// One entry of a record, as found.
package struct RecordEntry {
  package let header: EntryHeader
  package let offset: Int
  package let chunks: ChunkReference?
}

extension StoreTransaction {
  // MARK: Records

  /// The entries stored under a hash; throws when the record cannot be read.
  func items(hash: UInt64) throws -> [RecordEntry] {
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return []
    }
    return try Record.items(in: record)
  }

  /// The entries stored under a hash. What cannot be read of the record is removed, with exact
  /// books; entries in front of the damage stay.
  mutating func readableItems(hash: UInt64) throws -> [RecordEntry] {
    do {
      return try items(hash: hash)
    } catch is EntryHeader.Defect {
      var whole: [UInt8] = []
      if let record = try transaction.value(forKey: hash, in: generation.entries) {
        whole = record.slice(0..<Record.readableLength(of: record))?.copied() ?? []
      }
      try transaction.remove(key: hash, in: generation.entries)
      if !whole.isEmpty {
        try whole.withRawSpan { whole throws(LMDBError) in
          try transaction.put(whole, forKey: hash, in: generation.entries)
        }
      }
      touch(hash: hash)
      generation.count(.damagedEntries)
      try recount()
      return try whole.isEmpty ? [] : items(hash: hash)
    }
  }

  /// Whether the key of a stored entry equals `key`.
  func hasKey(_ item: RecordEntry, hash: UInt64, _ key: EncodedKey) throws -> Bool {
    guard item.header.keyTag == key.tag, item.header.keyLength == key.bytes.count else {
      return false
    }
    if let chunks = item.chunks {
      let content = try Record.chunkedContent(
        chunks, length: item.header.keyLength
      ) { id, body in
        guard let chunk = try transaction.value(forKey: id, in: generation.chunks) else {
          return false
        }
        return body(chunk)
      }
      // A key that cannot be read any more: the 64-bit keyed hash, namespace, tag and length speak
      // for it, and nobody else can read the entry. Otherwise it could never be replaced.
      guard let content else { return true }
      return content == key.bytes
    }
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return false
    }
    let start = item.offset + EntryHeader.size
    return record.slice(start..<(start + key.bytes.count))?.equals(key.bytes) ?? false
  }

  // MARK: Remove

  /// Removes the entry of a key.
  ///
  /// - Returns: Whether there was one that was still visible.
  @discardableResult
  mutating func remove(_ key: EncodedKey, hash: UInt64, in space: NamespaceHandle) throws -> Bool {
    let number = try number(of: space)
    var wasVisible = false
    for item in try readableItems(hash: hash) where item.header.namespace == number {
      guard try hasKey(item, hash: hash, key) else { continue }
      wasVisible =
        try !item.header.isExpired(at: now) && item.header.epoch == epoch(number)
      try removeItems(hash: hash) { $0.offset == item.offset }
      break
    }
    return wasVisible
  }

  /// Removes the entries of a record that `matches` picks.
  ///
  /// - Returns: The number of entries removed.
  @discardableResult
  mutating func removeItems(hash: UInt64, where matches: (RecordEntry) -> Bool) throws -> Int {
    let items = try readableItems(hash: hash)
    let leaving = items.filter(matches)
    guard !leaving.isEmpty else { return 0 }
    let staying = items.filter { item in !leaving.contains { $0.offset == item.offset } }
    for item in leaving {
      try account(removing: item.header)
      if let chunks = item.chunks {
        for id in chunks.ids { try transaction.remove(key: id, in: generation.chunks) }
      }
      let expires = item.header.expires
      if expires != EntryHeader.never, !staying.contains(where: { $0.header.expires == expires }) {
        try transaction.remove(
          key: ExpiryKey.key(expires: expires, hash: hash), in: generation.expiries)
      }
    }
    touch(hash: hash)
    if staying.isEmpty {
      try transaction.remove(key: hash, in: generation.entries)
    } else {
      var kept: [UInt8] = []
      if let record = try transaction.value(forKey: hash, in: generation.entries) {
        for item in staying {
          kept.append(record.slice(item.offset..<(item.offset + item.header.storedLength))!)
        }
      }
      try kept.withRawSpan { kept throws(LMDBError) in
        try transaction.put(kept, forKey: hash, in: generation.entries)
      }
    }
    return leaving.count
  }

  mutating func writeChunks(
    _ key: [UInt8], _ payload: [UInt8]
  ) throws -> ChunkReference {
    let length = key.count + payload.count
    let reference = ChunkReference(
      first: totals.nextChunk, count: ChunkReference.count(forContent: length))
    totals.nextChunk += UInt64(reference.count)
    for id in reference.ids {
      let (checksum, data) = reference.chunk(id, of: key, payload)
      try checksum.withRawSpan { checksum throws(LMDBError) in
        try data.withRawSpan { data throws(LMDBError) in
          try transaction.put(checksum, data, RawSpan(), forKey: id, in: generation.chunks)
        }
      }
    }
    return reference
  }

  /// Clears a namespace by raising its epoch: its entries are gone at once, and swept later.
  mutating func clear(_ space: NamespaceHandle) throws {
    let number = try number(of: space)
    let label = label
    try changeNamespace(number) {
      $0.epoch &+= 1
      $0.clearedLabel = label
      $0.bytes = 0
      $0.entries = 0
    }
    clearedNamespaces.append(number)
    raisesFloor = true
    generation.table.cancelLeases(namespace: number)
  }
}

/// The keys of the table `expiries`: when, big-endian, then the hash. It has no values.
enum ExpiryKey {
  static func key(expires: Int64, hash: UInt64) -> [UInt8] {
    var key: [UInt8] = []
    key.reserveCapacity(16)
    key.append(littleEndian: UInt64(bitPattern: expires).byteSwapped)
    key.append(littleEndian: hash.byteSwapped)
    return key
  }

  static func parse(_ key: RawSpan) -> (expires: Int64, hash: UInt64)? {
    guard
      key.byteCount == 16,
      let expires: UInt64 = key.integer(at: 0),
      let hash: UInt64 = key.integer(at: 8)
    else { return nil }
    return (Int64(bitPattern: expires.byteSwapped), hash.byteSwapped)
  }
}

/// Reading records: untrusted bytes, from any snapshot.
package enum Record {
  package static func items(in record: RawSpan) throws(EntryHeader.Defect) -> [RecordEntry] {
    var items: [RecordEntry] = []
    var offset = 0
    while offset < record.byteCount {
      let header = try EntryHeader(in: record, at: offset)
      var chunks: ChunkReference?
      if header.isChunked { chunks = try ChunkReference(in: record, at: offset, of: header) }
      items.append(RecordEntry(header: header, offset: offset, chunks: chunks))
      offset += header.storedLength
    }
    return items
  }

  /// Where the first entry begins that cannot be read, or the length of the record.
  package static func readableLength(of record: RawSpan) -> Int {
    var offset = 0
    while offset < record.byteCount {
      guard let header = try? EntryHeader(in: record, at: offset),
        !header.isChunked || (try? ChunkReference(in: record, at: offset, of: header)) != nil
      else { return offset }
      offset += header.storedLength
    }
    return offset
  }

  /// The first `length` bytes of what is in chunks; `nil` when one is missing or damaged.
  package static func chunkedContent(
    _ reference: ChunkReference, length: Int,
    _ withChunk: (_ id: UInt64, _ body: (RawSpan) -> Bool) throws -> Bool
  ) rethrows -> [UInt8]? {
    var content: [UInt8] = []
    content.reserveCapacity(length)
    for id in reference.ids where content.count < length {
      let isWhole = try withChunk(id) { chunk in
        guard
          let checksum: UInt64 = chunk.integer(at: 0),
          let data = chunk.slice(8..<max(chunk.byteCount, 8)), !data.isEmpty,
          XXH64.hash(data, seed: id) == checksum
        else { return false }
        content.append(data.slice(0..<min(data.byteCount, length - content.count))!)
        return true
      }
      guard isWhole else { return nil }
    }
    return content.count == length ? content : nil
  }

  /// What becomes of an entry in chunks that is read for its payload.
  enum ChunkedPayload {
    case payload([UInt8])
    /// The entry is of another key.
    case ofOtherKey
    /// A chunk is missing or too short.
    case missing
  }

  /// The payload of an entry in chunks, without the key it begins with.
  ///
  /// The chunks' own checksums are not looked at, but where the key seems to be another: the entry's,
  /// which the caller compares, is over all that they hold.
  static func chunkedPayload(
    _ reference: ChunkReference, of header: EntryHeader, key: [UInt8],
    _ withChunk: (_ id: UInt64, _ body: (RawSpan) -> Bool) throws -> Bool
  ) rethrows -> ChunkedPayload {
    var payload: [UInt8] = []
    var keyLeft = key[...]
    var isOfOther = false
    for id in reference.ids {
      let isThere = try withChunk(id) { chunk in
        guard chunk.byteCount > 8, var data = chunk.slice(8..<chunk.byteCount) else { return false }
        let count = min(keyLeft.count, data.byteCount)
        if count > 0 {
          isOfOther = !data.slice(0..<count)!.equals(Array(keyLeft.prefix(count)))
          if isOfOther {
            // Or is it damage?
            return chunk.integer(at: 0, as: UInt64.self) == XXH64.hash(data, seed: id)
          }
          keyLeft.removeFirst(count)
          data = data.slice(count..<data.byteCount)!
        }
        // Not before there is something: the header is not judged yet.
        if payload.isEmpty { payload.reserveCapacity(header.payloadLength) }
        payload.append(
          data.slice(0..<min(data.byteCount, header.payloadLength - payload.count))!)
        return true
      }
      guard isThere else { return .missing }
      if isOfOther { return .ofOtherKey }
    }
    return payload.count == header.payloadLength ? .payload(payload) : .missing
  }
}

extension StoreTransaction {
  /// The epoch of a namespace as this transaction sees it.
  func currentEpoch(_ number: UInt32) throws -> UInt32 {
    if let known = namespaces.epoch(of: number) { return known }
    guard let bytes = try transaction.value(forKey: NamespaceRecord.key(number), in: .main) else {
      return 1
    }
    guard let epoch = NamespaceRecord.epoch(in: bytes) else {
      throw LMDBError(.corrupted, during: "a namespace's record")
    }
    return epoch
  }

  /// The checked payload of an entry; `nil` when it is damaged.
  func payload(of item: RecordEntry, hash: UInt64, key: EncodedKey) throws -> [UInt8]? {
    let header = item.header
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return nil
    }
    let start = item.offset + EntryHeader.size
    var content: [UInt8]?
    if let chunks = item.chunks {
      content = try Record.chunkedContent(chunks, length: header.contentLength) { id, body in
        guard let chunk = try transaction.value(forKey: id, in: generation.chunks) else {
          return false
        }
        return body(chunk)
      }
    } else {
      content = record.slice(start..<(start + header.contentLength))?.copied()
    }
    guard let content else { return nil }
    let payload = Array(content[header.keyLength...])
    let hashed = EntryHeader.contentHash(key: key.bytes, payload: payload)
    return header.isIntact(contentHash: hashed) ? payload : nil
  }
}
