// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

extension StoreTransaction {
  /// Stores an entry and replaces the one of the same key. Evicts other entries if the budget
  /// requires it.
  mutating func put(
    _ content: EntryContent, forKey key: EncodedKey, hash: UInt64, in space: NamespaceHandle
  ) throws {
    let place = KeyPlace(key: key, hash: hash, number: try number(of: space))
    noteWrite(in: space)
    guard try putEntry(content, place, in: space) else { return }
    noteSet(key, namespace: place.number, isAbsent: content.isAbsent)
  }

  /// Stores an entry.
  ///
  /// - Returns: `false` if it is a negative entry for which there is no room.
  @inline(__always)
  private mutating func putEntry(
    _ content: EntryContent, _ place: KeyPlace, in space: NamespaceHandle
  ) throws -> Bool {
    let (key, hash, number) = (place.key, place.hash, place.number)
    try requireRoom(forBytes: key.bytes.count + content.payload.count)
    puts += 1
    generation.table.sample(hash, .put)
    writing = number
    defer { writing = 0 }
    var header = EntryHeader(
      codec: content.codec, keyTag: key.tag, keyLength: key.bytes.count,
      payloadLength: content.payload.count, commitVersion: commitVersion, created: now,
      expires: content.expires, traits: .init(content, tagOrder: tagRemovals),
      namespace: number, epoch: try epoch(number))
    try requireMaximum(of: number, allows: header.cost)
    if header.isPinned, !exceedsPinLimit { try requirePinRoom(for: header.cost, place) }
    try requireRoomBesidePins(for: header.cost, place)
    if header.isAbsent, try !makeRoomForAbsent(header.cost, place) {
      // The key has no value, but there is no room to say so.
      _ = try removeEntry(key, hash: hash, in: space)
      return false
    }
    if !header.isChunked {
      switch try existing(key, hash: hash, namespace: number) {
      case .none:
        try insert(content, key, hash, &header)
        return true
      case .same(let old)
      where old.epoch == header.epoch && old.isPinned == header.isPinned
        && fits(header, replacing: old):
        header.admission = old.admission
        try overwrite(content, key, hash, &header, old: old)
        return true
      default: break
      }
    }
    let before = try namespaceRecord(number)
    let old = try removeEntry(key, hash: hash, in: space, .replaced)?.header
    try makeRoom(for: header.cost, inNamespace: number, replacing: before)
    try makeRoom(for: header.cost)
    if let old, !old.isPinned, !header.isPinned {
      header.admission = old.admission
      accountInQueues(header, removing: 0, adding: header.cost)
    } else {
      header.admission = try admit(header, hash: hash)
    }
    try account(adding: header)
    try addMember(header, hash: hash)
    touch(hash: hash)
    let tick = generation.table.advanceUseClock(milliseconds: now)
    generation.table.setLastUse(hash: hash, tick: tick, isNew: old == nil)
    try addExpiry(of: header, hash: hash)
    try writeAfterOthers(content, key, hash, &header)
    return true
  }

  /// Writes an entry to the end of its record: entries of other keys with the same hash stay first.
  private mutating func writeAfterOthers(
    _ content: EntryContent, _ key: EncodedKey, _ hash: UInt64, _ header: inout EntryHeader
  ) throws {
    var reference: [UInt8] = []
    if header.isChunked {
      reference = try writeChunks(key.bytes, content.payload).bytes()
    }
    var start: [UInt8] = []
    if let record = try transaction.value(forKey: hash, in: generation.entries) {
      start = record.copied()
    }
    start += header.sealed(
      contentHash: content.contentHash, tags: content.tagHashes(in: generation),
      remoteVersion: content.remoteVersion)
    try start.withRawSpan { start throws(LMDBError) in
      if header.isChunked {
        try reference.withRawSpan { reference throws(LMDBError) in
          try transaction.put(start, reference, RawSpan(), forKey: hash, in: generation.entries)
        }
      } else {
        try key.bytes.withRawSpan { key throws(LMDBError) in
          try content.payload.withRawSpan { payload throws(LMDBError) in
            try transaction.put(start, key, payload, forKey: hash, in: generation.entries)
          }
        }
      }
    }
  }

  // MARK: The two usual cases of a put

  private enum Existing {
    case none
    /// One entry, of the same key, without chunks.
    case same(EntryHeader)
    /// Every other case: entries of other keys, chunks, damage.
    case other
  }

