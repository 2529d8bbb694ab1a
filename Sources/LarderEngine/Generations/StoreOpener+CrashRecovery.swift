// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// A RELAXED OR DURABLE STORE AFTER A CRASH OF THE SYSTEM
//
// `state` is dirty and of another boot (or `state` and the table of this boot are lost, so the boot
// is unknown): neither meta of data.mdb can be trusted. An opener that is alone runs these steps
// under the open lock, before LMDB opens the file:
//
//     R1  the newest record in `synced` that is of this generation and store: snapshot S
//     R2  every page S reaches is verified. Damage is reported, and the files stay unchanged
//     R3  S is written into both metas, as transaction S + 2^26; data.mdb is synced
//     R4  the raised snapshot is recorded
//     R5  the changes of the records in the redo log after S are made again, while the snapshot of R4
//         is pinned; the data is synced, and the result recorded (`LogRecovery.swift`)
//     R6  `state` is clean, of this boot
//
// If the opener is killed before R6, the next opener starts at R1 again: no process has
// written since, and the record that it finds, of S or of S + 2^26, is of the same pages. The table
// of the former boot is rebuilt after LMDB has opened the file.
//
// The transaction id is raised because commit versions only grow: the lost commits after S had
// higher ones, and a caller that holds one in a commit token must not mistake a later commit for
// it. Two to the 26th are half an hour of commits without pause, and a generation has room for
// 16,000 crashes.

extension StoreOpener {
  /// Trusts the files, verifies every page, discards them or restores the last checkpoint. No other
  /// process has the generation open.
  ///
  /// - Returns: `nil` if opening continues.
  func recover(_ opening: inout Opening, changed: UInt64) throws -> Outcome? {
    let path = opening.path
    guard let reason = try suspicion(path, opening.table, changed: changed) else { return nil }
    if reason.mustDiscard { return try damaged(reason.text) }
    if reason.mustRestore {
      switch try StoreOpener.validCheckpoint(in: path, generation: opening.number) {
      case .success(let record):
        try StoreOpener.restore(record, in: path, durability: options.durability)
      case .failure(let none): return try damaged("\(reason.text), and \(none.reason)")
      }
      opening.table = nil
      return nil
    }
    let report = try StructuralVerifier.verify(path: path + "/data.mdb")
    if !report.isSound {
      return try damaged("\(reason.text), and data.mdb is damaged: \(report.findings[0])")
    }
    opening.table?.crashesInLMDB = 0
    opening.table?.dataChanged = changed
    return nil
  }

  private struct RecoveryDecision {
    let text: String
    /// A cache starts empty without looking further.
    let mustDiscard: Bool
    /// A relaxed store goes back to what was synced last.
    let mustRestore: Bool

    init(_ text: String, mustDiscard: Bool = false, mustRestore: Bool = false) {
      self.text = text
      self.mustDiscard = mustDiscard
      self.mustRestore = mustRestore
    }
  }

  private func suspicion(
    _ path: String, _ table: SharedTable?, changed: UInt64
  ) throws -> RecoveryDecision? {
    let isCache = options.durability == .cache
    let isKept = options.durability.survivesSystemCrash
    guard let state = try StoreState.read(from: path + "/state") else {
      // A table of this boot is proof that the system has been up all the time. Without it pages
      // may be missing, and their older versions would be accepted as valid.
      let isUnknown = table?.bootID != ProcessIdentity.bootID
      return RecoveryDecision(
        "the state file is missing or damaged", mustDiscard: isCache && isUnknown,
        mustRestore: isKept && isUnknown)
    }
    if state.isDirty, state.bootID != ProcessIdentity.bootID {
      return RecoveryDecision(
        "the system went down while the store was in use", mustDiscard: isCache,
        mustRestore: isKept)
    }
    guard let table else { return RecoveryDecision("shared.table is missing or damaged") }
    if table.openAttempts >= 2 {
      return RecoveryDecision("two processes died opening the store", mustDiscard: isCache)
    }
    if table.crashesInLMDB >= Self.deathLimit {
      return RecoveryDecision("two processes died inside LMDB")
    }
    // The last process recorded the time: in the table for this boot, in a clean `state` also across
    // boots. A writer killed in a commit leaves a difference as well; verifying costs time only.
    let known = table.bootID == ProcessIdentity.bootID ? table.dataChanged : state.dataChanged
    if known != changed { return RecoveryDecision("data.mdb was changed since it was closed") }
    return nil
  }

