// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// ASYNC WAITS
//
// A task that waits for a lock blocks no thread. One thread of the library waits for all tasks of this
// process: it sleeps on the wake-up word of the process's owner slot, which the process that grants a
// request advances. Every 10 ms it also checks the holders that its tasks wait for. The thread ends a
// second after the last wait. Deadlines are those of `DeadlineTimer`; cancelling ends a wait at once.

/// The async waits of this process in one lock file.
final class LockWaits: Sendable {
  private struct Wait: Sendable {
    let call: LockCall
    let pending: PendingLock
    let outcome: TimedOutcome<Result<LockGrant?, any Error>>
  }

  private struct State {
    var waits: [UInt64: Wait] = [:]
    var last: UInt64 = 0
    var isRunning = false
  }

  private let state = Mutex(State())
  private let hasWaits = Event()
  private static let idleNanoseconds: UInt64 = 1_000_000_000

  /// Suspends until a request is granted.
  ///
  /// - Returns: `nil` if the request was lost with damaged words, and has to begin again.
  func wait(
    for pending: PendingLock, _ call: LockCall, in file: LockFile
  ) async throws -> LockGrant? {
    let id = state.withLock { state in
      state.last += 1
      return state.last
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let outcome = TimedOutcome<Result<LockGrant?, any Error>> { continuation.resume(with: $0) }
        add(id, Wait(call: call, pending: pending, outcome: outcome), in: file)
        let now = Clocks.monotonicNanoseconds()
        outcome.setTimer(
          after: .nanoseconds(Int64(clamping: call.deadline - min(now, call.deadline)))
        ) { [weak self] in self?.expire(id, in: file) }
        // The cancellation handler may have run before the wait was added.
        if Task.isCancelled { end(id, in: file, CancellationError()) }
      }
    } onCancel: {
      end(id, in: file, CancellationError())
    }
  }

  private func add(_ id: UInt64, _ wait: Wait, in file: LockFile) {
    let mustStart = state.withLock { state in
      state.waits[id] = wait
      defer { state.isRunning = true }
      return !state.isRunning
    }
    if mustStart {
      do throws(SystemError) {
        try OSThread.start { [self] in run(file) }
      } catch {
        state.withLock { $0.isRunning = false }
        end(id, in: file, StoreError(error, during: "lock", path: file.path))
      }
    }
    hasWaits.set()
    // The request may have been granted before it was added.
    file.wakeThread(of: file.owner)
  }

  private func remove(_ id: UInt64) -> Wait? {
    state.withLock { $0.waits.removeValue(forKey: id) }
  }

  private func end(_ id: UInt64, in file: LockFile, _ error: any Error) {
    guard let wait = remove(id) else { return }
    if let grant = file.concede(wait.pending, wait.call) {
      return wait.outcome.finish(.success(grant))
    }
    wait.outcome.finish(.failure(error))
  }

  private func expire(_ id: UInt64, in file: LockFile) {
    guard let wait = remove(id) else { return }
    let error = file.timedOut(wait.call, slot: wait.pending.slot, isListed: true)
    if let grant = file.withdrawOrConfirm(wait.pending) {
      return wait.outcome.finish(.success(grant))
    }
    wait.outcome.finish(.failure(error))
  }

  private func run(_ file: LockFile) {
    var checked: UInt64 = 0
    while true {
      let word = file.words.load32(file.wakeWord)
      let waits = state.withLock { $0.waits }
      guard !waits.isEmpty else {
        hasWaits.reset()
        if state.withLock({ $0.waits.isEmpty }), !hasWaits.wait(nanoseconds: Self.idleNanoseconds) {
          let isOver = state.withLock { state in
            if state.waits.isEmpty { state.isRunning = false }
            return state.waits.isEmpty
          }
          if isOver { return }
        }
        continue
      }
      for (id, wait) in waits { advance(id, wait, in: file) }
      let now = Clocks.monotonicNanoseconds()
      let isDue = now &- checked >= LockFile.checkNanoseconds
      if isDue { checked = now }
      var pause = LockFile.checkNanoseconds
      for slot in Set(waits.values.map(\.pending.slot)) {
        if isDue || file.kind(of: slot)?.isPaced == true { file.poll(slot) }
        pause = min(pause, file.pause(slot: slot))
      }
      file.words.sleep(at: file.wakeWord, while: word, nanoseconds: pause)
    }
  }

  /// Ends a wait whose request was granted or lost, or whose store was closed.
  private func advance(_ id: UInt64, _ wait: Wait, in file: LockFile) {
    switch file.progress(of: wait.pending) {
    case .granted:
      // Another process may have passed the request over; then it waits again.
      // The confirmation and the end of the wait are one step for a deadline and a cancellation.
      let grant = state.withLock { state -> LockGrant? in
        guard state.waits[id] != nil, let grant = file.confirm(wait.pending) else { return nil }
        state.waits[id] = nil
        return grant
      }
      if let grant { wait.outcome.finish(.success(grant)) }
    case nil:
      guard remove(id) != nil else { return }
      wait.outcome.finish(.success(nil))
    default:
      if wait.call.store.hasClosed { end(id, in: file, StoreError.closed("lock")) }
    }
  }
}
