// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// THE PERIODIC SYNC OF A RELAXED STORE
//
// Each process that has the store open runs a thread for it. At least once an interval the thread
// checks whether any process has committed after the record. If so, the sync is due one interval
// after the last one began. So a commit after time B, when that sync began, is on the disk by B +
// interval plus the duration of a sync, provided that one process that has the store open is alive.
//
// One process syncs for all: the one that acquires the lock of `PresenceLocks.syncer`, which the
// kernel releases when it exits. The others check again soon. If the sync is overdue by another
// interval, or a second, the holder is stopped, and they sync themselves.
//
// A large volume of writes is synced before the interval ends: until then no page of the recorded
// snapshot is reused, and the file grows by the volume written.

/// The thread of a process that syncs a relaxed store.
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

extension Generation {
  /// The milliseconds between two checkpoints. A durable store needs them to limit its log only.
  fileprivate var checkpointInterval: UInt64 { log == nil ? table.syncInterval : 30_000 }
}

extension StoreCore {
  /// The longest time between two checks of this process, in nanoseconds.
  fileprivate var syncPause: UInt64 {
    guard let generation = try? generation() else { return StoreMeta.usualSyncInterval * 1_000_000 }
    return pause(generation.checkpointInterval * 1_000_000, in: generation)
  }

  /// Returns the nanoseconds until the next check of a process that has nothing to do for `wait`.
  ///
  /// A process with a pin checks every second, four times in a store with a log, independently of the interval:
  /// other processes sync early after many writes, and the file grows until all pins have advanced to their records.
  private func pause(_ wait: UInt64, in generation: Generation) -> UInt64 {
    guard generation.keeper?.holdsPin == true else { return wait }
    return min(wait, generation.log == nil ? 1_000_000_000 : 250_000_000)
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
    let interval = generation.checkpointInterval
    do {
      if generation.hasUnrecordedChange.load(ordering: .acquiring) {
        try generation.whileOpen { _ in generation.recordChange() }
      }
      try keeper.advance(in: generation)
      guard try keeper.hasUnsynced(in: generation) else {
        if generation.log != nil { keeper.releaseIfIdle(generation) }
        return nil
      }
      if table.hasFailedSync {
        try enqueueWriteBehind(
          WriteRequest(
            .exclusive { core in
              do { try core.copyGeneration(generation) } catch { core.report(error) }
            }))
        return max(interval, 10_000) * 1_000_000
      }
      // A time in the future comes from another clock. An early sync is harmless.
      let age = now &- table.syncedAt
      let isDue = now < table.syncedAt || age >= interval
      guard isDue || keeper.needsEarlySync(in: generation) else {
        return pause((interval - age) * 1_000_000, in: generation)
      }
      let isElected = try generation.presence.tryLock(.exclusive, at: PresenceLocks.syncer)
      defer {
        if isElected { _ = try? generation.presence.tryLock(.none, at: PresenceLocks.syncer) }
      }
      // Overdue by that much, the holder of the lock is stopped.
      guard isElected || age >= interval &+ max(interval, 1000) else {
        return min(interval, 20) * 1_000_000
      }
      let begun = Clocks.monotonicNanoseconds()
      try synchronize(generation, keeper)
      // The next one is due an interval after this one began; commits during this one wait for it.
      let length = Clocks.monotonicNanoseconds() &- begun
      return pause(
        max(interval * 1_000_000, length &+ 1_000_000) &- length, in: generation)
    } catch EngineSignal.generationChanged {
      return nil
    } catch {
      report(StoreError(wrapping: error, during: "sync", path: directory.path))
      return max(interval, 1000) * 1_000_000
    }
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
      if try generation().table.checkpointVersion < version { try synchronize() }
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
        do {
          if let keeper = generation.keeper { try synchronize(generation, keeper) }
        } catch let error as StoreError {
          guard generation.table.hasFailedSync else { throw error }
          return generation
        }
        return nil
      }
      guard let failed else { return }
      // The stored data is copied, and is on the disk when the copy becomes the current generation.
      try runExclusively { core in _ = try core.copyGeneration(failed) }
    } catch {
      throw StoreError(wrapping: error, during: "sync", path: directory.path)
    }
  }

  private func synchronize(_ generation: Generation, _ keeper: CheckpointCoordinator) throws {
    let start = monitors == nil ? 0 : Clocks.monotonicNanoseconds()
    try keeper.synchronize(generation)
    monitors?.endSync(start)
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
