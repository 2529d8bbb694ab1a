// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The changes of one transaction, in their stored form.
struct ChangeWriter {
  /// The record: space for its head, and the changes.
  private var bytes: [UInt8]
  private var count: UInt32 = 0
  private var isCut = false
  /// The newest chunk before the transaction, if it is known.
  var tail: [UInt8]?

  init(tail: [UInt8]?) {
    self.tail = tail
    bytes = []
    bytes.reserveCapacity(128)
    clear()
  }

  private mutating func clear() {
    bytes.removeAll(keepingCapacity: true)
    bytes.append(contentsOf: repeatElement(0, count: ChangeRecord.headerSize))
  }

  var isEmpty: Bool { count == 0 && !isCut }

  mutating func append(_ kind: ChangeKind, tag: UInt8, key: [UInt8], _ namespace: UInt32) {
    if isCut { return }
    let length = min(key.count, ChangeRecord.keyLimit)
    let start = bytes.count
    guard
      start - ChangeRecord.headerSize + ChangeRecord.changeSize + length <= ChangeRecord.limit
    else {
      isCut = true
      count = 0
      clear()
      return
    }
    count += 1
    bytes.append(contentsOf: repeatElement(0, count: ChangeRecord.changeSize))
    bytes.store(UInt32(kind.code) | UInt32(tag) << 8, at: start)
    bytes.store(namespace, at: start + 4)
    bytes.store(
      UInt32(length) | (length < key.count ? ChangeRecord.cutBit : 0), at: start + 8)
    if length == key.count { bytes += key } else { bytes += key[..<length] }
  }

  /// The size of the record in a chunk.
  var size: Int { bytes.count }

  /// Returns a chunk with the record at its end.
  mutating func appended(
    to chunk: [UInt8], commitVersion: UInt64, time: Int64, pid: Int32
  ) -> [UInt8] {
    let process = UInt32(bitPattern: pid)
    let counts = count | (isCut ? ChangeRecord.cutBit : 0)
    let checksum = bytes.withRawSpan {
      ChangeRecord.checksum(
        $0.slice(ChangeRecord.headerSize..<$0.byteCount)!, commitVersion: commitVersion,
        time: time, pid: process, count: counts)
    }
    bytes.store(UInt32(size - 4), at: 0)
    bytes.store(counts, at: 4)
    bytes.store(commitVersion, at: 8)
    bytes.store(checksum, at: 16)
    bytes.store(process, at: 24)
    bytes.store(time, at: 28)
    if chunk.isEmpty { return bytes }
    var result: [UInt8] = []
    result.reserveCapacity(chunk.count + size)
    result += chunk
    result += bytes
    return result
  }
}

extension StoreTransaction {
  /// Records that an entry was stored.
  @inline(__always)
  mutating func noteSet(_ key: EncodedKey, namespace: UInt32, isAbsent: Bool) {
    changes?.append(isAbsent ? .removed : .set, tag: key.tag, key: key.bytes, namespace)
  }

  /// Writes the record of the transaction.
  mutating func writeChanges() throws {
    guard var changes, !changes.isEmpty, totals.changeCapacity > 0 else { return }
    self.changes = nil
    var tail = try changes.tail ?? changeTail()
    if !tail.isEmpty, tail.count + changes.size > ChangeRecord.chunkSize {
      let place = totals.changeCount % totals.changeCapacity
      totals.changeCount += 1
      try tail.withRawSpan { bytes throws(LMDBError) in
        try transaction.put(bytes, RawSpan(), RawSpan(), forKey: place, in: generation.changes)
      }
      tail = []
    }
    tail = changes.appended(
      to: tail, commitVersion: commitVersion, time: now, pid: generation.table.pid)
    try tail.withRawSpan { bytes throws(LMDBError) in
      try ChangeRecord.tailKey.withRawSpan { key throws(LMDBError) in
        try transaction.put(bytes, forKey: key, in: .main)
      }
    }
    // LMDB has something to commit.
    hasWrittenEntries = true
    changes.tail = tail
    self.changes = changes
  }

  private func changeTail() throws -> [UInt8] {
    try withSnapshot { try $0.changeTail() }
  }

  /// Begins the change log, or ends it with a capacity of zero.
  package mutating func setChangeCapacity(_ capacity: UInt64) throws {
    guard capacity != totals.changeCapacity else { return }
    while true {
      var key: UInt64?
      do {
        var cursor = try Cursor(over: generation.changes, in: transaction)
        if try cursor.moveToFirst() { key = cursor.currentInteger }
      }
      guard let key else { break }
      try transaction.remove(key: key, in: generation.changes)
    }
    try transaction.remove(key: ChangeRecord.tailKey, in: .main)
    totals.changeCapacity = capacity
    totals.changeCount = 0
    totals.changeStart = capacity == 0 ? 0 : commitVersion
    changes = capacity == 0 ? nil : ChangeWriter(tail: [])
    force()
  }
}

extension Snapshot {
  /// Returns the newest chunk of the change log.
  func changeTail() throws -> [UInt8] {
    try transaction.value(forKey: ChangeRecord.tailKey, in: .main)?.copied() ?? []
  }
}
