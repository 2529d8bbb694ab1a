// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// The thread of a store in a process, started when it is first needed.
///
/// It leads for write-behind requests and asynchronous callers, so that none of Swift's threads
/// ever blocks. It also maintains the store: it clears stale readers, detects orphaned files,
/// catches up with the stamps of killed writers, and removes expired entries.
final class StoreWorker: Sendable {
  private let thread = BackgroundThread()

  /// Whether patient work came since the last turn.
  private let hasPatientWork = Atomic<Bool>(false)

  static let tickNanoseconds: UInt64 = 1_000_000_000
  /// The time for which patient work is collected after the first piece of it.
  static let lingerNanoseconds: UInt64 = 200_000
  static let readerCheckMilliseconds: Int64 = 5000

  var hasStarted: Bool { thread.hasStarted }
  var isCurrentThread: Bool { thread.isCurrent }

  /// Wakes the thread for the queue, and starts it if necessary.
  ///
  /// - Parameter isPatient: Whether the work may wait while the thread lingers, so that it is committed together
  ///   with other work, and most of it wakes no thread.
  func wake(_ core: StoreCore, isPatient: Bool = false) {
    start(core)
    if isPatient { hasPatientWork.store(true, ordering: .sequentiallyConsistent) }
    thread.wake(isPatient: isPatient)
  }

  /// Starts the thread for its ticks.
  func start(_ core: StoreCore) {
    if thread.hasStarted { return }
    do {
      // Strong on purpose: `stop()` ends the thread before the core is released, and a weak
      // reference would make every retain of the core take the slow path.
      try thread.start(after: Self.tickNanoseconds) { [self, core, thread] in
        let lingers = hasPatientWork.exchange(false, ordering: .sequentiallyConsistent)
        thread.rest(isShort: lingers)
        core.leadIfNeeded()
        core.checkGrowth()
        core.tick()
        return lingers ? Self.lingerNanoseconds : Self.tickNanoseconds
      }
    } catch {
      core.report(StoreError(error, during: "start the store's thread"))
    }
  }

  func stop() { thread.stop() }
}

extension StoreCore {
  /// Starts the file checks that keep memory tiers valid while no process writes. The first tier
  /// calls this.
  package func watchFiles() {
    if !ForkGuard.isForkedChild { worker.start(self) }
  }

  /// Performs the periodic checks, about once a second.
  func tick() {
    guard !ForkGuard.isForkedChild, let generation = try? generation() else { return }
    // A store that closes creates no new files in place of deleted ones.
    if isShuttingDown.load(ordering: .acquiring) { return }
    let now = Clocks.monotonicNanoseconds() / 1_000_000
    guard now &- lastTick.load(ordering: .relaxed) >= 900 else { return }
    lastTick.store(now, ordering: .relaxed)
    defer { watcher.repeatWakeUp(self) }
    if generation.isOrphaned || generation.table.isFenced {
      if generation.hasSuccessorInForce {
        // A compaction is about to set this mark, or its process died before it could.
        generation.table.supersede()
      }
      // A deleted table carries no stamps between processes: every cached value of this process is
      // invalid.
      if options.durability == .cache || generation.table.isFenced {
        do { try switchGeneration(from: generation) } catch { report(error) }
      } else {
        generation.table.raiseFloor(to: UInt64.max - 1)
        reportLoss(of: generation)
      }
      return
    }
    if generation.table.claimReaderCheck(
      now: Clocks.wallMilliseconds(), interval: StoreWorker.readerCheckMilliseconds)
    {
      _ = try? generation.whileOpen { try $0.clearDeadReaders() }
    }
    if options.clock.isSystem {
      generation.table.raiseClock(milliseconds: Clocks.wallMilliseconds())
    }
    renewRemovalInterest(in: generation.table)
    generation.table.endStaleSampling(milliseconds: now)
    if options.readsOnly { return }
    maintenance.withLock { $0 }?(self)
    checkpointIfIdle()
    if options.sweepsWhenIdle { sweepExpired(in: generation) }
    // A writer that is stopped after its stamps would also stop this commit, and the closing of the store
    // would wait for it.
    if generation.livingWriter ?? generation.process == generation.process,
      needsNoOpCommit.exchange(false, ordering: .acquiringAndReleasing), !Mutant.noBump.isActive
    {
      do { try enqueueWriteBehind(WriteRequest(.commitNoOp)) } catch { report(error) }
    }
  }

  /// Adds work of the object layer to the store's thread, which runs it about once a second.
  package func maintain(_ body: @escaping @Sendable (StoreCore) -> Void) {
    if ForkGuard.isForkedChild { return }
    maintenance.withLock { $0 = body }
  }

  /// Records that a new snapshot is still older than the stamps, because a writer died after
  /// stamping. If that lasts for a second, requests a no-op commit.
  func noteUncommittedStamp() {
    let now = Clocks.monotonicNanoseconds() / 1_000_000
    let since = stuckSince.load(ordering: .relaxed)
    if since == 0 || now &- since > 10_000 {
      stuckSince.store(now, ordering: .relaxed)
      worker.start(self)
    } else if now &- since >= 1000 {
      stuckSince.store(0, ordering: .relaxed)
      needsNoOpCommit.store(true, ordering: .releasing)
      worker.wake(self)
    }
  }
}
