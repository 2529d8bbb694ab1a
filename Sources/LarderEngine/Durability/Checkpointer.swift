// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// THE PERIODIC SYNCS OF RELAXED AND DURABLE STORES
//
// Each process that has a relaxed store open, or has written to a durable one, runs a thread for it, which does
// two things:
//
//   log         It syncs the redo log of a relaxed store. At least once an interval it checks whether any process
//               has committed after the last sync. If so, the sync is due one interval after that one began. So a
//               commit after time B, when it began, is on the disk by B + interval plus the duration of a sync,
//               provided that one process that has the store open is alive.
//   checkpoint  After 30 seconds, or earlier after many writes: until then no page of the last checkpoint is used
//               again, so the file grows, and the log is not either. A relaxed store whose log is interrupted, by
//               a large transaction or because there was no room, needs one at once.
//
// One process does it for all: the one that acquires the lock of `PresenceLocks.syncer`, which the kernel releases when
// it exits. The others check again soon. If the sync is overdue by another interval, or a second, the holder is stopped,
// and they sync themselves.

/// The thread of a process that syncs a relaxed or durable store.
final class Checkpointer: Sendable {
  private let thread = BackgroundThread()

  func start(_ core: StoreCore) throws(SystemError) {
    try thread.start { [core, thread] in
      if thread.isStopped { return 0 }
      if let wait = core.syncIfDue() { return wait }
      thread.rest()
      // A commit before that could not wake the thread.
      return core.syncIfDue() ?? core.syncPause
    }
  }

  /// Wakes the thread after a commit.
  func noteCommit(isUrgent: Bool) {
    if isUrgent { thread.wakeAnyway() } else { thread.wake() }
  }

  func stop() { thread.stop() }
}

/// The syncs that are due.
private struct DueSyncs {
  /// The newest commit.
  let newest: UInt64
  /// The milliseconds since the last sync of each kind began, with the longest time that is allowed; `nil` if there is
  /// nothing to sync.
  let log: (age: UInt64, interval: UInt64)?
  let checkpoint: (age: UInt64, interval: UInt64)?

  init(newest: UInt64, now: UInt64, in generation: Generation) {
    let table = generation.table
    self.newest = newest
    // A time in the future comes from another clock. An early sync is harmless.
    func age(_ time: UInt64) -> UInt64 { now < time ? .max : now - time }
    // Files that were deleted or moved get no checkpoints; a log that was moved is synced.
    let isLost = generation.hasLostFiles.load(ordering: .acquiring)
    let needsNoSync =
      generation.waitsForDisk || newest <= table.durableVersion
      || (isLost && table.isLogInterrupted)
    log = needsNoSync ? nil : (age(table.logSyncedAt), table.syncInterval)
    checkpoint =
      newest <= table.checkpointVersion || isLost
      ? nil : (age(table.syncedAt), generation.checkpointInterval)
  }

  var isLogDue: Bool { log.map { $0.age >= $0.interval } ?? false }
  var isCheckpointDue: Bool { checkpoint.map { $0.age >= $0.interval } ?? false }

  /// Whether another process should have done it.
  var isOverdue: Bool {
    [log, checkpoint].contains { due in
      due.map { $0.age >= $0.interval &+ max($0.interval, 1000) } ?? false
    }
  }

  /// The milliseconds until one is due, if none is.
  var wait: UInt64 {
    min(
      log.map { $0.interval - min($0.age, $0.interval) } ?? .max,
      checkpoint.map { $0.interval - min($0.age, $0.interval) } ?? .max)
  }
}

extension Generation {
  /// The milliseconds between two checks for commits.
  fileprivate var checkInterval: UInt64 { waitsForDisk ? checkpointInterval : table.syncInterval }
  /// The milliseconds between two checkpoints, which limit the file and the log.
  fileprivate var checkpointInterval: UInt64 {
    waitsForDisk ? 30_000 : max(30_000, table.syncInterval)
  }
}

extension StoreCore {
  /// The longest time between two checks of this process, in nanoseconds.
  fileprivate var syncPause: UInt64 {
    guard let generation = try? generation() else { return StoreMeta.usualSyncInterval * 1_000_000 }
    return pause(generation.checkInterval, in: generation)
  }

  /// Returns the nanoseconds until the next check of a process that has nothing to do for a number of milliseconds.
  ///
  /// A process with a pin checks four times a second, independently of the interval: other processes sync early after
  /// many writes, and the file grows until all pins have advanced to their records.
  private func pause(_ wait: UInt64, in generation: Generation) -> UInt64 {
    let isPinned = generation.keeper?.holdsPin == true
    return min(wait, generation.checkInterval, isPinned ? 250 : .max) * 1_000_000
  }

