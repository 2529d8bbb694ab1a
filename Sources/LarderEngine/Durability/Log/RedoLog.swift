// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// DURABLE COMMITS
//
// LMDB would sync twice for each commit. A durable store commits without a sync, and makes its commits durable
// with the redo log (`LogFormat.swift`) and checkpoints (`CheckpointCoordinator.swift`):
//
//   D1  Under LMDB's writer lock, before the commit, a writer writes the record of its changes to the end of the
//       log, and stores the new end in the table.
//   D2  It commits, and other processes see the changes.
//   D3  After it has released the lock it waits until the word `durable` has its commit version. If no process
//       syncs the log, it does so, for all transactions that have committed by then, and raises the word.
//
// So a commit costs at most one sync, and transactions of several processes share one. A transaction that cannot
// be recorded, because it is too large or because the end of the log is not known, is a gap: it and later ones are
// durable when a checkpoint contains it.
//
// After a system crash an opener restores the last checkpoint, and then makes the changes of the records again
// (`LogRecovery.swift`). A record whose writer was killed between D1 and D2 is replaced by the next writer, which
// has the same commit version, or erased, if that writes to another segment. If the system crashes before that,
// the transaction is made nevertheless.
//
// In a `.durableStrict` store the log is synced between D1 and D2, so that other processes see only what is on the
// disk, and D3 has nothing to wait for.
//
// In a `.relaxed` store D3 is done by a thread, at the store's interval (`Checkpointer.swift`), and nothing else waits
// for the disk either: segments are left without a sync, so a sync of the log syncs all that were left since the last
// one, in their order; and a transaction for which there is no room before the next checkpoint is a gap.
//
// After a failed sync of the log nothing is known of its contents: see `CheckpointCoordinator.swift`.

/// The redo log of a generation, as one process uses it.
final class RedoLog: Sendable {
  let segments: LogSegments
  /// Used under the process writer lock.
  let recorder: ChangeRecorder
  private let durability: Durability
  /// The transaction whose record this process has synced before its commit.
  let syncedVersion = Atomic<UInt64>(0)
  /// The checkpoint after which a relaxed store had no room for another segment.
  private let fullSince = Atomic<UInt64>(.max)
  /// The newest segment of a relaxed store before which this process has synced all others.
  let syncedSegment = Atomic<UInt64>(0)
  /// Whether a thread of this process syncs for all: the lock of `PresenceLocks.logSyncer` is one of processes.
  let isSyncing = Atomic<Bool>(false)
  /// Whether the process that syncs for all was found to be stopped, and has not released its lock since.
  let isOverdue = Atomic<Bool>(false)
  /// Held during a sync of the log and until its failure is noted: the system reports a failure once.
  let syncTurn = Mutex<Void>(())

  /// The changes of a larger transaction are not recorded: it is cheaper to sync its pages.
  static let recordLimit = 4 << 20

  init(path: String, storeID: (UInt64, UInt64), durability: Durability, tables: [TableHandle]) {
    self.durability = durability
    segments = LogSegments(path: path, storeID: storeID, syncsFiles: durability.syncsEachCommit)
    recorder = ChangeRecorder(tables: tables, limit: Self.recordLimit)
  }

  /// Whether records are on the disk before their transactions commit.
  var syncsFirst: Bool { durability == .durableStrict }
  /// Whether a thread syncs the records later, and no transaction waits for the disk.
  var syncsLater: Bool { durability == .relaxed }

  // MARK: Writing

  /// A place for a record, and the chain value before it.
  private struct Place {
    let segment: LogSegments.Segment
    let offset: UInt64
    let chain: UInt64
  }