  static let restoredJump: UInt64 = 1 << 26

  /// Runs R1 and R2: finds the newest checkpoint record and verifies its snapshot.
  package static func validCheckpoint(
    in path: String, generation number: UInt64
  ) throws -> Result<CheckpointRecord, NoRecord> {
    let state = try StoreState.read(from: path + "/state")
    guard
      let record = try CheckpointFile.newest(in: path, generation: number, storeID: state?.storeID)
    else {
      return .failure(NoRecord(reason: "`synced`, which says what was, is missing or damaged"))
    }
    let report = try StructuralVerifier.verify(path: path + "/data.mdb", from: record.meta)
    guard report.isSound else {
      return .failure(NoRecord(reason: "data.mdb is damaged: \(report.findings[0])"))
    }
    return .success(record)
  }

  package struct NoRecord: Error { package let reason: String }

  /// R3 and R4. The caller is alone.
  package static func restore(
    _ record: CheckpointRecord, in path: String, durability: Durability, replays: Bool = true
  ) throws {
    let log = replays ? try LogReader(record, in: path) : nil
    let raised = record.meta.renumbered(record.transaction + restoredJump)
    let data = try OwnedFile(path: path + "/data.mdb")
    try raised.write(to: data)
    fault(.restoreWritten)
    try data.synchronize()
    fault(.restoreSynced)
    let again = CheckpointRecord(
      storeID: record.storeID, generation: record.generation, time: record.time,
      dataBytes: UInt64(try data.status.size), meta: raised, log: (record.log, record.logVersion))
    let presence = try OwnedFile(path: path + "/presence", creation: .createIfMissing)
    try self.record(again, in: path, presence)
    fault(.restoreRecorded)
    if let log, let newest = try replay(log, after: again, in: path) {
      try self.record(newest, in: path, presence)
    }
    let status = try data.status
    let state = StoreState(
      isDirty: false, bootID: ProcessIdentity.bootID, storeID: record.storeID,
      dataChanged: status.changed, durability: durability)
    try state.write(to: path + "/state")
  }

  private static func record(
    _ record: CheckpointRecord, in path: String, _ presence: OwnedFile
  ) throws {
    guard try CheckpointFile.write(record, in: path, presence: presence) else {
      throw StoreError(
        .inUse, during: "open", path: path,
        "Recovery of \(path) failed: another process locks `presence` without having the store "
          + "open. Terminate it, then reopen.")
    }
  }

  /// Sets the table's recorded checkpoint from `synced`, or to zero if no record is valid.
  func resetRecord(of table: SharedTable, in path: String, newest: UInt64) throws {
    let generation = table.generation
    let record = try CheckpointFile.newest(
      in: path, generation: generation, storeID: table.storeID)
    let commitVersion = record.map {
      Generation.versionBase(ofGeneration: generation) &+ $0.transaction
    }
    table.resetRecorded(to: commitVersion.map { $0 <= newest ? $0 : 0 } ?? 0)
    guard let record else { return }
    // A record without a place, and no end either: nothing in the log is needed.
    let segments = LogSegments(path: path, storeID: record.storeID)
    if record.log.segment != 0 {
      table.raiseLogStart(to: record.log.segment)
    } else if table.logEnd(after: newest) == nil {
      table.raiseLogStart(to: try segments.newest + 1)
    }
  }
}
