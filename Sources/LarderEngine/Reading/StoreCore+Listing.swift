// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The metadata of an entry: everything except its value.
package struct EntryInfo: Sendable {
  package let hash: UInt64
  package let key: EncodedKey
  package let codec: UInt16
  /// The cost of the entry against the budget, in bytes.
  package let bytes: Int
  package let created: Int64
  package let expires: Int64
  package let namespace: UInt32
  package let isPinned: Bool
  package let isAbsent: Bool
  /// The size of the value alone, in bytes.
  package let valueBytes: Int
  /// The time of the last use, in milliseconds since 1970.
  package let lastUse: Int64
}

extension StoreCore {
  /// Returns a page of the live entries of a namespace, or of all namespaces if `space` is `nil`,
  /// in the order of their hashes. Each page is a separate snapshot: no read transaction is held
  /// between pages.
  ///
  /// - Returns: The entries, and the start of the next page, or `nil` at the end.
  package func page(
    of space: NamespaceHandle?, from start: UInt64, limit: Int, includesAbsent: Bool = false
  ) throws -> (entries: [EntryInfo], next: UInt64?) {
    try withSnapshot("list") { snapshot in
      var wanted: UInt32?
      if let space {
        guard let number = try number(of: space, snapshot) else { return ([], nil) }
        wanted = number
      }
      var result: [EntryInfo] = []
      var cursor = try Cursor(over: snapshot.generation.entries, in: snapshot.transaction)
      var more = try cursor.move(atLeast: start)
      var visited = 0
      while more {
        if result.count >= limit || visited >= 16 * limit {
          return (result, cursor.currentInteger)
        }
        visited += 1
        let hash = cursor.currentInteger
        for item in (try? Record.items(in: cursor.currentValue)) ?? [] {
          let header = item.header
          guard
            wanted == nil || header.namespace == wanted,
            includesAbsent || !header.isAbsent,
            try isAlive(header, in: cursor.currentValue, at: item.offset, snapshot, hash: hash),
            let key = try snapshot.content(
              of: header, in: cursor.currentValue, at: item.offset, length: header.keyLength)
          else { continue }
          result.append(
            EntryInfo(
              hash: hash, key: EncodedKey(tag: header.keyTag, bytes: key),
              codec: header.codec, bytes: header.cost, created: header.created,
              expires: snapshot.generation.table.deadline(of: header, hash: hash, at: now),
              namespace: header.namespace, isPinned: header.isPinned, isAbsent: header.isAbsent,
              valueBytes: header.payloadLength,
              lastUse: max(
                header.created,
                SharedTable.milliseconds(ofTick: snapshot.generation.table.lastUse(hash: hash)))))
        }
        more = try cursor.moveToNext()
      }
      return (result, nil)
    }
  }

  /// Returns the namespaces of the store with their counters.
  package func namespaces() throws -> [(number: UInt32, record: NamespaceRecord)] {
    try withSnapshot("list") { try $0.namespaces() }
  }

  /// Returns the number of live entries of a namespace: as many as ``page(of:from:limit:includesAbsent:)``
  /// returns.
  package func count(of space: NamespaceHandle) throws -> Int {
    let known: Int? = try withSnapshot("count") { snapshot in
      if try snapshot.mayContainInvisibleEntries() { return nil }
      guard let number = try number(of: space, snapshot) else { return 0 }
      let key = NamespaceRecord.key(number)
      guard let bytes = try snapshot.transaction.value(forKey: key, in: .main),
        let record = NamespaceRecord(bytes)
      else { return 0 }
      return Int(clamping: record.entries)
    }
    if let known { return known }
    var count = 0
    var position: UInt64? = 0
    while let start = position {
      let page = try page(of: space, from: start, limit: 1000)
      count += page.entries.count
      position = page.next
    }
    return count
  }

  /// Returns whether a key has a live entry, without copying it or changing its recency.
  package func contains(_ key: EncodedKey, in space: NamespaceHandle) throws -> Bool {
    if let record = queue.pendingWrite(of: key, in: space), try isWaiting(record, key, in: space) {
      if case .put(let content) = record.kind { return content.expires > now && !content.isAbsent }
      return false
    }
    let lookup = try lookup(key, in: space)
    if case .found = lookup.outcome { return true }
    return false
  }

