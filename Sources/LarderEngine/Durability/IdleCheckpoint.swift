// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// AN IDLE STORE IS ON THE DISK
//
// A process that a signal ends, at an orderly reboot for example, closes nothing: `state` says dirty,
// and the next boot cannot tell the reboot from a crash of the system. So a store that has not been
// written for `idleSyncDelay` is brought to the disk by one of the processes that write to it:
//
//   I1  data.mdb is synced, without any lock; V is the newest transaction before that
//   I2  in a write transaction: V is still the newest one. The table, then `state`, say clean
//
// The first commit afterwards finds the table clean and makes `state` dirty, on the disk, before it
// writes anything, as the first commit of a boot does. A process killed between the two steps of I2
// leaves a clean table and a dirty `state`: the next writer makes `state` dirty once more.
//
// A relaxed store needs no I2: the record of its newest snapshot is what crash recovery goes back to.

/// What a process knows of how long a store has been idle.
final class IdleWatch: Sendable {
  private let seen = Mutex<(label: UInt64, since: UInt64)>((0, 0))

  /// Whether a store has had the same newest commit for so long. In milliseconds.
  func isIdle(_ label: UInt64, at now: UInt64, for delay: UInt64) -> Bool {
    seen.withLock { seen in
      if seen.label != label { seen = (label, now) }
      return now &- seen.since >= delay && now >= seen.since
    }
  }
}

extension StoreCore {
  /// Brings an idle `.cache` or `.relaxed` store to the disk. Called about once a second.
  ///
  /// - Parameter now: Milliseconds of the monotonic clock, which tests advance.
  /// - Returns: Whether the store was idle and not on the disk.
  @discardableResult
  package func checkpointIfIdle(
    now: UInt64 = Clocks.monotonicNanoseconds() / 1_000_000
  ) -> Bool {
    guard options.durability != .durable, let delay = options.idleSyncDelay,
      !ForkGuard.isForkedChild, let generation = try? generation()
    else { return false }
    let table = generation.table
    guard
      idleWatch.isIdle(table.lastStamped, at: now, for: UInt64(clamping: delay.milliseconds)),
      !table.isFenced, !table.hasFailedSync
    else { return false }
    do {
      if let keeper = generation.keeper {
        guard try keeper.hasUnsynced(in: generation) else { return false }
      } else if !table.isDirty {
        return false
      }
      // One process does it for all; the lock is the kernel's, and free when its holder ends.
      guard try generation.presence.tryLock(.exclusive, at: PresenceLocks.syncer) else {
        return false
      }
      defer { _ = try? generation.presence.tryLock(.none, at: PresenceLocks.syncer) }
      if let keeper = generation.keeper {
        try keeper.synchronize(generation)
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

  /// I1, and I2 on the thread that has the writer's role.
  private func synchronizeCache(_ generation: Generation) throws {
    let synced: UInt64
    do {
      synced = try generation.whileOpen { environment in
        let newest = environment.information.lastTransaction
        try environment.synchronize()
        return newest
      }
    } catch let error as LMDBError {
      // A later sync that succeeds says nothing about pages that this one could not write.
      generation.table.noteFailedSync()
      throw error
    }
    try enqueueWriteBehind(
      WriteRequest(
        .exclusive { core in
          do {
            _ = try core.transact(in: generation) { transaction in
              guard transaction.label == generation.base &+ synced &+ 1 else { return }
              try generation.markClean()
            }
          } catch EngineSignal.generationChanged {
            // Left: its successor has a state of its own.
          } catch {
            core.report(error)
          }
        }))
  }
}

extension Generation {
  /// Records that all commits are on the disk. Under the writer lock, after the sync.
  func markClean() throws {
    let changed = dataStatus?.changed ?? 0
    table.dataChanged = changed
    // First here, then in the file: whoever dies in between costs the next writer a needless
    // "dirty". The other way round it would commit to a file that says it is clean.
    table.isDirty = false
    let state = StoreState(
      isDirty: false, bootID: ProcessIdentity.bootID, storeID: meta.storeID, dataChanged: changed,
      durability: meta.durability)
    try state.write(to: path + "/state")
  }
}