  /// Syncs if commits of any process have waited for an interval.
  ///
  /// - Parameter now: The time of the monotonic clock in milliseconds; tests advance it.
  /// - Returns: The nanoseconds until the next check, or `nil` if no commit waits.
  @discardableResult
  package func syncIfDue(
    now: UInt64 = Clocks.monotonicNanoseconds() / 1_000_000
  ) -> UInt64? {
    guard
      !ForkGuard.isForkedChild, let generation = try? generation(), let keeper = generation.keeper,
      !generation.table.isFenced
    else { return nil }
    let table = generation.table
    do {
      if generation.hasUnrecordedChange.load(ordering: .acquiring) {
        try generation.whileOpen { _ in generation.recordChange() }
      }
      try keeper.advance(in: generation)
      let due = DueSyncs(newest: try keeper.newestVersion(in: generation), now: now, in: generation)
      guard due.checkpoint != nil || due.log != nil else {
        // A relaxed store keeps its pin: acquiring one can cost a write a checkpoint.
        if generation.waitsForDisk { keeper.releaseIfIdle(generation) }
        return nil
      }
      if table.hasFailedSync, !generation.searchForLostFiles() {
        try enqueueWriteBehind(
          WriteRequest(
            .exclusive { core in
              do { try core.copyGeneration(generation) } catch { core.report(error) }
            }))
        return max(generation.checkInterval, 10_000) * 1_000_000
      }
      let needsCheckpoint =
        due.isCheckpointDue || (due.checkpoint != nil && keeper.needsEarlySync(in: generation))
      guard needsCheckpoint || due.isLogDue else { return pause(due.wait, in: generation) }
      let isElected = try generation.presence.tryLock(.exclusive, at: PresenceLocks.syncer)
      defer {
        if isElected { _ = try? generation.presence.tryLock(.none, at: PresenceLocks.syncer) }
      }
      // Overdue by that much, the holder of the lock is stopped.
      guard isElected || due.isOverdue else {
        return min(generation.checkInterval, 20) * 1_000_000
      }
      let begun = Clocks.monotonicNanoseconds()
      if due.isLogDue { try synchronizeLog(of: generation) }
      if needsCheckpoint { try timingSync { try keeper.synchronize(generation) } }
      // The next one is due an interval after this one began; commits during this one wait for it.
      let length = (Clocks.monotonicNanoseconds() &- begun) / 1_000_000
      let interval = generation.checkInterval
      return pause(max(interval, length + 1) - length, in: generation)
    } catch EngineSignal.generationChanged {
      return nil
    } catch {
      if generation.hasLostFiles.load(ordering: .acquiring) {
        reportLoss(of: generation)
      } else {
        report(StoreError(wrapping: error, during: "sync", path: directory.path))
      }
      return max(generation.checkInterval, 1000) * 1_000_000
    }
  }

  /// Syncs the log up to the newest commit of any process.
  func synchronizeLog(of generation: Generation) throws {
    guard let log = generation.log, let keeper = generation.keeper else { return }
    let newest = try keeper.newestVersion(in: generation)
    let wait = try DurableWait(ofAny: newest, in: generation)
    try withExtendedLifetime(wait) {
      try timingSync { try log.waitUntilDurable(newest, in: generation) }
    }
  }

  private func timingSync(_ sync: () throws -> Void) throws {
    let start = monitors == nil ? 0 : Clocks.monotonicNanoseconds()
    try sync()
    monitors?.endSync(start)
  }

  /// Makes the record of a transaction invalid whose commit has failed.
  func withdraw(_ version: UInt64, _ generation: Generation, after error: any Error) throws {
    guard let log = generation.log else { return }
    do {
      try log.withdraw(version, in: generation)
    } catch let other {
      throw StoreError(
        .outcomeUnknown, during: "commit", path: directory.path,
        "The commit failed (\(error)), and its record in the log could not be removed (\(other)): if the "
          + "system goes down now, the changes may be there afterwards. Check the disk.")
    }
  }

  /// Waits until a commit that this process has seen is on the disk.
  func waitUntilDurable(_ version: UInt64) throws {
    if options.durability == .relaxed {
      if try generation().table.durableVersion < version { try synchronize() }
      return
    }
    _ = try withGeneration { generation in
      guard let log = generation.log, version > generation.versionBase else { return }
      let wait = try DurableWait(ofAny: version, in: generation)
      try withExtendedLifetime(wait) { try log.waitUntilDurable(version, in: generation) }
    }
  }

  /// Waits until all writes of this process are committed and, in a relaxed store, all commits are
  /// on the disk.
  package func synchronize() throws {
    try flush()
    guard options.durability == .relaxed else { return }
    do {
      let failed: Generation? = try withGeneration { generation in
        do { try synchronizeLog(of: generation) } catch let error as StoreError {
          guard generation.table.hasFailedSync else { throw error }
        }
        // Also if the log has nothing to sync: the disk may have refused to sync the names of the files.
        let hasFailed = generation.table.hasFailedSync
        if generation.table.isFenced { throw EngineSignal.generationChanged }
        // What is on the disk there is lost with files that were deleted.
        if generation.searchForLostFiles() {
          throw StoreError.filesRemoved(during: "sync", path: directory.path)
        }
        return hasFailed ? generation : nil
      }
      guard let failed else { return }
      // The stored data is copied, and is on the disk when the copy becomes the current generation.
      try runExclusively { core in _ = try core.copyGeneration(failed) }
    } catch {
      throw StoreError(wrapping: error, during: "sync", path: directory.path)
    }
  }

  /// Changes the interval for every process.
  func setSyncInterval(_ interval: Duration) throws {
    let milliseconds = UInt64(clamping: interval.milliseconds)
    guard StoreMeta.syncIntervals.contains(milliseconds), options.durability == .relaxed else {
      throw StoreError(
        .invalidOption, during: "open", path: directory.path,
        options.durability == .relaxed
          ? "The interval between syncs is \(interval); it is from a millisecond to a day."
          : "An interval between syncs is for .relaxed stores; this one is .\(options.durability).")
    }
    guard try generation().table.syncInterval != milliseconds else { return }
    try changeMeta { $0.syncInterval = milliseconds }
    try generation().table.syncInterval = milliseconds
  }
}
