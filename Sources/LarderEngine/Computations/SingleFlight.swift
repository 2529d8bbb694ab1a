// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The right of one process of the machine to compute a key.
package struct ComputationLease: Sendable {
  package let permit: FillToken
  let hash: UInt64
  let table: SharedTable

  /// Returns whether no process has written or removed the key since, or removed one of these tags,
  /// according to the shared-memory table.
  package func isUndisturbed(tags: [UInt64]) -> Bool {
    let areTagsCurrent = tags.allSatisfy {
      table.minimumValidReadVersion(slot: StampSlot(hash: $0)) <= permit.begun
    }
    return areTagsCurrent && isKeyUndisturbed
  }

  private var isKeyUndisturbed: Bool {
    if let lease = permit.lease { return !table.isFenced && table.isValid(lease) }
    return table.minimumValidReadVersion(slot: StampSlot(hash: hash)) <= permit.newestAllowed ?? 0
  }
}

extension StoreCore {
  /// Acquires the computation lease for `key` without waiting for another holder.
  ///
  /// - Returns: The lease, or `nil` if another process holds it or the generation changed.
  /// - Throws: ``StoreError`` if `leases` cannot be locked or the snapshot cannot be read.
  package func acquireComputationLease(_ key: EncodedKey, in space: NamespaceHandle) async throws
    -> ComputationLease?
  {
    let generation = try generation()
    let hash = space.hash(of: key, in: generation)
    do {
      guard try leases.tryLock(hash: hash) else { return nil }
    } catch {
      throw StoreError(wrapping: error, during: "compute", path: directory.path)
    }
    do throws(StoreError) {
      try fault(throwing: .leaseTaken, during: "compute", path: directory.path)
    } catch {
      leases.unlock(hash: hash)
      throw error
    }
    let lease = generation.table.takeLease(
      hash: hash, namespace: space.number(in: generation), process: generation.process, key: key)
    // A writer that published its commit version before the lease was registered may not have read
    // the lease. Once a snapshot contains its transaction, every later snapshot does.
    var newestAllowed: UInt64?
    var begun: UInt64 = 0
    var tries = 0
    do {
      try fault(throwing: .leaseRegistered, during: "compute", path: directory.path)
      // Later writers read the lease.
      let writer = generation.table.writerVersion
      while true {
        // If no process holds the ticket, the newest transaction has ended, perhaps without a
        // commit.
        let isOver = generation.table.ticketHolder == nil
        let snapshot = try generation.withSnapshot { $0.commitVersion }
        begun = snapshot
        if isOver || snapshot >= writer {
          if lease == nil { newestAllowed = snapshot }
          break
        }
        tries += 1
        if tries > 50 || tries > 10 && !isRunning(writerOf: generation) {
          // The writer was killed or is stopped, or lasts: use the stamp as the limit instead.
          newestAllowed = snapshot
          break
        }
        try await DeadlineTimer.shared.sleep(nanoseconds: 1_000_000)
      }
    } catch {
      if let lease { generation.table.dropLease(lease) }
      leases.unlock(hash: hash)
      if case EngineSignal.generationChanged = error {
        try switchGeneration(from: generation)
        return nil
      }
      throw error
    }
    return ComputationLease(
      permit: FillToken(
        generation: generation.incarnation, lease: lease, newestAllowed: newestAllowed,
        begun: begun),
      hash: hash, table: generation.table)
  }

  /// Whether the writer is known to be alive and not stopped. On a busy machine its transaction can last many times as
  /// long as it runs.
  private func isRunning(writerOf generation: Generation) -> Bool {
    generation.livingWriter != nil && ProcessIdentity.isStopped(writer(in: generation)) == false
  }

  /// Returns whether another process computes the key now. The answer may be stale on return.
  package func isLeaseHeldElsewhere(_ key: EncodedKey, in space: NamespaceHandle) throws -> Bool {
    let hash = space.hash(of: key, in: try generation())
    do {
      guard try leases.tryLock(hash: hash) else { return true }
    } catch {
      throw StoreError(wrapping: error, during: "compute", path: directory.path)
    }
    leases.unlock(hash: hash)
    return false
  }

  /// Returns the pid of the process that computes a key now, or `nil` if it is not known.
  package func computingProcess(_ key: EncodedKey, in space: NamespaceHandle) -> Int32? {
    guard let generation = try? generation() else { return nil }
    let holder = generation.table.leaseHolder(hash: space.hash(of: key, in: generation)) {
      $0 == generation.process || generation.isPresent(process: $0)
    }
    guard let holder, (0..<generation.table.shape.processSlots).contains(holder) else { return nil }
    return generation.table.pid(process: holder)
  }

  /// Releases the lease, whatever the outcome of the computation, and wakes the waiters.
  package func release(_ leadership: ComputationLease) {
    if let lease = leadership.permit.lease { leadership.table.dropLease(lease) }
    leases.unlock(hash: leadership.hash)
    leadership.table.advanceWakeWord()
  }

  /// Increments the counter of finished computations.
  package func countComputation() { try? generation().count(.computations) }

  /// Suspends until a commit, or for a few milliseconds. The caller then checks its condition
  /// again.
  ///
  /// A killed holder wakes no waiters; the time limit bounds the wait for it.
  package func waitForNextCommit() async {
    await withCheckedContinuation { continuation in
      sleepers.add(continuation, core: self)
    }
  }
}

extension StoreCore {
  /// Commits a computed value under single flight.
  ///
  /// - Parameter stalled: Called once when the caller is to have the value before it is stored; see
  ///   ``afterStall(_:)``.
  /// - Throws: ``StoreError``
  package func fill(
    _ content: EntryContent, _ leadership: ComputationLease, _ key: EncodedKey,
    in space: NamespaceHandle,
    stalled: @escaping @Sendable () -> Void
  ) async throws {
    let stall = afterStall(stalled)
    defer { stall.finish(()) }
    _ = try await submitAsync(.fill(content, leadership.permit), space: space, key: key)
  }
}

extension StoreCore {
  /// The number of tasks that wait for a commit of another process now. For tests.
  package var waitingForCommits: Int { sleepers.count }
}

/// The tasks of this process that wait for another process's commit; one thread sleeps for all of
/// them.
final class CommitWaiters: Sendable {
  private struct State {
    var waiting: [CheckedContinuation<Void, Never>] = []
    var isRunning = false
  }

  private let state = Mutex(State())
  static let sleepNanoseconds: Int64 = 5_000_000

  var count: Int { state.withLock { $0.waiting.count } }

  func add(_ continuation: CheckedContinuation<Void, Never>, core: StoreCore) {
    let mustStart = state.withLock { state in
      state.waiting.append(continuation)
      defer { state.isRunning = true }
      return !state.isRunning
    }
    guard mustStart else { return }
    do {
      try OSThread.start { [core, self] in run(core) }
    } catch {
      resumeAll()
      state.withLock { $0.isRunning = false }
    }
  }

  private func run(_ core: StoreCore) {
    while true {
      if let table = (try? core.generation())?.table {
        table.sleep(whileWakeWordIs: table.wakeWord, nanoseconds: CommitWaiters.sleepNanoseconds)
      }
      resumeAll()
      // Resumed tasks usually wait again within microseconds. The pause lets them find this thread.
      Event().wait(nanoseconds: 500_000)
      let isDone = state.withLock { state in
        if state.waiting.isEmpty { state.isRunning = false }
        return state.waiting.isEmpty
      }
      if isDone { return }
    }
  }

  private func resumeAll() {
    let waiting = state.withLock { state in
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }
}
