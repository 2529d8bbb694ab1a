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
// be recorded, because it is too large or because the end of the log is not known, is a gap: the first segment
// of a new chain follows, and it and later ones are durable when a checkpoint contains it.
//
// After a system crash an opener restores the last checkpoint, and then makes the changes of the records again
// (`LogRecovery.swift`). A record whose writer was killed between D1 and D2 is replaced by the next writer, which
// has the same commit version, or erased, if that writes to another segment. If the system crashes before that,
// the transaction is made nevertheless.
//
// In a `.durableStrict` store the log is synced between D1 and D2, so that other processes see only what is on the
// disk, and D3 has nothing to wait for.
//
// After a failed sync of the log nothing is known of its contents: see `CheckpointCoordinator.swift`.

/// The redo log of a generation, as one process uses it.
final class RedoLog: Sendable {
  let segments: LogSegments
  /// Used under the process writer lock.
  let recorder: ChangeRecorder
  /// Whether records are on the disk before their transactions commit.
  private let syncsFirst: Bool
  /// The transaction whose record this process has synced before its commit.
  private let syncedVersion = Atomic<UInt64>(0)
  /// Whether a thread of this process syncs for all: the lock of `PresenceLocks.logSyncer` is one of processes.
  private let isSyncing = Atomic<Bool>(false)
  /// Whether the process that syncs for all was found to be stopped, and has not released its lock since.
  private let isOverdue = Atomic<Bool>(false)
  /// Held during a sync of the log and until its failure is noted: the system reports a failure once.
  private let syncTurn = Mutex<Void>(())

  /// The changes of a larger transaction are not recorded: it is cheaper to sync its pages.
  static let recordLimit = 4 << 20

