// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// Writes for callers that do not block a thread.
extension StoreCore {
  /// Commits a write request without blocking the calling thread.
  ///
  /// - Throws: ``StoreError``; ``StoreError/Code/writerStalled`` after `writeTimeout`.
  package func submitAsync(
    _ kind: WriteRequest.Kind, space: NamespaceHandle?, key: EncodedKey = WriteRequest.noKey
  ) async throws -> WriteRequest.Result {
    let result: WriteRequest.Result = await withCheckedContinuation { continuation in
      submit(kind, space: space, key: key) { continuation.resume(returning: $0) }
    }
    if case .failed(let error) = result { throw error }
    return result
  }

  /// Queues a write request for the store's thread.
  ///
  /// - Parameters:
  ///   - isPatient: Whether it may wait for 0.2 ms, so that it is committed together with others.
  ///   - completion: A closure that is called once, when the request is committed or has
  ///     failed. After `writeTimeout` the request has failed. It runs on the calling thread or on one
  ///     that must not block.
  package func submit(
    _ kind: WriteRequest.Kind, space: NamespaceHandle?, key: EncodedKey, isPatient: Bool = false,
    completion: @escaping @Sendable (WriteRequest.Result) -> Void
  ) {
    let outcome = TimedOutcome(completion)
    let record = WriteRequest(
      kind, space: space, key: key, deadline: Clocks.deadline(after: options.writeTimeout)
    ) { outcome.finish($0) }
    do throws(StoreError) { try enqueueWriteBehind(record, isPatient: isPatient) } catch {
      return outcome.finish(.failed(error))
    }
    watch(record, outcome, rounds: Self.patience)
  }

  private func watch(
    _ record: WriteRequest, _ outcome: TimedOutcome<WriteRequest.Result>, rounds: Int
  ) {
    if outcome.isFinished { return }
    outcome.setTimer(after: options.writeTimeout) { [self] in
      // What it has waited for may be over when it is withdrawn.
      let error = writerStalled()
      if queue.withdraw(record) {
        record.finish(.failed(error))
        outcome.finish(.failed(error))
      } else if rounds > 1 {
        // The request is in a transaction, which ends soon.
        watch(record, outcome, rounds: rounds - 1)
      } else {
        outcome.finish(.failed(outcomeUnknown()))
      }
    }
  }

  // MARK: A store without progress

  /// The longest time that `value(forKey:)` waits for the store: for this process's pending writes
  /// of the key before the computation, and for the commit of the computed value before it is
  /// returned.
  package static let computedValueWait: Duration = .milliseconds(250)
  /// The time another process spends inside one transaction before it is treated as stalled.
  private static let stallNap: Duration = .milliseconds(10)

  /// A transaction of another process.
  private struct Stand: Equatable {
    let holder: Int
    let commitVersion: UInt64
  }

  /// The transaction that another process is in, or about to begin.
  private var stand: Stand? {
    guard let generation = try? generation(), let holder = generation.table.ticketHolder,
      holder != generation.process
    else { return nil }
    return Stand(holder: holder, commitVersion: generation.table.writerVersion)
  }

  /// Calls `action` once: as soon as another process has been inside one transaction for 10 ms, and
  /// at the latest after ``computedValueWait``.
  ///
  /// - Returns: The pending wait; ``TimedOutcome/finish(_:)`` ends it.
  func afterStall(_ action: @escaping @Sendable () -> Void) -> TimedOutcome<Void> {
    let wait = TimedOutcome<Void> { _ in }
    let end = Clocks.deadline(after: StoreCore.computedValueWait)
    expectStall(wait, stand, until: end, action)
    return wait
  }

  private func expectStall(
    _ wait: TimedOutcome<Void>, _ before: Stand?, until end: UInt64,
    _ action: @escaping @Sendable () -> Void
  ) {
    wait.setTimer(after: StoreCore.stallNap) { [self] in
      let now = stand
      let isStalled = now != nil && now == before
      guard isStalled || Clocks.monotonicNanoseconds() >= end else {
        return expectStall(wait, now, until: end, action)
      }
      action()
    }
  }

  /// Suspends until the writes of this process to a key that wait are committed, at most
  /// ``computedValueWait``.
  package func settle(_ key: EncodedKey, in space: NamespaceHandle) async {
    guard pendingWrite(of: key, in: space) != nil else { return }
    await withCheckedContinuation { continuation in
      let outcome = TimedOutcome<Void> { _ in continuation.resume() }
      outcome.setTimer(after: StoreCore.computedValueWait) { outcome.finish(()) }
      submit(.barrier, space: nil, key: WriteRequest.noKey) { _ in outcome.finish(()) }
    }
  }
}

/// A result that is delivered once, with a timer that the delivery cancels.
package final class TimedOutcome<Value: Sendable>: Sendable {
  private struct State {
    var completion: (@Sendable (Value) -> Void)?
    var timer: UInt64?
  }

  private let state: Mutex<State>

  package init(_ completion: @escaping @Sendable (Value) -> Void) {
    state = Mutex(State(completion: completion))
  }

  var isFinished: Bool { state.withLock { $0.completion == nil } }

  /// Delivers the result unless one has been delivered, and cancels the timer.
  package func finish(_ value: Value) {
    let (completion, timer) = state.withLock { state in
      defer { state = State() }
      return (state.completion, state.timer)
    }
    if let timer { DeadlineTimer.shared.cancel(timer) }
    completion?(value)
  }

  /// Calls `action` after a time unless a result has been delivered by then. Replaces an earlier
  /// timer.
  package func setTimer(after duration: Duration, _ action: @escaping @Sendable () -> Void) {
    let timer = DeadlineTimer.shared.schedule(after: duration.nanoseconds, action)
    let isLate = state.withLock { state in
      if state.completion != nil { state.timer = timer }
      return state.completion == nil
    }
    if isLate { DeadlineTimer.shared.cancel(timer) }
  }
}
