// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// A RELAXED STORE AFTER A CRASH OF THE SYSTEM
//
// `state` says dirty and is of another boot (or is lost, together with the table of this boot, so
// that nobody knows): neither meta of data.mdb can be believed. By an opener that is alone, under
// the gate, before LMDB opens the file:
//
//     R1  the newest record in `synced` that is of this generation and store: snapshot S
//     R2  every page S reaches is verified. What is not sound is reported; nothing was touched then
//     R3  S is written into both metas, as transaction S + 2^26; data.mdb is synced
//     R4  that is recorded; `state` says clean, of this boot
//
// Killed before R4 is through, the next opener begins with R1 again: nobody has written since, and
// the record that is found, of S or of S + 2^26, is of the same pages. The table of the former boot
// is made anew when LMDB has opened the file.
//
// The number of the transaction is raised because labels only grow: commits after S, which are
// gone, had higher ones, and who was told of one in a commit token must not take a later commit for
// it. Two to the 26th are half an hour of commits without pause, and a generation has room for
// 16,000 crashes.

extension StoreOpener {
  static let restoredJump: UInt64 = 1 << 26

  /// R1 and R2: the record of what was synced last, if it can be believed.
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
  package static func restore(_ record: CheckpointRecord, in path: String) throws {
    let raised = record.meta.renumbered(record.transaction + restoredJump)
    let data = try OwnedFile(path: path + "/data.mdb")
    try raised.write(to: data)
    fault(.restoreWritten)
    try data.synchronize()
    fault(.restoreSynced)
    let status = try data.status
    let again = CheckpointRecord(
      storeID: record.storeID, generation: record.generation, time: record.time,
      dataBytes: UInt64(status.size), meta: raised)
    let presence = try OwnedFile(path: path + "/presence", creation: .createIfMissing)
    guard try CheckpointFile.write(again, in: path, presence: presence) else {
      throw StoreError(
        .inUse, during: "open", path: path,
        "Somebody holds the locks of a store that nobody has open. End it, and open again.")
    }
    fault(.restoreRecorded)
    let state = StoreState(
      isDirty: false, bootID: ProcessIdentity.bootID, storeID: record.storeID,
      dataChanged: status.changed, durability: .relaxed)
    try state.write(to: path + "/state")
  }

  /// What is recorded stands in the file; of a snapshot that is none, nothing is.
  func resetRecord(of table: SharedTable, in path: String, newest: UInt64) throws {
    let generation = table.generation
    let record = try CheckpointFile.newest(
      in: path, generation: generation, storeID: table.storeID)
    let commitVersion = record.map {
      Generation.versionBase(ofGeneration: generation) &+ $0.transaction
    }
    table.resetRecorded(to: commitVersion.map { $0 <= newest ? $0 : 0 } ?? 0)
  }
}
