// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

/// A result for which several tasks wait.
final class SharedAnswer<Value: Sendable>: Sendable {
  private typealias Outcome = TimedOutcome<Result<Value, any Error>?>

  private struct State {
    var result: Result<Value, any Error>?
    var waiters: [Outcome] = []
  }

  private let state = Mutex(State())

  var hasFailed: Bool {
    state.withLock { if case .failure? = $0.result { true } else { false } }
  }

  func finish(_ result: Result<Value, any Error>) {
    let waiters = state.withLock { state in
      state.result = result
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.finish(result) }
  }

  /// Waits for the result, until the caller is cancelled.
  ///
  /// - Returns: `nil` if there is none within `patience`.
  func value(within patience: Duration) async throws -> Value? {
    if let result = state.withLock({ $0.result }) { return try result.get() }
    let own = Mutex<Outcome?>(nil)
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let outcome = Outcome { continuation.resume(returning: $0) }
        own.withLock { $0 = outcome }
        outcome.setTimer(after: patience) { outcome.finish(nil) }
        let result = state.withLock { state in
          if state.result == nil { state.waiters.append(outcome) }
          return state.result
        }
        if let result { outcome.finish(result) }
        // The cancellation handler may have run before.
        if Task.isCancelled { outcome.finish(.failure(CancellationError())) }
      }
    } onCancel: {
      own.withLock { $0 }?.finish(.failure(CancellationError()))
    }
    return try result?.get()
  }
}
