// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// What can be told of an entry without reading its value.
package struct EntryInfo: Sendable {
  package let hash: UInt64
  package let key: EncodedKey
  package let codec: UInt16
  /// What the entry counts against the budget.
  package let bytes: Int
  package let created: Int64
  package let expires: Int64
  package let namespace: UInt32
  package let lastUse: Int64

  /// The size of the value alone.
  package var valueBytes: Int { bytes - EntryHeader.size - key.bytes.count }
}

extension StoreCore {
  /// A page of the living entries of a namespace (of all, when `nil`), in the order of their
  /// hashes. Each page is a snapshot of its own: no read transaction is held in between.
  ///
  /// - Returns: The entries, and where the next page starts; `nil` at the end.
  package func page(
    of space: NamespaceHandle?, from start: UInt64, limit: Int
  ) throws -> (entries: [EntryInfo], next: UInt64?) {
    try reading("list") { generation in
      try generation.withSnapshot { transaction, _ in
        var wanted: UInt32?
        if let space {
          guard let number = try number(of: space, generation, transaction) else {
            return ([], nil)
          }
          wanted = number
        }
        var result: [EntryInfo] = []
        var cursor = try Cursor(over: generation.entries, in: transaction)
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
              try isAlive(header, header.namespace, generation, transaction),
              let key = try storedKey(item, cursor.currentValue, generation, transaction)
            else { continue }
            result.append(
              EntryInfo(
                hash: hash, key: EncodedKey(tag: header.keyTag, bytes: key),
                codec: header.codec, bytes: header.cost, created: header.created,
                expires: header.expires, namespace: header.namespace,
                lastUse: Int64(generation.table.lastUse(hash: hash) >> 20)))
          }
          more = try cursor.moveToNext()
        }
        return (result, nil)
      }
    }
  }

  private func storedKey(
    _ item: RecordEntry, _ record: RawSpan, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> [UInt8]? {
    let length = item.header.keyLength
    guard let reference = item.chunks else {
      let start = item.offset + EntryHeader.size
      return record.slice(start..<(start + length))?.copied()
    }
    return try Record.chunkedContent(reference, length: length) { id, body in
      guard let chunk = try transaction.value(forKey: id, in: generation.chunks) else {
        return false
      }
      return body(chunk)
    }
  }

  /// The namespaces that exist, with their books.
  package func namespaces() throws -> [(number: UInt32, record: NamespaceRecord)] {
    try reading("list") { generation in
      try generation.withSnapshot { transaction, _ in
        var result: [(UInt32, NamespaceRecord)] = []
        let prefix = Array("i:".utf8)
        var cursor = try Cursor(over: .main, in: transaction)
        var more = try cursor.move(atLeast: prefix)
        while more {
          guard let number = NamespaceRecord.number(ofKey: cursor.currentKey) else { break }
          if let record = NamespaceRecord(cursor.currentValue) {
            result.append((number, record))
          }
          more = try cursor.moveToNext()
        }
        return result
      }
    }
  }

  /// Whether a key has a living entry, without copying it or touching its recency.
  package func contains(_ key: EncodedKey, in space: NamespaceHandle) throws -> Bool {
    if let record = queue.pendingWrite(of: key, in: space), try isWaiting(record, key, in: space) {
      if case .put(let content) = record.kind { return content.expires > now }
      return false
    }
    let lookup = try lookup(key, in: space)
    if case .found = lookup.outcome { return true }
    return false
  }

  /// Whether a write of this process counts although it is not committed: while it is queued, and
  /// in its transaction while no other has begun.
  private func isWaiting(
    _ record: WriteRequest, _ key: EncodedKey, in space: NamespaceHandle
  ) throws -> Bool {
    switch record.phase {
    case .queued: return true
    case .inFlight(let label):
      return isNewest(
        record, inFlight: label, slot: slotIndex(space.hash(of: key, in: try generation())))
    case .committed, .superseded, .failed: return false
    }
  }

  /// Clears a namespace, or every one: gone at once for everybody, then swept.
  package func clear(_ space: NamespaceHandle?) throws {
    let names =
      try space.map { [$0] }
      ?? namespaces().map { namespace in
        try NamespaceHandle(name: String(decoding: namespace.record.name, as: UTF8.self))
      }
    try runExclusively { core in
      try core.withGeneration { generation in
        _ = try core.transact(in: generation) { transaction in
          for space in names { try transaction.clear(space) }
        }
      }
    }
    // In bounded transactions, others between them.
    var position: UInt64? = 0
    while let start = position {
      position = try runExclusively { core in
        try core.withGeneration { generation in
          try core.transact(in: generation) { try $0.sweep(from: start, limit: 1000) }.result
        }
      }
    }
  }

  /// Removes what has expired, in bounded transactions.
  ///
  /// - Returns: The number of entries removed.
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

/// What the facades' hot paths ask of a core.
extension StoreCore {
  /// The store's clock, in milliseconds since 1970.
  @usableFromInline package var now: Int64 { options.clock.now() }

  /// Counts hits of a memory tier.
  @usableFromInline package func countMemoryHits(_ count: UInt64) {
    try? generation().count(.memoryHits, by: count)
  }

  package func pendingWrite(of key: EncodedKey, in space: NamespaceHandle) -> WriteRequest? {
    queue.pendingWrite(of: key, in: space)
  }

  /// Whether a write of this process that is in a transaction still is the key's newest: it is,
  /// until another transaction begins, of whatever process.
  package func isNewest(_ record: WriteRequest, inFlight label: UInt64, slot: Int) -> Bool {
    guard let generation = try? generation(), record.isOf(generation) else { return false }
    let table = generation.table
    return table.minimumValidReadVersion(slot: slot) <= label && table.writerLabel == label
      && table.writerPID == ProcessIdentity.pid
  }
}

/// The system's wall clock, for caches without a store.
@usableFromInline package func systemMilliseconds() -> Int64 { Clocks.wallMilliseconds() }
