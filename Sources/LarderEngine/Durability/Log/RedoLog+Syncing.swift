// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The syncs of the log: D3 of `RedoLog.swift`.
extension RedoLog {
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
    let began = Clocks.monotonicNanoseconds() / 1_000_000
    // In this order: what is logged by now is in the segment that is read afterwards, or in an older one.
    let logged = table.loggedVersion
    // One that is not committed costs a checkpoint, which its successor would need as well.
    if table.isLogInterrupted {
      try generation.keeper?.synchronize(generation)
    } else if let segment = try newestSegment(in: generation) {
      if syncsLater { try synchronizeSegments(before: segment, in: generation) }
      try synchronize(segment, in: generation)
      table.raiseDurable(to: Mutant.durableAhead.isActive ? logged &+ 1 : logged)
      table.raiseLogSynced(at: began)
    } else {
      try generation.keeper?.synchronize(generation)
    }
  }

  /// Syncs the segments that the log has left since the last sync: a relaxed store leaves them as they are.
  private func synchronizeSegments(
    before newest: LogSegments.Segment, in generation: Generation
  ) throws {
    let sequence = newest.header.sequence
    let synced = syncedSegment.load(ordering: .relaxed)
    if synced >= sequence { return }
    // All of them: the newest one at the last sync may have been that of a transaction that did not commit, and its
    // successor has written to the one before.
    let start =
      Mutant.logLeftUnsynced.isActive
      ? max(synced, generation.table.logStart) : generation.table.logStart
    for segment in try segments.all()
    where segment.header.sequence >= start && segment.header.sequence < sequence {
      try synchronize(segment, in: generation)
    }
    try noting(generation) { () throws(SystemError) in
      try FileSystem.synchronizeDirectory(generation.path)
    }
    syncedSegment.store(sequence, ordering: .relaxed)
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

  /// Syncs a segment.
  func synchronize(
    _ segment: LogSegments.Segment, in generation: Generation
  ) throws(StoreError) {
    if Mutant.logUnsynced.isActive { return }
    generation.count(.logSyncs)
    try noting(generation) { () throws(SystemError) in try segment.file.synchronizeContent() }
  }

  /// Runs a sync, and notes its failure.
  private func noting(
    _ generation: Generation, _ sync: () throws(SystemError) -> Void
  ) throws(StoreError) {
    try syncTurn.withLock { _ throws(StoreError) in
      do throws(SystemError) {
        try sync()
      } catch {
        generation.table.noteFailedSync()
        throw unknown(generation, error.errno)
      }
      // The system reports a failure once, perhaps to another process.
      if generation.table.hasFailedSync { throw unknown(generation) }
    }
  }

  private func unknown(_ generation: Generation, _ code: Int32? = nil) -> StoreError {
    if syncsLater { return CheckpointCoordinator.failure(generation, code) }
    return StoreError(
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