  /// Writes the record of a transaction (D1). The caller has the writer lock, and commits next.
  func append(_ version: UInt64, in generation: Generation) throws {
    let table = generation.table
    guard recorder.isComplete,
      let place = syncsFirst
        ? try generation.waitingForDisk({ try placeBeforeSync(version, in: generation) })
        : try place(for: version, in: generation)
    else { return try skip(version, in: generation) }
    let (bytes, chain) = LogRecord.encoded(recorder.bytes, version: version, after: place.chain)
    try place.segment.file.write(bytes, at: Int(place.offset))
    fault(.logWritten)
    table.setLogEnd(
      LogPosition(
        segment: place.segment.header.sequence, offset: place.offset + UInt64(bytes.count),
        chain: chain), after: version)
    fault(.logEnded)
    if syncsFirst {
      try generation.waitingForDisk {
        try synchronize(place.segment, before: version, in: generation)
      }
    } else if !syncsLater, table.durableVersion == version &- 1 {
      // A single writer: the disk works while LMDB commits. Several have one write for all.
      place.segment.file.startWriting(at: Int(place.offset), count: bytes.count)
    }
  }

  /// Leaves a transaction without a record: a gap. Records of later ones are of use once a checkpoint contains it.
  private func skip(_ version: UInt64, in generation: Generation) throws {
    let table = generation.table
    var end = table.logEnd(after: version &- 1)
    if try end.map({ try segments.segment($0.segment) == nil }) ?? true {
      end = try generation.waitingForDisk {
        try beginChain(after: version, size: 0, in: generation)?.header.start
      }
    }
    table.logGap = version
    table.setLogEnd(end ?? .none, after: version)
  }

  /// Returns the place for a record whose transaction becomes visible after its sync: everything before it is on the
  /// disk, and it is no gap.
  private func placeBeforeSync(_ version: UInt64, in generation: Generation) throws -> Place? {
    let table = generation.table
    // A killed writer may have replaced an older gap by its own, with the version of this transaction.
    if min(table.logGap, version &- 1) > table.checkpointVersion {
      try generation.keeper?.synchronize(generation)
    }
    if let place = try place(for: version, in: generation) { return place }
    let size = LogRecord.size(ofChanges: recorder.bytes.count)
    guard let segment = try beginChain(after: version &- 1, size: size, in: generation) else {
      return nil
    }
    // In this order: a writer that finds the end of the log relies on its record.
    try generation.keeper?.synchronize(generation, beginning: segment.header.start)
    table.setLogEnd(segment.header.start, after: version &- 1)
    return Place(
      segment: segment, offset: UInt64(LogSegmentHeader.size), chain: segment.header.chain)
  }

  /// Syncs the record of a transaction before it commits.
  private func synchronize(
    _ segment: LogSegments.Segment, before version: UInt64, in generation: Generation
  ) throws {
    fault(.logSyncing)
    do {
      try synchronize(segment, in: generation)
    } catch {
      throw StoreError(
        .outcomeUnknown, during: "commit", path: generation.directory.path,
        "The disk refused a sync of the log. Nothing has changed, and if the system goes down before the "
          + "next write, the changes may be there afterwards. Check the disk.",
        errorNumber: error.errorNumber)
    }
    syncedVersion.store(version, ordering: .releasing)
    fault(.logSynced)
  }

  /// Begins a chain, whose first segment has room for a record of a size.
  ///
  /// - Returns: `nil` if there is no room before the next checkpoint, in a relaxed store.
  private func beginChain(
    after version: UInt64, size: Int, in generation: Generation
  ) throws -> LogSegments.Segment? {
    let table = generation.table
    let committed = table.writerVersion &- 1
    if let end = table.logEnd(after: committed), let last = try segments.segment(end.segment) {
      try leave(last, at: end, in: generation)
    }
    let chain = UInt64.random(in: 1...UInt64.max)
    if let segment = try begin(after: version, chain: chain, size: size, in: generation) {
      return segment
    }
    if table.checkpointVersion < committed { return nil }
    // Everything before the running transaction is in a checkpoint. Without the end of the log, a successor
    // of this transaction begins a chain as well, and writes to none of the old segments.
    table.setLogEnd(.none, after: committed)
    guard
      let segment = try notingRefusal(
        generation,
        { () throws(SystemError) in
          try segments.begin(
            version: version &+ 1, chain: chain, size: size, after: table.logStart, needed: nil)
        })
    else {
      if syncsLater { return nil }
      throw StoreError(
        .storageFull, during: "write", path: generation.directory.path,
        "There is no room for the redo log of the store, which needs a file of "
          + "\(max(size, 16_384) / 1024) kB. Free disk space.")
    }
    return segment
  }

