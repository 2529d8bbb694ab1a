// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
package import LarderSystem

// CHECKPOINT RECORDS OF RELAXED AND DURABLE STORES (`synced`)
//
// Up to eight lanes of two slots of 4,096 bytes, little-endian, preallocated from the first on. A slot is a record:
//
//       0  magic        u64   "LARDERY1"
//       8  version      u32   2
//      16  store id     16 bytes
//      32  generation   u64
//      40  boot id      u64   the boot it was written in
//      48  time         i64   when the sync began; wall milliseconds
//      56  data bytes   u64   the size of data.mdb then
//      64  meta page    152 bytes: of the snapshot, header included; its transaction S is in it
//     216  log          3 u64 the place of the first record after S in the redo log (`LogFormat.swift`): segment,
//                             offset and chain value; zeros: no place
//     240  log version  u64   the commit version of that record
//     248  checksum     u64   XXH64 of the first 248 bytes
//
// A record states that every page of snapshot S is on the disk. The record with the highest S is
// effective, in any lane; of several with one S, that with the newest segment of the log.
//
// A lane belongs to the process that holds its lock, a byte of `presence` that the kernel releases
// when the process exits. The holder overwrites the older of the lane's two slots, or one without a
// valid record, and syncs the file. So the highest record is never overwritten: either it is the
// newer one of its lane, or the lane's other slot has no valid record. If a crash tears a record,
// the previous one remains. There are several lanes because a process can be stopped at any point
// while it holds a lane's lock, and no process waits for it. If it continues later and writes a
// record that is older than those of other processes by then, that record has no effect.

/// The record of a snapshot that is on the disk.
package struct CheckpointRecord {
  private static let magic: UInt64 = 0x3159_5245_4452_414C
  package static let size = 256
  private static let metaOffset = 64

  let storeID: (UInt64, UInt64)
  package let generation: UInt64
  let bootID: UInt64
  let time: Int64
  let dataBytes: UInt64
  package let meta: MetaPage
  let log: LogPosition
  let logVersion: UInt64

  package var transaction: UInt64 { meta.transactionID }

  package init(
    storeID: (UInt64, UInt64), generation: UInt64, time: Int64, dataBytes: UInt64,
    meta: MetaPage, log: (position: LogPosition, version: UInt64) = (.none, 0)
  ) {
    self.storeID = storeID
    self.generation = generation
    bootID = ProcessIdentity.bootID
    self.time = time
    self.dataBytes = dataBytes
    self.meta = meta
    (self.log, logVersion) = log
  }

  /// Creates a record from the bytes of a slot. Returns `nil` if they are not a valid record.
  package init?(_ bytes: [UInt8]) {
    let end = CheckpointRecord.size - 8
    let log = CheckpointRecord.metaOffset + MetaPage.count
    guard
      bytes.count >= CheckpointRecord.size,
      bytes.integer(at: 0, as: UInt64.self) == CheckpointRecord.magic,
      bytes.integer(at: 8, as: UInt32.self) == 2,
      bytes.integer(at: end, as: UInt64.self) == XXH64.hash(Array(bytes[..<end])),
      let meta = MetaPage(Array(bytes[CheckpointRecord.metaOffset..<log])), meta.transactionID > 0
    else { return nil }
    storeID = (bytes.integer(at: 16)!, bytes.integer(at: 24)!)
    generation = bytes.integer(at: 32)!
    bootID = bytes.integer(at: 40)!
    time = bytes.integer(at: 48)!
    dataBytes = bytes.integer(at: 56)!
    self.meta = meta
    self.log = LogPosition(
      segment: bytes.integer(at: log)!, offset: bytes.integer(at: log + 8)!,
      chain: bytes.integer(at: log + 16)!)
    logVersion = bytes.integer(at: log + 24)!
  }

  package func bytes() -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: CheckpointRecord.metaOffset)
    bytes.store(CheckpointRecord.magic, at: 0)
    bytes.store(UInt32(2), at: 8)
    bytes.store(storeID.0, at: 16)
    bytes.store(storeID.1, at: 24)
    bytes.store(generation, at: 32)
    bytes.store(bootID, at: 40)
    bytes.store(time, at: 48)
    bytes.store(dataBytes, at: 56)
    bytes += meta.bytes
    for word in [log.segment, log.offset, log.chain, logVersion] {
      bytes.append(littleEndian: word)
    }
    bytes.append(littleEndian: XXH64.hash(bytes))
    return bytes
  }
}

