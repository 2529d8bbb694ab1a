// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderEngine
internal import Synchronization

/// The wait of one caller for a task of several, which continues when this caller gives up.
enum SharedWait {
  /// Waits for a task, until a time and until the caller is cancelled.
  ///
  /// - Throws: The error of the task; `lateError` after the time; `CancellationError`.
  static func value<Value: Sendable>(
    of task: Task<Value, any Error>, until end: ContinuousClock.Instant,
    _ lateError: @autoclosure @escaping @Sendable () -> RedisError
  ) async throws -> Value {
    typealias Outcome = TimedOutcome<Result<Value, any Error>>
    let pending = Mutex<Outcome?>(nil)
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let outcome = Outcome { continuation.resume(with: $0) }
        pending.withLock { $0 = outcome }
        outcome.setTimer(after: max(end - .now, .zero)) { outcome.finish(.failure(lateError())) }
        _ = BlockingWork.task { outcome.finish(await task.result) }
        // The cancellation handler may have run before.
        if Task.isCancelled { outcome.finish(.failure(CancellationError())) }
      }
    } onCancel: {
      pending.withLock { $0 }?.finish(.failure(CancellationError()))
    }
  }
}
#endif
