// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// THE REDO LOG (`log-0` to `log-31` in the directory of a generation)
//
// The transactions of a relaxed or durable store after its last checkpoint: what they stored and removed. Each file is a
// segment, written full of zeros when it is created, so that a sync writes no metadata of the file system. It is
// used again when the checkpoint is behind it. Little-endian. A segment begins with a header of 64 bytes:
//
//       0  magic      u64   "LARDERL1"
//       8  store id   2 u64
//      24  sequence   u64   grows with each use of any file as a segment
//      32  version    u64   the commit version of the first record
//      40  chain      u64   the chain value before the first record
//      48  zero       u64
//      56  checksum   u64   XXH64 of the first 56 bytes
//
// and continues with records:
//
//       0  size       u32   of the changes
//       4  zero       u32
//       8  version    u64   the commit version of the transaction
//      16  chain      u64   XXH64 of the first 16 bytes and the changes, with the chain value before as the seed
//      24  changes          (`ChangeRecorder.swift`), then zeros up to a multiple of 8
//
// A record is valid only after the records before it, because their chain values are the seeds. So neither a
// record of an earlier use of the file is valid, nor one after a record that a killed writer left and its
// successor replaced. A new chain, after the log was interrupted, begins with a random value.

/// The place in a log at which the next record is written or read.
package struct LogPosition: Sendable, Hashable {
  /// The sequence number of the segment; zero for no place.
  package var segment: UInt64
  package var offset: UInt64
  /// The chain value before the record.
  package var chain: UInt64

  package static let none = LogPosition(segment: 0, offset: 0, chain: 0)
}

/// The header of a segment.
struct LogSegmentHeader {
  static let size = 64
  private static let magic: UInt64 = 0x314C_5245_4452_414C

  let storeID: (UInt64, UInt64)
  let sequence: UInt64
  let version: UInt64
  let chain: UInt64

  init(storeID: (UInt64, UInt64), sequence: UInt64, version: UInt64, chain: UInt64) {
    self.storeID = storeID
    self.sequence = sequence
    self.version = version
    self.chain = chain
  }

  init?(_ bytes: [UInt8]) {
    guard bytes.count == Self.size, bytes.integer(at: 0, as: UInt64.self) == Self.magic,
      bytes.integer(at: 56, as: UInt64.self) == XXH64.hash(Array(bytes[..<56]))
    else { return nil }
    storeID = (bytes.integer(at: 8)!, bytes.integer(at: 16)!)
    sequence = bytes.integer(at: 24)!
    version = bytes.integer(at: 32)!
    chain = bytes.integer(at: 40)!
  }

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    for word in [Self.magic, storeID.0, storeID.1, sequence, version, chain, 0] {
      bytes.append(littleEndian: word)
    }
    bytes.append(littleEndian: XXH64.hash(bytes))
    return bytes
  }

  /// The place of the first record.
  var start: LogPosition {
    LogPosition(segment: sequence, offset: UInt64(Self.size), chain: chain)
  }
}

/// The records of the log.
enum LogRecord {
  static let headerSize = 24

  /// The bytes that a record of changes has.
  static func size(ofChanges count: Int) -> Int { (headerSize + count + 7) & ~7 }

  /// Returns a record, and the chain value after it.
  static func encoded(
    _ changes: [UInt8], version: UInt64, after chain: UInt64
  ) -> (bytes: [UInt8], chain: UInt64) {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(size(ofChanges: changes.count))
    bytes.append(littleEndian: UInt32(changes.count))
    bytes.append(littleEndian: UInt32(0))
    bytes.append(littleEndian: version)
    let next = hash(bytes, changes, seed: chain)
    bytes.append(littleEndian: next)
    bytes += changes
    bytes += repeatElement(0, count: size(ofChanges: changes.count) - bytes.count)
    return (bytes, next)
  }

  private static func hash(_ header: [UInt8], _ changes: [UInt8], seed: UInt64) -> UInt64 {
    XXH64.hash(
      changes, seed: XXH64.hash(header, seed: Mutant.logUnchained.isActive ? 0 : seed))
  }

  /// Returns the changes of the record at an offset, if it is valid.
  static func decoded(
    _ bytes: [UInt8], at offset: Int, version: UInt64, after chain: UInt64
  ) -> (changes: [UInt8], chain: UInt64)? {
    let start = offset + headerSize
    guard
      let count: UInt32 = bytes.integer(at: offset),
      bytes.integer(at: offset + 8, as: UInt64.self) == version,
      let stored: UInt64 = bytes.integer(at: offset + 16), bytes.count - start >= Int(count)
    else { return nil }
    let changes = Array(bytes[start..<start + Int(count)])
    guard hash(Array(bytes[offset..<offset + 16]), changes, seed: chain) == stored else {
      return nil
    }
    return (changes, stored)
  }
}
