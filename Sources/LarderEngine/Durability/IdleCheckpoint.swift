// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// THE CHECKPOINT OF AN IDLE STORE
//
// A process that a signal ends, for example at an orderly reboot, closes nothing: `state` remains
// dirty, and the next boot cannot distinguish the reboot from a system crash. So after
// `idleSyncDelay` without a write, one of the processes that write to the store syncs it:
//
//   I1  data.mdb is synced without a lock; V is the newest transaction before the sync
//   I2  in a write transaction, if V is still the newest one: the table, then `state`, become clean
//
// The first commit afterwards finds the table clean, and makes `state` dirty and syncs it before it
// writes anything, as the first commit of a boot does. If a process is killed between the two parts
// of I2, the table is clean and `state` is dirty: the next writer makes `state` dirty once more.
//
// A relaxed store needs only its log synced: crash recovery makes the changes again.

/// The idle time of a store, as one process observes it.
final class IdleWatch: Sendable {
  private let seen = Mutex<(commitVersion: UInt64, since: UInt64)>((0, 0))

  /// Returns whether the newest commit of a store has been the same for a number of milliseconds.
  func isIdle(_ commitVersion: UInt64, at now: UInt64, for delay: UInt64) -> Bool {
    seen.withLock { seen in
      if seen.commitVersion != commitVersion { seen = (commitVersion, now) }
      return now &- seen.since >= delay && now >= seen.since
    }
  }
}

extension StoreCore {
  /// Syncs an idle `.cache` or `.relaxed` store. Called about once a second.
  ///
  /// - Parameter now: The time of the monotonic clock in milliseconds; tests advance it.
  /// - Returns: Whether the store was idle and not synced.
  @discardableResult
  package func checkpointIfIdle(
    now: UInt64 = Clocks.monotonicNanoseconds() / 1_000_000
  ) -> Bool {
    guard !options.durability.syncsEachCommit, let delay = options.idleSyncDelay,
      !ForkGuard.isForkedChild, let generation = try? generation()
    else { return false }
    let table = generation.table
    guard
      idleWatch.isIdle(table.lastStamped, at: now, for: UInt64(clamping: delay.milliseconds)),
      !table.isFenced, !table.hasFailedSync
    else { return false }
    do {
      if let keeper = generation.keeper {
        guard try keeper.newestVersion(in: generation) > table.durableVersion else { return false }
      } else if !table.isDirty {
        return false
      }
      // One process syncs for all; the kernel releases the lock when the process exits.
      guard try generation.presence.tryLock(.exclusive, at: PresenceLocks.syncer) else {
        return false
      }
      defer { _ = try? generation.presence.tryLock(.none, at: PresenceLocks.syncer) }
      if generation.log != nil {
        try synchronizeLog(of: generation)
      } else {
        try synchronizeCache(generation)
      }
    } catch EngineSignal.generationChanged {
      return false
    } catch {
      report(StoreError(wrapping: error, during: "sync", path: directory.path))
    }
    return true
  }

  /// Runs I1, and I2 on the thread of the commit leader.
  private func synchronizeCache(_ generation: Generation) throws {
    let synced: UInt64
    do {
      synced = try generation.whileOpen { environment in
        let newest = environment.information.lastTransaction
        try environment.synchronize()
        return newest
      }
    } catch let error as LMDBError {
      // A later sync can succeed although pages that this one could not write are lost.
      generation.table.noteFailedSync()
      throw error
    }
    try enqueueWriteBehind(
      WriteRequest(
        .exclusive { core in
          do {
            _ = try core.transact(in: generation) { transaction in
              guard transaction.commitVersion == generation.versionBase &+ synced &+ 1 else {
                return
              }
              try generation.markClean(newest: synced)
            }
          } catch EngineSignal.generationChanged {
            // The generation was left: its successor has a separate state.
          } catch {
            // Behind a stopped writer nothing is lost: a later round syncs.
            let failure = StoreError(wrapping: error, during: "sync", path: core.directory.path)
            if failure.code != .writerStalled { core.report(failure) }
          }
        }))
  }
}

extension Generation {
  /// Records that all commits are on the disk. Called under the writer lock, after the sync.
  ///
  /// - Parameter newest: The id of the newest transaction.
  func markClean(newest: UInt64) throws {
    // Files that were deleted or replaced get no `state`; their successor has its own.
    if isOrphaned { return }
    let changed = dataStatus?.changed ?? 0
    table.dataChanged = changed
    // First the table, then the file: a process killed in between costs the next writer a redundant
    // write of "dirty". In the opposite order that writer would commit while the file is clean.
    table.isDirty = false
    let state = StoreState(
      isDirty: false, storeID: meta.storeID, clean: (changed, newest), durability: meta.durability,
      pageCache: pageCache)
    table.stateChanged = try state.write(to: path + "/state")
  }

  /// Records that commits may not be on the disk. Called under the writer lock, before the commit.
  func markDirty() throws {
    let state = StoreState(
      isDirty: true, storeID: meta.storeID, durability: meta.durability, pageCache: pageCache)
    let changed = try waitingForDisk { try state.write(to: path + "/state") }
    try fault(throwing: .stateDirty)
    // In this order: as long as the table is clean, nothing has been committed.
    table.stateChanged = changed
    table.isDirty = true
  }

  /// The page cache that this process writes to. Same precondition as ``dataStatus``.
  private var pageCache: PageCacheIdentity {
    PageCacheIdentity(ofDescriptor: environment.dataDescriptor)
  }
}

extension Generation {
  /// Records in the table that this process changed the file. Same precondition as ``dataStatus``.
  func recordChange() {
    hasUnrecordedChange.store(false, ordering: .releasing)
    guard let status = dataStatus else { return }
    table.raiseDataChanged(to: status.changed)
  }

  /// Records a commit of this process; in a store that survives system crashes at most ten times a second, for the
  /// cost that `FileSystem.extent(ofDescriptor:)` describes. The thread of the checkpoints records the last one.
  func recordCommit() {
    if keeper != nil {
      let now = Int64(Clocks.monotonicNanoseconds() / 1_000_000)
      let age = now &- lastLook.load(ordering: .relaxed)
      guard age < 0 || age >= 100 else {
        return hasUnrecordedChange.store(true, ordering: .releasing)
      }
      lastLook.store(now, ordering: .relaxed)
    }
    recordChange()
  }
}