  private func existing(
    _ key: EncodedKey, hash: UInt64, namespace number: UInt32
  ) throws -> Existing {
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return .none
    }
    guard let header = try? EntryHeader(in: record, at: 0) else { return .other }
    guard
      !header.isChunked, header.storedLength == record.byteCount, header.namespace == number,
      header.keyTag == key.tag, header.keyLength == key.bytes.count,
      let stored = record.slice(header.contentOffset..<(header.contentOffset + header.keyLength)),
      stored.equals(key.bytes)
    else { return .other }
    return .same(header)
  }

  /// Returns whether an entry can replace an old one without eviction.
  private func fits(_ header: EntryHeader, replacing old: EntryHeader) -> Bool {
    let more = UInt64(max(header.cost - old.cost, 0))
    let exceedsMaximum = namespaces.read(header.namespace) {
      $0.maximum > 0 && $0.bytes + more > $0.maximum
    }
    if more > 0, exceedsMaximum == true { return false }
    return
      (budget == 0
      || totals.charged - min(totals.charged, UInt64(old.cost)) + UInt64(header.cost) <= budget)
      && (entryBudget == 0 || totals.entries <= entryBudget)
  }

  /// Throws ``StoreError/Code/valueTooLarge`` for an entry that the maximum of its namespace does not
  /// allow.
  private func requireMaximum(of number: UInt32, allows cost: Int) throws(StoreError) {
    let maximum = namespaces.read(number) { $0.maximum } ?? 0
    guard maximum > 0, UInt64(cost) > maximum else { return }
    throw StoreError(
      .valueTooLarge, during: "set", path: generation.path,
      "The entry has \(ByteCount(bytes: cost)), but the maximum of its namespace is "
        + "\(ByteCount(bytes: Int(clamping: maximum))). Raise the maximum or do not cache the "
        + "value.")
  }

  /// Stores an entry under a hash that has no record.
  private mutating func insert(
    _ content: EntryContent, _ key: EncodedKey, _ hash: UInt64, _ header: inout EntryHeader
  ) throws {
    // Evicted entries have other hashes, so there is still no record afterwards.
    if namespaces.read(header.namespace, { $0.hasMaximum }) == true {
      try makeRoom(
        for: header.cost, inNamespace: header.namespace,
        replacing: namespaceRecord(header.namespace))
    }
    try makeRoom(for: header.cost)
    header.admission = try admit(header, hash: hash)
    try account(adding: header)
    try addMember(header, hash: hash)
    try addExpiry(of: header, hash: hash)
    try write(content, key, hash, &header, isNew: true)
  }

  /// Replaces the only entry of a record.
  private mutating func overwrite(
    _ content: EntryContent, _ key: EncodedKey, _ hash: UInt64, _ header: inout EntryHeader,
    old: EntryHeader
  ) throws {
    try noteRemoval(RecordEntry(header: old, offset: 0, chunks: nil), hash: hash, .replaced)
    try account(replacing: old, with: header)
    if old.keptUntil != header.keptUntil || old.lifetime != header.lifetime {
      if old.expires != EntryHeader.never {
        try transaction.remove(
          key: ExpiryKey.key(expires: old.keptUntil, hash: hash), in: generation.expiries)
      }
      try addExpiry(of: header, hash: hash)
    }
    try write(content, key, hash, &header, isNew: false)
  }

  private mutating func write(
    _ content: EntryContent, _ key: EncodedKey, _ hash: UInt64, _ header: inout EntryHeader,
    isNew: Bool
  ) throws {
    touch(hash: hash)
    let tick = generation.table.advanceUseClock(milliseconds: now)
    generation.table.setLastUse(hash: hash, tick: tick, isNew: isNew)
    try withByteScratch(header.contentOffset) { start in
      let tags = header.isTagged ? content.tagHashes(in: generation) : []
      header.seal(
        contentHash: content.contentHash, tags: tags, remoteVersion: content.remoteVersion,
        into: &start)
      try key.bytes.withRawSpan { key throws(LMDBError) in
        try content.payload.withRawSpan { payload throws(LMDBError) in
          try transaction.put(start.span, key, payload, forKey: hash, in: generation.entries)
        }
      }
    }
    hasWrittenEntries = true
  }
}
