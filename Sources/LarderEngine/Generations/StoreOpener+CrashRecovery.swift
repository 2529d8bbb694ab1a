// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
package import LarderSystem

// A STORE WHOSE PAGES MAY BE MISSING
//
// `state` is dirty, and nothing proves that the page cache is the one that was written to
// (`PageCacheIdentity.swift`): it is of another boot, the file system was mounted again, the files are a copy; or
// `state` and the table are lost, so that nothing is known. Or the files were replaced: `state` was written by
// something else since the table recorded its time, or `data.mdb` is older than the table, than a clean `state` or
// than the checkpoint says. Then neither meta of data.mdb can be trusted. A cache starts empty. Of a relaxed or
// durable store, an opener that is alone runs these steps under the open lock, before LMDB opens the file:
//
//     R1  the newest record in `synced` that is of this generation and store: snapshot S
//     R2  every page S reaches is verified. Damage is reported, and the files stay unchanged
//     R3  `state` is dirty and has no page cache; S is written into both metas, as transaction S + 2^26; data.mdb is
//         synced
//     R4  the raised snapshot is recorded
//     R5  the changes of the records in the redo log after S are made again, while the snapshot of R4
//         is pinned; the data is synced, and the result recorded (`LogRecovery.swift`)
//     R6  `state` is clean, of this boot
//
// If the opener is killed before R6, the next opener starts at R1 again: no process has
// written since, and the record that it finds, of S or of S + 2^26, is of the same pages. The table
// is rebuilt after LMDB has opened the file. The event `restored` says what was done, and why.
//
// The transaction id is raised because commit versions only grow: the lost commits after S had
// higher ones, and a caller that holds one in a commit token must not mistake a later commit for
// it. Two to the 26th are half an hour of commits without pause, and a generation has room for
// 16,000 crashes.
//
// If the page cache is proven, but the log is older than the commits that are on the disk, the commits are in data.mdb:
// the opener keeps them, and makes a checkpoint.

extension StoreOpener {
  /// Trusts the files, verifies every page, discards them or restores the last checkpoint. No other
  /// process has the generation open.
  ///
  /// - Returns: `nil` if opening continues.
  func recover(_ opening: inout Opening, changed: UInt64) throws -> Outcome? {
    let path = opening.path
    let data = try OwnedFile(path: path + "/data.mdb", writable: false)
    guard let doubt = try findDoubt(opening, data, changed: changed) else {
      try checkLog(&opening, data)
      return nil
    }
    if doubt.isLossPossible || doubt.startsEmpty {
      guard options.durability.survivesSystemCrash else { return try damaged(doubt.text) }
      if options.readsOnly { throw StoreError.needsRecovery(doubt.text, path: directory.path) }
      switch try StoreOpener.validCheckpoint(in: path, generation: opening.number) {
      case .success(let record):
        if let lost = try missing(from: record, opening, data, after: doubt) {
          return try damaged("\(doubt.text), and \(lost)")
        }
        let count = try StoreOpener.restore(record, in: path, durability: options.durability)
        options.onEvent?(.restored(StoreOpener.description(of: count, because: doubt.text)))
      case .failure(let none): return try damaged("\(doubt.text), and \(none.reason)")
      }
      opening.table = nil
      return nil
    }
    let report = try StructuralVerifier.verify(path: path + "/data.mdb")
    if !report.isSound {
      return try damaged("\(doubt.text), and data.mdb is damaged: \(report.findings[0])")
    }
    // The pages that the file has lost, by the length in the table, are free ones, or the length is damaged.
    if let table = opening.table, UInt64(try data.status.size) < table.dataBytes {
      opening.table = nil
    }
    opening.table?.crashesInLMDB = 0
    opening.table?.dataChanged = changed
    try checkLog(&opening, data)
    return nil
  }