  init(path: String, storeID: (UInt64, UInt64), syncsFirst: Bool, tables: [TableHandle]) {
    self.syncsFirst = syncsFirst
    segments = LogSegments(path: path, storeID: storeID)
    recorder = ChangeRecorder(tables: tables, limit: Self.recordLimit)
  }

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
        ? try placeBeforeSync(version, in: generation) : try place(for: version, in: generation)
    else {
      // The next record is in a new chain, which begins after this transaction.
      let segment = try beginChain(after: version, size: 0, in: generation)
      table.logGap = version
      return table.setLogEnd(segment.header.start, after: version)
    }
    let (bytes, chain) = LogRecord.encoded(recorder.bytes, version: version, after: place.chain)
    try place.segment.file.write(bytes, at: Int(place.offset))
    fault(.logWritten)
    table.setLogEnd(
      LogPosition(
        segment: place.segment.header.sequence, offset: place.offset + UInt64(bytes.count),
        chain: chain), after: version)
    if syncsFirst {
      try synchronize(place.segment, before: version, in: generation)
    } else if table.durableVersion == version &- 1 {
      // A single writer: the disk works while LMDB commits. Several have one write for all.
      place.segment.file.startWriting(at: Int(place.offset), count: bytes.count)
    }
  }

  /// Returns the place for a record whose transaction becomes visible after its sync: everything before it is on the
  /// disk, and it is no gap.
  private func placeBeforeSync(_ version: UInt64, in generation: Generation) throws -> Place {
    let table = generation.table
    // A killed writer may have replaced an older gap by its own, with the version of this transaction.
    if min(table.logGap, version &- 1) > table.checkpointVersion {
      try generation.keeper?.synchronize(generation)
    }
    if let place = try place(for: version, in: generation) { return place }
    let size = LogRecord.size(ofChanges: recorder.bytes.count)
    let segment = try beginChain(after: version &- 1, size: size, in: generation)
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
  private func beginChain(
    after version: UInt64, size: Int, in generation: Generation
  ) throws -> LogSegments.Segment {
    let table = generation.table
    let committed = table.writerVersion &- 1
    if let end = table.logEnd(after: committed), let last = try segments.segment(end.segment) {
      try leave(last, at: end, in: generation)
    }
    let chain = UInt64.random(in: 1...UInt64.max)
    if let segment = try begin(after: version, chain: chain, size: size, in: generation) {
      return segment
    }
    // Everything before the running transaction is in a checkpoint by now. Without the end of the log, a successor
    // of this transaction begins a chain as well, and writes to none of the old segments.
    table.setLogEnd(.none, after: committed)
    guard
      let segment = try segments.begin(
        version: version &+ 1, chain: chain, size: size, after: table.logStart, needed: nil)
    else {
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
    guard
      let next = try begin(after: version &- 1, chain: end.chain, size: size, in: generation)
    else { return nil }
    try leave(segment, at: end, in: generation)
    return Place(segment: next, offset: UInt64(LogSegmentHeader.size), chain: end.chain)
  }

  /// Ends the use of a segment: the next record is in another one.
  private func leave(
    _ segment: LogSegments.Segment, at end: LogPosition, in generation: Generation
  ) throws {
    // A writer that was killed may have left a record here, which recovery would take for the next one. And
    // a process that syncs the next segment does not sync this one.
    if Mutant.logOrphanKept.isActive { return try synchronize(segment, in: generation) }
    try erase(segment, at: Int(end.offset), in: generation)
  }

  /// Makes the record at an offset invalid, if there is one, and syncs the segment.
  private func erase(
    _ segment: LogSegments.Segment, at offset: Int, in generation: Generation
  ) throws {
    if offset + LogRecord.headerSize <= segment.size {
      try segment.file.write([UInt8](repeating: 0, count: LogRecord.headerSize), at: offset)
    }
    try synchronize(segment, in: generation)
  }

  /// Begins a segment. If there is no room, a checkpoint of all transactions before makes some.
  private func begin(
    after version: UInt64, chain: UInt64, size: Int, in generation: Generation
  ) throws -> LogSegments.Segment? {
    let table = generation.table
    let writer = table.writerVersion
    for isFirst in [true, false] {
      // Segments after the one with the end of the log are those of transactions that did not commit.
      let current = table.logEnd(after: writer &- 1)?.segment ?? .max
      let start = Mutant.logRecycledEarly.isActive ? current : table.logStart
      let segment = try segments.begin(
        version: version &+ 1, chain: chain, size: size, after: table.logStart,
        needed: min(start, current)...current)
      if segment != nil || !isFirst { return segment }
      try generation.keeper?.synchronize(generation)
    }
    return nil
  }

  /// Makes the record of a transaction invalid whose commit has failed. The caller has the writer ticket.
  func withdraw(_ version: UInt64, in generation: Generation) throws {
    let table = generation.table
    guard let before = table.logEnd(after: version &- 1), let end = table.logEnd(after: version),
      let segment = try segments.segment(end.segment)
    else { return }
    try erase(
      segment, at: before.segment == end.segment ? Int(before.offset) : LogSegmentHeader.size,
      in: generation)
  }

  // MARK: Syncing

  /// Records that a transaction of this process is committed. The caller has the process writer lock.
  func noteCommit(_ version: UInt64, in generation: Generation) {
    generation.table.raiseLogged(to: version)
    // Not before the commit: a transaction that does not commit has the same version as its successor.
    if syncsFirst, syncedVersion.load(ordering: .acquiring) == version {
      generation.table.raiseDurable(to: version)
    }
  }

  /// Waits until a committed transaction is on the disk (D3).
  func waitUntilDurable(_ version: UInt64, in generation: Generation) throws {
    let table = generation.table
    table.raiseLogged(to: version)
    if table.durableVersion >= version { return }
    fault(.logCommitted)
    var since = Clocks.monotonicNanoseconds()
    var word = table.logSyncWord
    while table.durableVersion < version {
      if table.hasFailedSync { throw unknown(generation) }
      // After that time the process that syncs is stopped, or its disk is slow.
      let isPatient = Clocks.monotonicNanoseconds() &- since <= Self.patience
      if try synchronizeIfElected(upTo: version, in: generation, isPatient) { continue }
      table.sleep(whileLogSyncWordIs: word, nanoseconds: 2_000_000)
      let now = table.logSyncWord
      if now != word { (word, since) = (now, Clocks.monotonicNanoseconds()) }
    }
  }

  private static let patience: UInt64 = 200_000_000

  /// - Parameter isPatient: Whether another process may sync instead.
  /// - Returns: `false` if another thread or process syncs.
  private func synchronizeIfElected(
    upTo version: UInt64, in generation: Generation, _ isPatient: Bool
  ) throws -> Bool {
    if isSyncing.exchange(true, ordering: .acquiringAndReleasing) { return false }
    var mustWake = false
    defer {
      isSyncing.store(false, ordering: .releasing)
      // Last, so that a waiter that wakes up can be elected.
      if mustWake { generation.table.advanceLogSyncWord() }
    }
    let isElected = try generation.presence.tryLock(.exclusive, at: PresenceLocks.logSyncer)
    if !isElected, isPatient, !isOverdue.load(ordering: .relaxed) { return false }
    // Until its lock is free, this process waits for the stopped one no more.
    isOverdue.store(!isElected, ordering: .relaxed)
    mustWake = true
    defer {
      if isElected { _ = try? generation.presence.tryLock(.none, at: PresenceLocks.logSyncer) }
    }
    fault(.logSyncing)
    try synchronize(upTo: version, in: generation)
    return true
  }

  /// Syncs the records of all committed transactions.
  private func synchronize(upTo version: UInt64, in generation: Generation) throws {
    let table = generation.table
    table.raiseDurable(to: table.checkpointVersion)
    if table.durableVersion >= version { return }
    // In this order: what is logged by now is in the segment that is read afterwards, or in an older one,
    // which was synced before this one began.
    let logged = table.loggedVersion
    // One that is not committed costs a checkpoint, which its successor would need as well.
    if table.checkpointVersion < table.logGap {
      try generation.keeper?.synchronize(generation)
    } else if let segment = try newestSegment(in: generation) {
      try synchronize(segment, in: generation)
      table.raiseDurable(to: Mutant.durableAhead.isActive ? logged &+ 1 : logged)
    } else {
      try generation.keeper?.synchronize(generation)
    }
  }

  private func newestSegment(in generation: Generation) throws -> LogSegments.Segment? {
    let table = generation.table
    // Two transactions can begin between the reads of the words; a damaged table never has an end.
    for _ in 0..<1000 {
      let newest = table.writerVersion
      for version in [newest, newest &- 1] {
        if let end = table.logEnd(after: version) { return try segments.segment(end.segment) }
      }
      OSThread.yield()
    }
    return nil
  }

  private func synchronize(
    _ segment: LogSegments.Segment, in generation: Generation
  ) throws(StoreError) {
    if Mutant.logUnsynced.isActive { return }
    try syncTurn.withLock { _ throws(StoreError) in
      do throws(SystemError) {
        generation.count(.logSyncs)
        try segment.file.synchronizeContent()
      } catch {
        generation.table.noteFailedSync()
        throw unknown(generation, error.errno)
      }
      // The system reports a failure once, perhaps to another process.
      if generation.table.hasFailedSync { throw unknown(generation) }
    }
  }

  private func unknown(_ generation: Generation, _ code: Int32? = nil) -> StoreError {
    StoreError(
      .outcomeUnknown, during: "commit", path: generation.directory.path,
      "The disk refused a sync of the log. The commit is visible, and may be lost if the system "
        + "goes down before the next write, which copies what is stored into new files. Check the disk.",
      errorNumber: code)
  }
}

extension PresenceLocks {
  /// Write-locked by the process that syncs the log of a durable store for all.
  package static let logSyncer: Int64 = 3
}
