// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// WHO SYNCS A RELAXED STORE, AND WHEN
//
// Each process that has the store open has a thread for it. It looks at least once an interval whether
// there are commits, anybody's, that are newer than the record; if so, the sync is due an interval
// after the last one began. A commit after time B, when that sync began, is so on the disk by B +
// interval, plus the length of a sync, whoever of those who have the store open is still alive then.
//
// One process syncs for all: the one that gets the lock of `PresenceLocks.syncer`, which dies with its
// holder. The others look again soon, and do it themselves when it is overdue by another interval, or a
// second: the holder is stopped.
//
// Much written within an interval is synced before it is over: until then none of the pages that the
// recorded snapshot reaches are used again, and the file grows by what is written.

/// The thread of a process that brings a relaxed store to the disk.
final class Checkpointer: Sendable {
  private let thread = BackgroundThread()

  func start(_ core: StoreCore) throws(SystemError) {
    try thread.start { [core, thread] in
      if thread.isStopped { return 0 }
      if let wait = core.syncIfDue() { return wait }
      thread.rest()
      // A commit that came before that has woken nobody.
      return core.syncIfDue() ?? core.syncPause
    }
  }

  /// After a commit.
  func noteCommit(isUrgent: Bool) {
    if isUrgent { thread.wakeAnyway() } else { thread.wake() }
  }

  func stop() { thread.stop() }
}

extension StoreCore {
  /// How long this process may go without a look, in nanoseconds.
  fileprivate var syncPause: UInt64 {
    guard let generation = try? generation() else { return StoreMeta.usualSyncInterval * 1_000_000 }
    return pause(generation.table.syncInterval * 1_000_000, in: generation)
  }

  /// Returns the nanoseconds until the next look of a process that has nothing to do for `wait`.
  ///
  /// A process that has a pin looks every second, whatever the interval: other processes sync early when
  /// much is written, and the file grows until all pins have followed their records.
  private func pause(_ wait: UInt64, in generation: Generation) -> UInt64 {
    generation.keeper?.holdsPin == true ? min(wait, 1_000_000_000) : wait
  }

  /// Syncs if there are commits that have waited for an interval, whoever's they are.
  ///
  /// - Parameter now: Milliseconds of the monotonic clock, which tests advance.
  /// - Returns: The nanoseconds after which to look again; `nil`: nothing waits.
  @discardableResult
  package func syncIfDue(
    now: UInt64 = Clocks.monotonicNanoseconds() / 1_000_000
  ) -> UInt64? {
    guard
      !ForkGuard.isForkedChild, let generation = try? generation(), let keeper = generation.keeper,
      !generation.table.isFenced
    else { return nil }
    let table = generation.table
    let interval = table.syncInterval
    do {
      try keeper.advance(in: generation)
      guard try keeper.hasUnsynced(in: generation) else { return nil }
      if table.hasFailedSync {
        try enqueueWriteBehind(
          WriteRequest(
            .exclusive { core in
              do { try core.copyGeneration(generation) } catch { core.report(error) }
            }))
        return max(interval, 10_000) * 1_000_000
      }
      // Later than now: of a clock that is another's. Better too early.
      let age = now &- table.syncedAt
      let isDue = now < table.syncedAt || age >= interval
      guard isDue || keeper.isUrgent.load(ordering: .acquiring) else {
        return pause((interval - age) * 1_000_000, in: generation)
      }
      let isElected = try generation.presence.tryLock(.exclusive, at: PresenceLocks.syncer)
      defer {
        if isElected { _ = try? generation.presence.tryLock(.none, at: PresenceLocks.syncer) }
      }
      // Overdue by so much: whoever has the lock is stopped.
      guard isElected || age >= interval &+ max(interval, 1000) else {
        return min(interval, 20) * 1_000_000
      }
      let begun = Clocks.monotonicNanoseconds()
      try synchronize(generation, keeper)
      // The next one is due an interval after this one began; what was committed meanwhile waits.
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

  /// Waits until everything this process has set is committed, and everything committed to a
  /// relaxed store is on the disk.
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
      // What is stored is written anew, and is on the disk when the copy is in force.
      try runExclusively { core in _ = try core.copyGeneration(failed) }
    } catch {
      throw StoreError(wrapping: error, during: "sync", path: directory.path)
    }
  }

  private func synchronize(_ generation: Generation, _ keeper: CheckpointCoordinator) throws {
    let timing = start(.sync)
    defer { timing?.end() }
    try keeper.synchronize(generation)
  }

  /// Changes the interval for everybody.
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