  /// Notes that the log lacks commits of the data. A process that only reads leaves that to the next opener, which is
  /// then alone as well.
  private func checkLog(_ opening: inout Opening, _ data: OwnedFile) throws {
    guard try isLogOlder(opening, data) else { return }
    if options.readsOnly {
      throw StoreError.needsRecovery("the log is older than the store", path: directory.path)
    }
    opening.needsCheckpoint = true
  }

  /// Returns the description of a restoration, for events and reports.
  package static func description(of commits: Int, because reason: String) -> String {
    "\(reason): restored from the last checkpoint and \(commits) \(commits == 1 ? "commit" : "commits") "
      + "of the log"
  }

  /// A reason not to use the files as they are.
  private struct Doubt {
    let text: String
    /// Whether commits may be missing: a cache starts empty, another store goes back to what was synced last. Otherwise
    /// it is enough to verify the pages.
    let isLossPossible: Bool
    /// Whether the table is as the last process left it, and `data.mdb` is not.
    var isTableNewer = false
    /// Whether a cache starts empty without a look at its pages.
    var startsEmpty = false

    init(_ text: String, isLossPossible: Bool = false) {
      self.text = text
      self.isLossPossible = isLossPossible
    }
  }

  /// Returns the reason why commits may be missing from the files of a generation, which no other process has open.
  ///
  /// - Returns: `nil` if the files are as the last process left them.
  package func lossDoubt(ofGeneration number: UInt64, _ presence: OwnedFile) throws -> String? {
    let path = directory.generation(number)
    guard let status = try FileSystem.status(of: path + "/data.mdb") else { return nil }
    var opening = Opening(
      number: number, path: path, presence: presence, alone: true,
      table: try openTable(path + "/shared.table", number: number))
    if let table = opening.table, try !isCredible(table, path, dataSize: status.size) {
      opening.table = nil
    }
    let data = try OwnedFile(path: path + "/data.mdb", writable: false)
    let doubt = try findDoubt(opening, data, changed: status.changed)
    return doubt.flatMap { $0.isLossPossible ? $0.text : nil }
  }

  private func findDoubt(
    _ opening: Opening, _ data: OwnedFile, changed: UInt64
  ) throws -> Doubt? {
    let isCurrent = opening.table?.isCurrent(forDescriptor: data.descriptor) ?? false
    guard let state = try StoreState.read(from: opening.path + "/state") else {
      // A current table is proof of the page cache. Without it pages may be missing, and their older versions would
      // be accepted as valid.
      return Doubt("the state file is missing or damaged", isLossPossible: !isCurrent)
    }
    if let text = state.missingProof(for: data) { return Doubt(text, isLossPossible: true) }
    // The last process recorded the time: in the table for this page cache, in a clean `state` also for others.
    // A writer killed in a commit leaves a difference as well; verifying costs time only.
    let known = isCurrent ? opening.table!.dataChanged : state.dataChanged
    if let doubt = try replacement(
      state, isCurrent ? opening.table : nil, opening, data, isChanged: known != changed)
    {
      return doubt
    }
    guard let table = opening.table else { return Doubt("shared.table is missing or damaged") }
    if UInt64(try data.status.size) < table.dataBytes {
      return Doubt("data.mdb is shorter than it was")
    }
    if table.openAttempts >= 2 {
      var doubt = Doubt("two processes died opening the store")
      doubt.startsEmpty = options.durability == .cache
      return doubt
    }
    if table.crashesInLMDB >= Self.deathLimit { return Doubt("two processes died inside LMDB") }
    if known != changed { return Doubt("data.mdb was changed since it was closed") }
    return nil
  }

