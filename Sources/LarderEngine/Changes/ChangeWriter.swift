// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The changes of one transaction, in their stored form.
struct ChangeWriter {
  private var content: [UInt8] = []
  private var count: UInt32 = 0
  private var isCut = false
  /// The newest chunk before the transaction, if it is known.
  var tail: [UInt8]?

  init(tail: [UInt8]?) { self.tail = tail }

  var isEmpty: Bool { count == 0 && !isCut }

  mutating func append(_ kind: ChangeKind, tag: UInt8, key: [UInt8], _ namespace: UInt32) {
    if isCut { return }
    let length = min(key.count, ChangeRecord.keyLimit)
    guard content.count + ChangeRecord.changeSize + length <= ChangeRecord.limit else {
      isCut = true
      count = 0
      content = []
      return
    }
    count += 1
    content.append(littleEndian: UInt32(kind.code) | UInt32(tag) << 8)
    content.append(littleEndian: namespace)
    content.append(
      littleEndian: UInt32(length) | (length < key.count ? ChangeRecord.cutBit : 0))
    if length == key.count { content += key } else { content += key[..<length] }
  }

  /// The size of the record in a chunk.
  var size: Int { ChangeRecord.headerSize + content.count }

  /// Appends the record to a chunk.
  func write(to chunk: inout [UInt8], commitVersion: UInt64, time: Int64) {
    let pid = UInt32(bitPattern: ProcessIdentity.pid)
    let counts = count | (isCut ? ChangeRecord.cutBit : 0)
    let checksum = content.withRawSpan {
      ChangeRecord.checksum(
        $0, commitVersion: commitVersion, time: time, pid: pid, count: counts)
    }
    chunk.append(littleEndian: UInt32(size - 4))
    chunk.append(littleEndian: counts)
    chunk.append(littleEndian: commitVersion)
    chunk.append(littleEndian: checksum)
    chunk.append(littleEndian: pid)
    chunk.append(littleEndian: time)
    chunk += content
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
    guard let changes, !changes.isEmpty, totals.changeCapacity > 0 else { return }
    var tail = try changes.tail ?? changeTail()
    if !tail.isEmpty, tail.count + changes.size > ChangeRecord.chunkSize {
      let place = totals.changeCount % totals.changeCapacity
      totals.changeCount += 1
      try tail.withRawSpan { bytes throws(LMDBError) in
        try transaction.put(bytes, RawSpan(), RawSpan(), forKey: place, in: generation.changes)
      }
      tail.removeAll(keepingCapacity: true)
    }
    changes.write(to: &tail, commitVersion: commitVersion, time: now)
    try tail.withRawSpan { bytes throws(LMDBError) in
      try ChangeRecord.tailKey.withRawSpan { key throws(LMDBError) in
        try transaction.put(bytes, forKey: key, in: .main)
      }
    }
    // LMDB has something to commit.
    hasWrittenEntries = true
    self.changes!.tail = tail
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
