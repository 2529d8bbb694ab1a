// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The time limit of a computation.
package struct ComputeLimit: Sendable {
  let duration: Duration
  /// A closure that returns the key and its namespace, for error messages.
  let text: @Sendable () -> String

  package init(duration: Duration, text: @escaping @Sendable () -> String) {
    self.duration = duration
    self.text = text
  }
}

/// A computation of a key in this process, and the callers that wait for it.
package final class Flight<Value: Sendable>: Sendable, CalledFlight {
  private struct Waiter {
    let outcome: TimedOutcome<Result<Value, any Error>>
    /// The caller whose closure the flight runs.
    let isFirst: Bool
  }

  private struct State {
    var result: Result<Value, any Error>?
    /// A closure that returns whether the result, or the one that is being computed, is valid for
    /// callers that come now.
    var isValid: (@Sendable () -> Bool)?
    var waiters: [UInt64: Waiter] = [:]
    var last: UInt64 = 0
    /// The number of callers that hold the flight.
    var callers = 1
    /// Whether the first caller's closure runs.
    var isComputing = false
    /// Whether the closure was cancelled: callers that come now begin another flight.
    var isCancelled = false
    var task: Task<Void, Never>?
    /// Whether another process computes the key.
    var isElsewhere = false
    /// The process that computes the key, if it is known.
    var holder: Int32?
  }

  let node = FlightNode()
  private let state = Mutex(State())
  /// Called when another process computes the key.
  private let onWait: (@Sendable () -> Void)?
  /// Whether the result may be none.
  let mayBeNil: Bool

  init(onWait: (@Sendable () -> Void)? = nil, mayBeNil: Bool = false) {
    self.onWait = onWait
    self.mayBeNil = mayBeNil
  }

  // MARK: For the flight's task

  /// Runs the first caller's closure. When the last caller has left, or after the time limit, the task
  /// of the flight is cancelled.
  ///
  /// - Parameters:
  ///   - isValid: Returns whether the result is valid for callers that come now: `false` once the key
  ///     was written or removed.
  ///   - limit: The time limit, after which the callers get an error.
  package func compute<R>(
    while isValid: @escaping @Sendable () -> Bool, limit: ComputeLimit?,
    _ body: () async throws -> R
  ) async throws -> R {
    let isUnwanted = state.withLock { state in
      state.isValid = isValid
      state.isComputing = true
      state.isElsewhere = false
      state.holder = ProcessIdentity.pid
      if state.callers == 0 { state.isCancelled = true }
      return state.callers == 0
    }
    if isUnwanted { throw CancellationError() }
    let timer = limit.map { limit in
      DeadlineTimer.shared.schedule(after: limit.duration.nanoseconds) { [self] in stop(limit) }
    }
    defer { if let timer { DeadlineTimer.shared.cancel(timer) } }
    let result: Result<R, any Error>
    do { result = .success(try await body()) } catch { result = .failure(error) }
    let isCancelled = state.withLock { state in
      state.isComputing = false
      return state.isCancelled
    }
    // Its callers have left, and another flight may have stored a newer result.
    if isCancelled { throw CancellationError() }
    return try result.get()
  }

  /// Ends the computation after its time limit.
  private func stop(_ limit: ComputeLimit) {
    let (isStopped, task) = state.withLock { state -> (Bool, Task<Void, Never>?) in
      guard state.isComputing, state.result == nil else { return (false, nil) }
      state.isCancelled = true
      return (true, state.task)
    }
    guard isStopped else { return }
    deliver(.failure(StoreError.computationStopped(limit)))
    task?.cancel()
  }

  /// Records the process that the flight waits for, or `nil` if it is not known now.
  package func note(holder: Int32?) {
    state.withLock { state in
      state.isElsewhere = true
      state.holder = holder ?? state.holder
    }
    onWait?()
  }

  /// Delivers the value to the callers before the flight has ended.
  package func deliver(early value: Value) { deliver(.success(value)) }

  func deliver(_ result: Result<Value, any Error>) {
    let waiters = state.withLock { state in
      if state.result == nil { state.result = result }
      defer { state.waiters = [:] }
      return Array(state.waiters.values)
    }
    for waiter in waiters { waiter.outcome.finish(result) }
  }

  // MARK: For the group, under its lock

  /// Adds a caller. Returns `false` if the result would be stale.
  func enter() -> Bool {
    state.withLock { state in
      guard Self.isOpen(state) else { return false }
      state.callers += 1
      return true
    }
  }

  /// Whether callers that come now can have the result.
  var isOpen: Bool { state.withLock { Self.isOpen($0) } }

  private static func isOpen(_ state: State) -> Bool {
    !state.isCancelled && (state.isValid.map { $0() } ?? (state.result == nil))
  }

  /// Records the task of the flight.
  func run(_ task: Task<Void, Never>) {
    let isCancelled = state.withLock { state in
      state.task = task
      return state.isCancelled
    }
    if isCancelled { task.cancel() }
  }

  /// Removes a caller. The last one cancels a closure that runs.
  func leave() {
    let task = state.withLock { state -> Task<Void, Never>? in
      state.callers -= 1
      guard state.callers == 0, state.isComputing, state.result == nil else { return nil }
      state.isCancelled = true
      return state.task
    }
    task?.cancel()
  }

  var callers: Int { state.withLock { $0.callers } }

  /// The process that computes the key, or `nil` if it is not known.
  var process: Int32? {
    state.withLock { $0.isElsewhere ? $0.holder : ProcessIdentity.pid }
  }

  var isUnwanted: Bool { state.withLock { $0.callers == 0 } }

  // MARK: For callers

  func wait(for call: SingleFlightGroup.Call<Value>, isFirst: Bool) async throws -> Value {
    let id = state.withLock { state in
      state.last += 1
      return state.last
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let outcome = TimedOutcome<Result<Value, any Error>> { continuation.resume(with: $0) }
        let result = state.withLock { state in
          if state.result == nil { state.waiters[id] = Waiter(outcome: outcome, isFirst: isFirst) }
          return state.result
        }
        if let result { return outcome.finish(result) }
        setTimer(of: outcome, id, call)
        // The cancellation handler may have run before the waiter was added.
        if Task.isCancelled { end(id, CancellationError()) }
      }
    } onCancel: {
      end(id, CancellationError())
    }
  }

  private func setTimer(
    of outcome: TimedOutcome<Result<Value, any Error>>, _ id: UInt64,
    _ call: SingleFlightGroup.Call<Value>
  ) {
    outcome.setTimer(after: call.timeout) { [self] in handleTimeout(outcome, id, call) }
  }

  private func handleTimeout(
    _ outcome: TimedOutcome<Result<Value, any Error>>, _ id: UInt64,
    _ call: SingleFlightGroup.Call<Value>
  ) {
    let (isOwn, isElsewhere, holder) = state.withLock { state in
      let isFirst = state.waiters[id]?.isFirst ?? false
      return (isFirst && !state.isElsewhere, state.isElsewhere, state.holder)
    }
    // The caller's own closure has no time limit, and may not have begun yet.
    if isOwn {
      return outcome.setTimer(after: max(call.timeout, .milliseconds(100))) { [self] in
        handleTimeout(outcome, id, call)
      }
    }
    let process = isElsewhere ? holder : ProcessIdentity.pid
    end(id, StoreError.computationStalled(call.text(), by: process, call.timeout))
  }

  private func end(_ id: UInt64, _ error: any Error) {
    let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
    waiter?.outcome.finish(.failure(error))
  }
}
