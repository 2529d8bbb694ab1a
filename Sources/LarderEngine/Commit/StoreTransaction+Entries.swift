// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// One entry of a record, as read.
package struct RecordEntry {
  package let header: EntryHeader
  package let offset: Int
  package let chunks: ChunkReference?
}

extension StoreTransaction {
  // MARK: Records

  /// Returns the entries that are stored under a hash.
  ///
  /// - Throws: `EntryHeader.Defect` if the record is damaged; `LMDBError` if LMDB fails.
  func items(hash: UInt64) throws -> [RecordEntry] {
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return []
    }
    return try Record.items(in: record)
  }

  /// Returns the entries that are stored under a hash. Removes the damaged part of the record and
  /// recounts the totals; entries before the damage remain.
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

  /// Returns whether the key of a stored entry equals `key`.
  func hasKey(_ item: RecordEntry, hash: UInt64, _ key: EncodedKey) throws -> Bool {
    guard item.header.keyTag == key.tag, item.header.keyLength == key.bytes.count else {
      return false
    }
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return false
    }
    if item.header.isChunked {
      let content = try withSnapshot {
        try $0.content(
          of: item.header, in: record, at: item.offset, length: item.header.keyLength)
      }
      // A key that cannot be read any more. The 64-bit keyed hash, namespace, tag and length
      // identify it, and no other key can read the entry. Otherwise it could never be replaced.
      guard let content else { return true }
      return content == key.bytes
    }
    let start = item.offset + item.header.contentOffset
    return record.slice(start..<(start + key.bytes.count))?.equals(key.bytes) ?? false
  }

  // MARK: Remove

  /// Removes the entry of a key.
  ///
  /// - Returns: Whether a visible entry was removed.
  @discardableResult
  mutating func remove(_ key: EncodedKey, hash: UInt64, in space: NamespaceHandle) throws -> Bool {
    generation.table.sample(hash, .remove)
    noteWrite(in: space)
    return try removeEntry(key, hash: hash, in: space)?.wasVisible ?? false
  }

  /// Removes the entry of a key, whether or not it is visible.
  ///
  /// - Returns: The header of the entry, or `nil` if there is none.
  mutating func removeEntry(
    _ key: EncodedKey, hash: UInt64, in space: NamespaceHandle, _ cause: RemovalCause = .removed
  ) throws -> (header: EntryHeader, wasVisible: Bool)? {
    let number = try number(of: space)
    for item in try readableItems(hash: hash) where item.header.namespace == number {
      guard try hasKey(item, hash: hash, key) else { continue }
      let wasVisible = try isVisible(item.header, at: item.offset, hash: hash)
      try removeItems(hash: hash, cause) { $0.offset == item.offset }
      return (item.header, wasVisible)
    }
    return nil
  }

  /// Removes the entries of a record for which `matches` returns `true`.
  ///
  /// - Returns: The number of removed entries.
  @discardableResult
  mutating func removeItems(
    hash: UInt64, _ cause: RemovalCause, where matches: (RecordEntry) -> Bool
  ) throws -> Int {
    let items = try readableItems(hash: hash)
    let leaving = items.filter(matches)
    guard !leaving.isEmpty else { return 0 }
    let staying = items.filter { item in !leaving.contains { $0.offset == item.offset } }
    for item in leaving {
      try noteRemoval(item, hash: hash, cause)
      if cause == .evicted, item.header.commitVersion == commitVersion { replacedOwn.insert(hash) }
      try account(removing: item.header)
      try removeMember(item.header, hash: hash, staying: staying)
      if let chunks = item.chunks {
        for id in chunks.ids { try transaction.remove(key: id, in: generation.chunks) }
      }
      let expires = item.header.keptUntil
      if expires != EntryHeader.never,
        !staying.contains(where: { $0.header.keptUntil == expires })
      {
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

  package mutating func writeChunks(
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

  /// Clears a namespace by raising its epoch: its entries are invisible at once, and are swept
  /// later.
  mutating func clear(_ space: NamespaceHandle) throws {
    let number = try number(of: space)
    let commitVersion = commitVersion
    try changeNamespace(number) {
      $0.epoch &+= 1
      $0.clearedLabel = commitVersion
      $0.bytes = 0
      $0.entries = 0
    }
    try noteRemoval(of: TagRecord.cleared, in: number)
    changes?.append(.cleared, tag: 0, key: [], number)
    clearedNamespaces.append(number)
    deques.removeAll { $0.space.name == space.name }
    raisesFloor = true
    generation.table.cancelLeases(namespace: number)
  }
}

/// The keys of the table `expiries`: expiration time, big-endian, then the hash. The value is empty;
/// for an entry with a sliding expiration it is the lifetime.
package enum ExpiryKey {
  package static func key(expires: Int64, hash: UInt64) -> [UInt8] {
    var key: [UInt8] = []
    key.reserveCapacity(16)
    key.append(littleEndian: UInt64(bitPattern: expires).byteSwapped)
    key.append(littleEndian: hash.byteSwapped)
    return key
  }

  /// Returns the value of the key of an entry with this lifetime; zero for no sliding expiration.
  package static func value(lifetime: Int64) -> [UInt8] {
    if lifetime == 0 { return [] }
    var value: [UInt8] = []
    value.append(littleEndian: UInt64(bitPattern: lifetime))
    return value
  }

  static func lifetime(_ value: RawSpan) -> Int64 { value.integer(at: 0) ?? 0 }

  static func parse(_ key: RawSpan) -> (expires: Int64, hash: UInt64)? {
    guard
      key.byteCount == 16,
      let expires: UInt64 = key.integer(at: 0),
      let hash: UInt64 = key.integer(at: 8)
    else { return nil }
    return (Int64(bitPattern: expires.byteSwapped), hash.byteSwapped)
  }
}

/// The decoder of records: untrusted bytes from any snapshot.
package enum Record {
  /// Returns the entries of a record.
  ///
  /// - Throws: `EntryHeader.Defect` if the record is damaged or of a newer format.
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

  /// Returns the offset of the first unreadable entry, or the length of the record.
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

  /// Returns the first `length` bytes of chunked content, or `nil` if a chunk is missing or
  /// damaged.
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

  /// The outcome of reading the payload of a chunked entry.
  enum ChunkedPayload {
    case payload([UInt8])
    /// The entry is of another key.
    case ofOtherKey
    /// A chunk is missing or too short.
    case missing
  }

  /// Reads the payload of a chunked entry, without the key at its beginning.
  ///
  /// The chunks' own checksums are not verified, except where the key seems to differ. The caller
  /// compares the entry's checksum, which covers all their bytes.
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
            // A matching checksum means another key; otherwise the chunk is damaged.
            return chunk.integer(at: 0, as: UInt64.self) == XXH64.hash(data, seed: id)
          }
          keyLeft.removeFirst(count)
          data = data.slice(count..<data.byteCount)!
        }
        // The capacity is reserved only once there is data: the header is not verified yet.
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
  /// Returns the epoch of a namespace in this transaction.
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

  /// Returns the verified payload of an entry, or `nil` if it is damaged.
  func payload(of item: RecordEntry, hash: UInt64) throws -> [UInt8]? {
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return nil
    }
    let content = try withSnapshot {
      try $0.verifiedContent(of: item.header, in: record, at: item.offset)
    }
    return content.map { Array($0[item.header.keyLength...]) }
  }
}