  /// Returns whether a write of this process overrides the store although it is not committed:
  /// while it is queued, and in its transaction until another transaction begins.
  func isWaiting(
    _ record: WriteRequest, _ key: EncodedKey, in space: NamespaceHandle
  ) throws -> Bool {
    switch record.phase {
    case .queued: return true
    case .inFlight(let commitVersion):
      return isNewest(
        record, inFlight: commitVersion,
        slot: StampSlot(hash: space.hash(of: key, in: try generation())))
    case .committed, .superseded, .failed: return false
    }
  }

  /// Clears a namespace, or all of them if `space` is `nil`: the entries are invisible to every
  /// process at once, and are then swept from the file.
  package func clear(_ space: NamespaceHandle?) throws {
    let names =
      try space.map { [$0] }
      ?? namespaces().map { namespace in
        try NamespaceHandle(name: String(decoding: namespace.record.name, as: UTF8.self))
      }
    let label: UInt64 = try runExclusively { core in
      try core.withGeneration { generation in
        try core.transact(in: generation) { transaction in
          for space in names { try transaction.clear(space) }
          return transaction.commitVersion
        }.result
      }
    }
    // The sweep uses bounded transactions, so that other writers can run between them. If this process
    // is killed, the store's thread of another one sweeps.
    var position: UInt64? = 0
    while let start = position {
      position = try runExclusively { core in
        try core.withGeneration { generation in
          try core.transact(in: generation) { transaction in
            let next = try transaction.sweep(from: start, limit: 1000)
            if next == nil { try transaction.forgetClears(upTo: label) }
            return next
          }.result
        }
      }
    }
  }

  /// Removes expired entries in bounded transactions.
  ///
  /// - Returns: The number of removed entries.
  @discardableResult
  package func removeExpired() throws -> UInt64 {
    var removed: UInt64 = 0
    var isDone = false
    while !isDone {
      let (done, count): (Bool, UInt64) = try runExclusively { core in
        try core.withGeneration { generation in
          try core.transact(in: generation) { transaction in
            let done = try transaction.removeExpired(limit: 500)
            return (done, transaction.expired)
          }.result
        }
      }
      removed += count
      isDone = done
    }
    return removed
  }
}

extension Snapshot {
  /// Returns the namespaces of the store with their counters.
  func namespaces() throws -> [(number: UInt32, record: NamespaceRecord)] {
    var result: [(UInt32, NamespaceRecord)] = []
    let prefix = Array("i:".utf8)
    var cursor = try Cursor(over: .main, in: transaction)
    var more = try cursor.move(atLeast: prefix)
    while more {
      guard let number = NamespaceRecord.number(ofKey: cursor.currentKey) else { break }
      if let record = NamespaceRecord(cursor.currentValue) { result.append((number, record)) }
      more = try cursor.moveToNext()
    }
    return result
  }

  /// Returns whether the counters may count entries that no list contains: negative ones, those that
  /// expire, and those that were removed together and are not deleted yet.
  fileprivate func mayContainInvisibleEntries() throws -> Bool {
    if try totals().absent.entries > 0 { return true }
    var expiries = try Cursor(over: generation.expiries, in: transaction)
    if try expiries.moveToFirst() { return true }
    var tags = try Cursor(over: generation.tags, in: transaction)
    return try tags.moveToFirst()
  }
}

/// The operations that the hot paths of the facades use.
extension StoreCore {
  /// The store's clock, in milliseconds since 1970.
  @usableFromInline package var now: Int64 { options.clock.now() }

  /// Adds to the counter of memory hits.
  @usableFromInline package func countMemoryHits(_ count: UInt64) {
    try? generation().count(.memoryHits, by: count)
  }

  /// Returns the newest pending write of a key in this process, if any.
  package func pendingWrite(of key: EncodedKey, in space: NamespaceHandle) -> WriteRequest? {
    queue.pendingWrite(of: key, in: space)
  }

  /// Returns whether a write of this process that is in a transaction is still the key's newest. It
  /// is until another transaction of any process begins.
  package func isNewest(
    _ record: WriteRequest, inFlight commitVersion: UInt64, slot: StampSlot
  ) -> Bool {
    guard let generation = try? generation(), record.matches(generation) else { return false }
    let table = generation.table
    return table.minimumValidReadVersion(slot: slot) <= commitVersion
      && table.writerVersion == commitVersion
      && table.writerPID == ProcessIdentity.pid
  }
}

/// Returns the time of the system's wall clock, for caches without a store.
@usableFromInline package func systemMilliseconds() -> Int64 { Clocks.wallMilliseconds() }