  /// Returns the place for a record; in the next segment if it does not fit into this one.
  ///
  /// - Returns: `nil` if the end of the log is not known, or there is no room for another segment.
  private func place(for version: UInt64, in generation: Generation) throws -> Place? {
    let size = LogRecord.size(ofChanges: recorder.bytes.count)
    guard let end = generation.table.logEnd(after: version &- 1),
      let segment = try segments.segment(end.segment)
    else { return nil }
    if Int(end.offset) + size <= segment.size {
      return Place(segment: segment, offset: end.offset, chain: end.chain)
    }
    let next = try generation.waitingForDisk {
      let next = try begin(after: version &- 1, chain: end.chain, size: size, in: generation)
      if next != nil { try leave(segment, at: end, in: generation) }
      return next
    }
    guard let next else { return nil }
    return Place(segment: next, offset: UInt64(LogSegmentHeader.size), chain: end.chain)
  }

  /// Ends the use of a segment: the next record is in another one.
  private func leave(
    _ segment: LogSegments.Segment, at end: LogPosition, in generation: Generation
  ) throws {
    // A writer that was killed may have left a record here, which recovery would take for the next one. And
    // a process that syncs the next segment of a durable store does not sync this one.
    if !Mutant.logOrphanKept.isActive { try erase(segment, at: Int(end.offset)) }
    if !syncsLater { try synchronize(segment, in: generation) }
  }

  /// Makes the record at an offset invalid, if there is one.
  private func erase(_ segment: LogSegments.Segment, at offset: Int) throws {
    guard offset + LogRecord.headerSize <= segment.size else { return }
    try segment.file.write([UInt8](repeating: 0, count: LogRecord.headerSize), at: offset)
  }

  /// Begins a segment. If there is no room, a checkpoint of all transactions before makes some: a durable store
  /// waits for it.
  private func begin(
    after version: UInt64, chain: UInt64, size: Int, in generation: Generation
  ) throws -> LogSegments.Segment? {
    let table = generation.table
    let writer = table.writerVersion
    let checkpoint = table.checkpointVersion
    if syncsLater, fullSince.load(ordering: .relaxed) == checkpoint { return nil }
    for isFirst in [true, false] {
      // Segments after the one with the end of the log are those of transactions that did not commit.
      let current = table.logEnd(after: writer &- 1)?.segment ?? .max
      let start = Mutant.logRecycledEarly.isActive ? current : table.logStart
      let segment = try notingRefusal(
        generation,
        { () throws(SystemError) in
          try segments.begin(
            version: version &+ 1, chain: chain, size: size, after: table.logStart,
            needed: min(start, current)...current)
        })
      if segment != nil || !isFirst { return segment }
      if syncsLater {
        fullSince.store(checkpoint, ordering: .relaxed)
        return nil
      }
      try generation.keeper?.synchronize(generation)
    }
    return nil
  }

  /// Begins a segment, and notes a sync that the disk refused: of the file, or of its name.
  private func notingRefusal<Result>(
    _ generation: Generation, _ begin: () throws(SystemError) -> Result
  ) throws -> Result {
    do throws(SystemError) {
      return try begin()
    } catch {
      guard error.isRefusedSync else { throw error }
      generation.table.noteFailedSync()
      throw CheckpointCoordinator.failure(generation, error.errno)
    }
  }

  /// Makes the record of a transaction invalid whose commit has failed. The caller has the writer ticket.
  func withdraw(_ version: UInt64, in generation: Generation) throws {
    let table = generation.table
    guard let before = table.logEnd(after: version &- 1), let end = table.logEnd(after: version),
      let segment = try segments.segment(end.segment)
    else { return }
    try erase(
      segment, at: before.segment == end.segment ? Int(before.offset) : LogSegmentHeader.size)
    try synchronize(segment, in: generation)
  }
}
