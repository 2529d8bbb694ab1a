// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// SLIDING EXPIRATION
//
// An entry with a lifetime expires when it was not used for that time. A read stores nothing in the
// database: it records the time of the use in the use table, in steps of 1.024 seconds, rounded down.
// The entry expires at the later one of
//
//   the time `expires` of its header
//   the recorded use + 1,024 ms + the lifetime
//
// so the rounding never shortens a lifetime. A use table that lost the key leaves the first.
//
// The key of the entry in `expires` has the time of the header, and its value is the lifetime. A
// removal that finds the key and a later use writes the entry with the later time, and moves the key.
// The entry keeps its commit version, because its value is the same: cached values stay valid.

extension SharedTable {
  /// The distance of two recorded times in milliseconds.
  @usableFromInline static var useStep: Int64 { 1024 }

  /// The milliseconds by which the recency clock may be ahead of the clock of the store.
  @usableFromInline static var clockTolerance: Int64 { 60_000 }

  /// Records a use of an entry with a sliding expiration.
  package func touch(hash: UInt64, at now: Int64) {
    uses.touch(hashPrefix(hash), at: now)
  }

  /// Returns whether an entry is expired at a time in milliseconds since 1970.
  @inline(__always)
  func isExpired(_ header: EntryHeader, hash: UInt64, at now: Int64) -> Bool {
    header.expires <= now
      && (header.lifetime == 0
        || uses.deadline(hashPrefix(hash), of: header.lifetime, at: now) <= now)
  }

  /// Returns the expiration time of an entry, with its last use.
  func deadline(of header: EntryHeader, hash: UInt64, at now: Int64) -> Int64 {
    guard header.lifetime != 0 else { return header.expires }
    return max(
      header.expires, uses.deadline(hashPrefix(hash), of: header.lifetime, at: now))
  }
}

extension UseTable {
  /// Records a use at a time in milliseconds since 1970.
  @usableFromInline
  func touch(_ prefix: UInt32, at now: Int64) {
    touch(prefix, now: SharedTable.tick(milliseconds: now & ~(SharedTable.useStep - 1)))
  }

  /// Returns the time at which a lifetime after the last use ends, or zero if no use is known.
  ///
  /// After a clock that was ahead has been corrected, the recency clock is still ahead. A use that seems
  /// to be more than a minute after `now` says nothing about when it was.
  @usableFromInline
  func deadline(_ prefix: UInt32, of lifetime: Int64, at now: Int64) -> Int64 {
    let tick = lastUse(prefix)
    guard tick != 0, SharedTable.milliseconds(ofTick: tick) <= now + SharedTable.clockTolerance
    else { return 0 }
    let end = SharedTable.milliseconds(ofTick: tick) + SharedTable.useStep
    return EntryHeader.deadline(of: lifetime, from: end)
  }
}

extension SharedTableView {
  /// Returns whether a key with a sliding expiration was used within its lifetime, and records a use
  /// if it was.
  ///
  /// - Parameter expires: The expiration time without uses.
  @usableFromInline
  package func renew(hash: UInt64, lifetime: Int64, expires: Int64, at now: Int64) -> Bool {
    guard let uses else { return false }
    guard expires > now || uses.deadline(hashPrefix(hash), of: lifetime, at: now) > now else {
      return false
    }
    uses.touch(hashPrefix(hash), at: now)
    return true
  }
}

extension StoreTransaction {
  /// Writes the entries of a record that were used since, with the times at which they expire now.
  ///
  /// - Parameter expires: The expiration time in their headers, which has passed.
  /// - Returns: Whether there were such entries.
  mutating func renewSliding(_ hash: UInt64, expires: Int64) throws -> Bool {
    let items = try readableItems(hash: hash)
    guard items.contains(where: { $0.header.keptUntil == expires }) else { return false }
    var record: [UInt8] = []
    var renewed: [EntryHeader] = []
    for item in items {
      var header = item.header
      let bytes = try bytes(of: item, hash: hash)
      guard header.keptUntil == expires else {
        record += bytes
        continue
      }
      if header.lifetime != 0 {
        header.expires = generation.table.deadline(of: header, hash: hash, at: now)
      }
      guard let content = try verifiedContent(of: item, hash: hash),
        let tags = try tags(of: item, hash: hash)
      else { continue }
      record += header.sealed(
        contentHash: content.withRawSpan {
          EntryHeader.contentHash($0, keyLength: header.keyLength)
        }, tags: tags,
        remoteVersion: bytes.withRawSpan { item.header.remoteVersion(in: $0, at: 0) } ?? 0)
      record += bytes[header.contentOffset...]
      renewed.append(header)
    }
    guard renewed.count == items.count(where: { $0.header.keptUntil == expires }) else {
      // A damaged entry cannot be written with another time.
      try removeItems(hash: hash, .damaged) { $0.header.keptUntil == expires }
      return true
    }
    try transaction.remove(
      key: ExpiryKey.key(expires: expires, hash: hash), in: generation.expiries)
    for header in renewed { try addExpiry(of: header, hash: hash) }
    try record.withRawSpan { record throws(LMDBError) in
      try transaction.put(record, forKey: hash, in: generation.entries)
    }
    force()
    return true
  }

  private func bytes(of item: RecordEntry, hash: UInt64) throws -> [UInt8] {
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return []
    }
    return record.slice(item.offset..<(item.offset + item.header.storedLength))?.copied() ?? []
  }

  func tags(of item: RecordEntry, hash: UInt64) throws -> [UInt64]? {
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return nil
    }
    return item.header.tags(in: record, at: item.offset)
  }

  private func verifiedContent(of item: RecordEntry, hash: UInt64) throws -> [UInt8]? {
    guard let record = try transaction.value(forKey: hash, in: generation.entries) else {
      return nil
    }
    return try withSnapshot {
      try $0.verifiedContent(of: item.header, in: record, at: item.offset)
    }
  }
}
