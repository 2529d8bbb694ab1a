// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// THE CHANGE LOG
//
// A record for each of the last commits that changed entries, written in the transaction of the commit: a
// change is in the log if and only if it is committed. All integers are little-endian.
//
// Records are gathered in chunks. The newest chunk is the value of the key `tail` in the main table: a
// page that each commit writes in any case. A chunk that would exceed 256 bytes moves to the table
// `changes`, a ring: its key is the number of the chunk modulo the capacity of the ring. The record
// `totals` contains the capacity (`change capacity`; zero while no process has asked for changes), the
// number of the newest chunk (`change count`), and the first commit version whose changes are recorded
// (`change start`). A chunk is a sequence of records:
//
//      0  length          u32    of the rest of the record
//      4  count           u32    of changes; bit 31: the transaction has more than a record contains
//      8  commit version  u64
//     16  checksum        u64    XXH64 over the changes; its seed is the commit version, combined by
//                                exclusive or with the time, and with the pid in the upper and the
//                                count in the lower half
//     24  pid             u32    of the process that committed
//     28  time            i64    of the transaction, in milliseconds since 1970
//     36  changes, each
//           kind          u8     `ChangeKind`
//           key tag       u8
//           zero          u16
//           namespace     u32    zero for a removal by tag of all namespaces
//           length        u32    of the key; bit 31: the beginning of a longer key
//           key                  for a removal by tag the bytes of the tag
//
// Commit versions grow from record to record, and over generations: a reader that has seen all commits
// up to a version searches for the first record of a later one. If that is the oldest record, others
// may have been overwritten.

/// The changes of one commit, as they were read.
package struct ChangeRecord: Sendable {
  /// One change.
  struct Change: Sendable {
    let kind: UInt8
    let keyTag: UInt8
    let namespace: UInt32
    let key: [UInt8]
    let isKeyCut: Bool
  }

  static let headerSize = 36
  static let changeSize = 12
  /// The longest part of a key that is recorded, in bytes.
  static let keyLimit = 256
  /// The most bytes of the changes of a record.
  static let limit = 16_384
  static let chunkSize = 256
  static let cutBit: UInt32 = 1 << 31
  package static let tailKey = Array("tail".utf8)

  package let commitVersion: UInt64
  let pid: Int32
  let time: Int64
  private(set) var changes: [Change] = []
  /// Whether the transaction has more changes than a record contains, and the record has none of them.
  let isCut: Bool

  static func checksum(
    _ changes: RawSpan, commitVersion: UInt64, time: Int64, pid: UInt32, count: UInt32
  ) -> UInt64 {
    let origin = UInt64(pid) << 32 | UInt64(count)
    return XXH64.hash(changes, seed: commitVersion ^ UInt64(bitPattern: time) ^ origin)
  }

  /// Decodes the records of a chunk; `nil` stands for a damaged one, after which none is readable.
  package static func records(in chunk: RawSpan) -> [ChangeRecord?] {
    var records: [ChangeRecord?] = []
    var offset = 0
    while offset < chunk.byteCount {
      guard let length: UInt32 = chunk.integer(at: offset), Int(length) >= headerSize - 4,
        let bytes = chunk.slice(offset..<(offset + 4 + Int(length))),
        let record = ChangeRecord(bytes)
      else { return records + [nil] }
      records.append(record)
      offset += bytes.byteCount
    }
    return records
  }

  private init?(_ bytes: RawSpan) {
    guard let counts: UInt32 = bytes.integer(at: 4), let version: UInt64 = bytes.integer(at: 8),
      let checksum: UInt64 = bytes.integer(at: 16), let pid: UInt32 = bytes.integer(at: 24),
      let time: Int64 = bytes.integer(at: 28),
      let content = bytes.slice(Self.headerSize..<bytes.byteCount),
      Self.checksum(content, commitVersion: version, time: time, pid: pid, count: counts)
        == checksum
    else { return nil }
    commitVersion = version
    self.pid = Int32(bitPattern: pid)
    self.time = time
    isCut = counts & Self.cutBit != 0
    var offset = 0
    for _ in 0..<(counts & ~Self.cutBit) {
      guard let kinds: UInt16 = content.integer(at: offset),
        let namespace: UInt32 = content.integer(at: offset + 4),
        let length: UInt32 = content.integer(at: offset + 8),
        let key = content.slice(
          (offset + Self.changeSize)..<(offset + Self.changeSize + Int(length & ~Self.cutBit)))
      else { return nil }
      changes.append(
        Change(
          kind: UInt8(truncatingIfNeeded: kinds), keyTag: UInt8(truncatingIfNeeded: kinds >> 8),
          namespace: namespace, key: key.copied(), isKeyCut: length & Self.cutBit != 0))
      offset += Self.changeSize + key.byteCount
    }
  }
}