extension CheckpointRecord {
  /// The order of the records of a generation.
  fileprivate var rank: (UInt64, UInt64) { (transaction, log.segment) }
}

/// The file of a generation with its checkpoint records.
package enum CheckpointFile {
  package static let name = "synced"
  static let lanes = 8
  private static let slotSize = 4096
  /// The size of the file until two processes record at the same time.
  package static let size = size(ofLanes: 1)
  private static func size(ofLanes lanes: Int) -> Int { lanes * 2 * slotSize }

  /// Returns the effective record, or `nil` if the file has no valid record of this generation.
  ///
  /// - Parameter storeID: The id of the store that the record must have, or `nil` for any.
  static func newest(
    in generationPath: String, generation: UInt64, storeID: (UInt64, UInt64)?
  ) throws(SystemError) -> CheckpointRecord? {
    try all(in: generationPath, generation: generation, storeID: storeID)
      .max { $0.rank < $1.rank }
  }

  /// Returns the valid records of this generation, in the order of the slots. Only the effective one is certain: the
  /// pages of an older one may have been used again.
  package static func all(
    in generationPath: String, generation: UInt64, storeID: (UInt64, UInt64)?
  ) throws(SystemError) -> [CheckpointRecord] {
    let file: OwnedFile
    do throws(SystemError) {
      file = try OwnedFile(path: generationPath + "/" + name, writable: false)
    } catch {
      if error.isNoSuchFile { return [] }
      throw error
    }
    var records: [CheckpointRecord] = []
    for slot in 0..<2 * lanes {
      guard
        let record = CheckpointRecord(
          try file.read(count: CheckpointRecord.size, at: slot * slotSize)),
        record.generation == generation, storeID.map({ $0 == record.storeID }) ?? true
      else { continue }
      records.append(record)
    }
    return records
  }

  /// Creates the file of a new generation. Its builder syncs the directory.
  static func create(_ record: CheckpointRecord, in generationPath: String) throws(SystemError) {
    let file = try OwnedFile(path: generationPath + "/" + name, creation: .createIfMissing)
    try file.preallocate(size)
    try file.write(record.bytes(), at: 0)
    try file.synchronize()
  }

  /// Writes and syncs a record.
  ///
  /// - Parameter creation: Whether the file is created if it is missing.
  /// - Returns: `false` if stopped processes hold all lanes.
  static func write(
    _ record: CheckpointRecord, in generationPath: String, presence: OwnedFile,
    creation: OwnedFile.Creation = .createIfMissing
  ) throws(SystemError) -> Bool {
    let file = try OwnedFile(path: generationPath + "/" + name, creation: creation)
    for lane in 0..<lanes where try presence.tryLock(.exclusive, at: PresenceLocks.laneOffset(lane))
    {
      defer { _ = try? presence.tryLock(.none, at: PresenceLocks.laneOffset(lane)) }
      let size = size(ofLanes: lane + 1)
      let found = try file.status.size
      // A file that was deleted is created again. It has bytes only after its name is on the disk: the next
      // process that finds some syncs the file alone.
      if found == 0 { try FileSystem.synchronizeDirectory(generationPath) }
      let isNew = found < size
      if isNew { try file.preallocate(size) }
      var ages: [(UInt64, UInt64)] = []
      for slot in 0..<2 {
        let bytes = try file.read(count: CheckpointRecord.size, at: (2 * lane + slot) * slotSize)
        let old = CheckpointRecord(bytes)
        ages.append(old.map { $0.generation == record.generation ? $0.rank : (0, 0) } ?? (0, 0))
      }
      let slot = 2 * lane + (ages[0] <= ages[1] ? 0 : 1)
      try file.write(record.bytes(), at: slot * slotSize)
      if isNew { try file.synchronize() } else { try file.synchronizeContent() }
      return true
    }
    return false
  }
}
