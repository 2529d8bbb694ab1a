// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A computation of a key in this process, and the callers that wait for it.
package final class Flight<Value: Sendable>: Sendable {
  private struct Waiter {
    let outcome: TimedOutcome<Result<Value, any Error>>
    /// The caller whose closure the flight runs.
    let isFirst: Bool
  }

  private struct State {
    var result: Result<Value, any Error>?
    /// Whether a result that was delivered early may be given to more callers.
    var isValid: (@Sendable () -> Bool)?
    var waiters: [UInt64: Waiter] = [:]
    var last: UInt64 = 0
    /// The callers that have the flight.
    var callers = 1
    var isComputing = false
    /// Whether another process computes the key.
    var isElsewhere = false
    /// The process that computes the key, as far as it is known.
    var holder: Int32?
  }

  let node = FlightNode()
  private let state = Mutex(State())

  // MARK: For the flight's task

  /// From here on the closure of the first caller runs, for as long as it takes.
  package func beginComputing() {
    state.withLock { state in
      state.isComputing = true
      state.isElsewhere = false
      state.holder = ProcessIdentity.pid
    }
  }

  /// Notes which process the flight waits for; `nil` when that is not known at the moment.
  package func note(holder: Int32?) {
    state.withLock { state in
      state.isElsewhere = true
      state.holder = holder ?? state.holder
    }
  }

  /// Gives the callers their value before the flight has ended.
  ///
  /// - Parameter isValid: Whether later callers may be given it as well.
  package func deliver(_ value: Value, while isValid: @escaping @Sendable () -> Bool) {
    state.withLock { $0.isValid = isValid }
    deliver(.success(value))
  }

  func deliver(_ result: Result<Value, any Error>) {
    let waiters = state.withLock { state in
      if state.result == nil { state.result = result }
      defer { state.waiters = [:] }
      return Array(state.waiters.values)
    }
    for waiter in waiters { waiter.outcome.finish(result) }
  }

  // MARK: For the table, under its lock

  /// Counts a caller in; `false`: the result is outdated.
  func enter() -> Bool {
    state.withLock { state in
      if state.result != nil, state.isValid?() != true { return false }
      state.callers += 1
      return true
    }
  }

  func leave() { state.withLock { $0.callers -= 1 } }

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
        // The handler may have run before there was a waiter.
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
    outcome.setTimer(after: call.timeout) { [self] in timeIsUp(outcome, id, call) }
  }

  private func timeIsUp(
    _ outcome: TimedOutcome<Result<Value, any Error>>, _ id: UInt64,
    _ call: SingleFlightGroup.Call<Value>
  ) {
    let (isOwn, isElsewhere, holder) = state.withLock { state in
      let isFirst = state.waiters[id]?.isFirst ?? false
      return (isFirst && !state.isElsewhere, state.isElsewhere, state.holder)
    }
    // Its own closure takes as long as it takes, and may not have begun yet.
    if isOwn { return setTimer(of: outcome, id, call) }
    let process = isElsewhere ? holder : ProcessIdentity.pid
    end(id, StoreError.computationStalled(call.text(), by: process, call.timeout))
  }

  private func end(_ id: UInt64, _ error: any Error) {
    let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
    waiter?.outcome.finish(.failure(error))
  }
}
