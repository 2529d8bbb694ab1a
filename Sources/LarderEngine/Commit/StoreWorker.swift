// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// The one thread of a store in a process, started when it is first needed.
///
/// It leads for writes behind and asynchronous callers, so that none of Swift's threads ever
/// blocks, and looks after the store: dead readers, files removed behind our back, slots a killed
/// writer left behind.
final class StoreWorker: Sendable {
  private let thread = BackgroundThread()

  static let tickNanoseconds: UInt64 = 1_000_000_000
  static let readerCheckMilliseconds: Int64 = 5000

  var hasStarted: Bool { thread.hasStarted }
  var isCurrentThread: Bool { thread.isCurrent }

  /// Makes the thread look at the queue, starting it if need be.
  func wake(_ core: StoreCore) {
    start(core)
    thread.wake()
  }

  /// Starts the thread, for its ticks.
  func start(_ core: StoreCore) {
    if thread.hasStarted { return }
    do {
      // Strong on purpose: `stop()` ends the thread before the core goes, and a weak reference
      // would make every retain of the core take the slow path.
      try thread.start(after: Self.tickNanoseconds) { [core, thread] in
        thread.rest()
        core.leadIfNeeded()
        core.checkGrowth()
        core.tick()
        return Self.tickNanoseconds
      }
    } catch {
      core.report(StoreError(error, during: "start the store's thread"))
    }
  }

  func stop() { thread.stop() }
}

extension StoreCore {
  /// Starts what keeps memory tiers honest when nobody writes. Called by the first tier.
  package func watchFiles() {
    if !ForkGuard.isForkedChild { worker.start(self) }
  }

  /// About once a second.
  func tick() {
    guard !ForkGuard.isForkedChild, let generation = try? generation() else { return }
    let now = Clocks.monotonicNanoseconds() / 1_000_000
    guard now &- lastTick.load(ordering: .relaxed) >= 900 else { return }
    lastTick.store(now, ordering: .relaxed)
    if generation.isOrphaned || generation.table.isFenced {
      if generation.hasSuccessorInForce {
        // A compaction is about to say so, or its process died before it could.
        generation.table.supersede()
      }
      // Messages reach nobody through a deleted table: everything this process holds is void.
      if options.durability == .cache || generation.table.isFenced {
        do { try move(from: generation) } catch { report(error) }
      } else {
        generation.table.raiseFloor(to: UInt64.max - 1)
        report(
          StoreError(
            .damaged, during: "use", path: directory.path,
            "The store's files were removed or replaced while it was open. Close and reopen it."))
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
    sweepDroppedObjects()
    checkpointIfIdle()
    if needsNoOpCommit.exchange(false, ordering: .acquiringAndReleasing), !Mutant.noBump.isActive {
      do { try enqueueWriteBehind(WriteRequest(.bump)) } catch { report(error) }
    }
  }

  /// Called by a reader whose fresh snapshot is still older than the stamps: a writer died after
  /// stamping. After a second of that, an empty transaction sets it right.
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
