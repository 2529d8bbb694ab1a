// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// THE CHANGE LOG
//
// The table `changes` is a ring with a record for each of the last commits that changed entries, written
// in the transaction of the commit: a change is in the log if and only if it is committed. Records are
// numbered from zero. The key of a record is its number modulo the capacity of the ring. The record
// `totals` contains the capacity (`change capacity`; zero while no process has asked for changes), the
// number of the next record (`change count`), and the first commit version whose changes are recorded
// (`change start`). All integers are little-endian.
//
//      0  commit version  u64
//      8  pid             u32    of the process that committed
//     12  count           u32    of changes; bit 31: the transaction has more than a record contains
//     16  checksum        u64    XXH64 over the rest of the record, with the bytes 0 to 15 as its seed
//     24  changes, each
//           kind          u8     `ChangeKind`
//           key tag       u8
//           zero          u16
//           namespace     u32    zero for a removal by tag of all namespaces
//           length        u32    of the key; bit 31: the beginning of a longer key
//           key                  for a removal by tag the bytes of the tag
//
// Commit versions grow with the numbers, and over generations: a reader that has seen all commits up to
// a version searches for the first record of a later one. If that is the oldest record, others may have
// been overwritten.

/// The changes of one commit, as they are stored.
package struct ChangeRecord: Sendable, Hashable {
  /// One change.
  package struct Change: Sendable, Hashable {
    var kind: UInt8
    var keyTag: UInt8
    var namespace: UInt32
    var key: [UInt8]
    var isKeyCut = false

    var size: Int { 12 + key.count }
  }

  static let headerSize = 24
  /// The longest part of a key that is recorded, in bytes.
  static let keyLimit = 256
  /// The most bytes of a record.
  static let limit = 16_384
  private static let cutBit: UInt32 = 1 << 31

  package let commitVersion: UInt64
  let pid: Int32
  private(set) var changes: [Change] = []
  /// Whether the transaction has more changes than a record contains, and the record has none of them.
  private(set) var isCut = false
  private var size = ChangeRecord.headerSize

  init(commitVersion: UInt64, pid: Int32) {
    self.commitVersion = commitVersion
    self.pid = pid
  }

  var isEmpty: Bool { changes.isEmpty && !isCut }

  mutating func append(_ change: Change) {
    if isCut { return }
    size += change.size
    guard size <= Self.limit else {
      isCut = true
      changes = []
      return
    }
    changes.append(change)
  }

  /// The stored form of the record.
  package var bytes: [UInt8] {
    var content: [UInt8] = []
    content.reserveCapacity(size)
    for change in changes {
      content.append(littleEndian: UInt16(change.kind) | UInt16(change.keyTag) << 8)
      content.append(littleEndian: UInt16(0))
      content.append(littleEndian: change.namespace)
      content.append(littleEndian: UInt32(change.key.count) | (change.isKeyCut ? Self.cutBit : 0))
      content += change.key
    }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Self.headerSize + content.count)
    bytes.append(littleEndian: commitVersion)
    bytes.append(littleEndian: UInt32(bitPattern: pid))
    bytes.append(littleEndian: UInt32(changes.count) | (isCut ? Self.cutBit : 0))
    bytes.append(littleEndian: XXH64.hash(content, seed: XXH64.hash(bytes)))
    return bytes + content
  }

  /// Decodes a record, or returns `nil` if it is damaged.
  package init?(_ bytes: RawSpan) {
    guard let version: UInt64 = bytes.integer(at: 0), let pid: UInt32 = bytes.integer(at: 8),
      let count: UInt32 = bytes.integer(at: 12), let checksum: UInt64 = bytes.integer(at: 16),
      let content = bytes.slice(Self.headerSize..<bytes.byteCount),
      XXH64.hash(content, seed: XXH64.hash(bytes.slice(0..<16)!)) == checksum
    else { return nil }
    self.init(commitVersion: version, pid: Int32(bitPattern: pid))
    isCut = count & Self.cutBit != 0
    var offset = 0
    for _ in 0..<(count & ~Self.cutBit) {
      guard let kinds: UInt16 = content.integer(at: offset),
        let namespace: UInt32 = content.integer(at: offset + 4),
        let length: UInt32 = content.integer(at: offset + 8),
        let key = content.slice((offset + 12)..<(offset + 12 + Int(length & ~Self.cutBit)))
      else { return nil }
      changes.append(
        Change(
          kind: UInt8(truncatingIfNeeded: kinds), keyTag: UInt8(truncatingIfNeeded: kinds >> 8),
          namespace: namespace, key: key.copied(), isKeyCut: length & Self.cutBit != 0))
      offset += 12 + key.byteCount
    }
    size = bytes.byteCount
  }
}

extension StoreTransaction {
  /// Records that an entry was stored.
  @inline(__always)
  mutating func noteSet(_ key: EncodedKey, namespace: UInt32, isAbsent: Bool) {
    if changes == nil { return }
    record(isAbsent ? .removed : .set, tag: key.tag, key: key.bytes, namespace)
  }

  /// Records a change, if the store has a change log.
  mutating func record(_ kind: ChangeKind, tag: UInt8, key: [UInt8], _ namespace: UInt32) {
    changes?.append(
      .init(
        kind: kind.code, keyTag: tag, namespace: namespace,
        key: Array(key.prefix(ChangeRecord.keyLimit)),
        isKeyCut: key.count > ChangeRecord.keyLimit))
  }

  /// Writes the record of the transaction.
  mutating func writeChanges() throws {
    guard let changes, !changes.isEmpty, totals.changeCapacity > 0 else { return }
    let place = totals.changeCount % totals.changeCapacity
    totals.changeCount += 1
    try changes.bytes.withRawSpan { bytes throws(LMDBError) in
      try transaction.put(bytes, RawSpan(), RawSpan(), forKey: place, in: generation.changes)
    }
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
    totals.changeCapacity = capacity
    totals.changeCount = 0
    totals.changeStart = capacity == 0 ? 0 : commitVersion
    changes =
      capacity == 0 ? nil : ChangeRecord(commitVersion: commitVersion, pid: ProcessIdentity.pid)
    force()
  }
}