  /// Whether files were replaced since the last process left them.
  ///
  /// - Parameter table: The table, if it is of this page cache.
  private func replacement(
    _ state: StoreState, _ table: SharedTable?, _ opening: Opening, _ data: OwnedFile,
    isChanged: Bool
  ) throws -> Doubt? {
    let path = opening.path
    if let table, table.isDirty {
      // `state` is dirty before the table is, and clean after it.
      let changed = try FileSystem.status(of: path + "/state")?.changed
      if !state.isDirty || table.stateChanged != changed {
        return Doubt(
          "the store was in use, and its files were replaced or changed", isLossPossible: true)
      }
    }
    guard isChanged, let newest = try MetaPage.newest(in: data)?.transactionID else { return nil }
    let version = Generation.versionBase(ofGeneration: opening.number) &+ newest
    if let table, table.hasCommits(after: version) {
      var doubt = Doubt(
        "data.mdb is older than the last commit of this store", isLossPossible: true)
      doubt.isTableNewer = true
      return doubt
    }
    var recorded = state.isDirty ? 0 : state.newestTransaction
    if options.durability.survivesSystemCrash {
      let record = try CheckpointFile.newest(
        in: path, generation: opening.number, storeID: state.storeID)
      recorded = max(recorded, record?.transaction ?? 0)
    }
    return newest < recorded
      ? Doubt("data.mdb is older than when it was synced last", isLossPossible: true) : nil
  }

  /// Says what a checkpoint and the log after it do not have, of the commits that are known to be on the disk.
  private func missing(
    from record: CheckpointRecord, _ opening: Opening, _ data: OwnedFile, after doubt: Doubt
  ) throws -> String? {
    guard doubt.isTableNewer, let table = opening.table else { return nil }
    let reach = try record.reach(in: opening.path)
    return reach < table.durableVersion
      ? "checkpoint and log have the commits up to \(reach) only, not up to \(table.durableVersion)"
      : nil
  }

  /// Whether the log of a dirty store, whose page cache is proven, lacks commits that were on the disk.
  private func isLogOlder(_ opening: Opening, _ data: OwnedFile) throws -> Bool {
    guard options.durability.survivesSystemCrash, let table = opening.table, table.isDirty,
      table.isCurrent(forDescriptor: data.descriptor), !table.hasFailedSync,
      let record = try CheckpointFile.newest(
        in: opening.path, generation: opening.number, storeID: table.storeID)
    else { return false }
    // A word that no transaction has reached is damaged.
    guard let newest = try MetaPage.newest(in: data)?.transactionID,
      case let durable = table.durableVersion,
      durable <= Generation.versionBase(ofGeneration: opening.number) &+ newest
    else { return false }
    // Without its files, `reach(in:)` is an error: then the log has nothing.
    guard let reach = try? record.reach(in: opening.path) else { return true }
    return reach < durable
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

  /// R3 to R6. The caller is alone.
  ///
  /// - Returns: The number of commits of the log that were made again.
  @discardableResult
  package static func restore(
    _ record: CheckpointRecord, in path: String, durability: Durability, replays: Bool = true
  ) throws -> Int {
    let log = replays ? try LogReader(record, in: path) : nil
    // If this process is killed, no proof of a page cache makes the next one use what is half restored.
    let begun = StoreState(
      isDirty: true, storeID: record.storeID, durability: durability, pageCache: .none)
    try begun.write(to: path + "/state")
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
    var (newest, count) = (raised.transactionID, 0)
    if let log, let (record, commits) = try replay(log, after: again, in: path) {
      try self.record(record, in: path, presence)
      (newest, count) = (record.transaction, commits)
    }
    let state = StoreState(
      isDirty: false, storeID: record.storeID, clean: (try data.status.changed, newest),
      durability: durability, pageCache: PageCacheIdentity(ofDescriptor: data.descriptor))
    try state.write(to: path + "/state")
    return count
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
    let segments = LogSegments(path: path, storeID: record.storeID, isWritable: false)
    if record.log.segment != 0 {
      table.raiseLogStart(to: record.log.segment)
    } else if table.logEnd(after: newest) == nil {
      table.raiseLogStart(to: try segments.newest + 1)
    }
  }
}
