// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

/// The wait of one caller for a task of several, which continues when this caller gives up.
final class SharedWait<Value: Sendable>: Sendable {
  private struct State {
    var continuation: CheckedContinuation<Value, any Error>?
    var result: Result<Value, any Error>?
  }

  private let state = Mutex(State())

  private init() {}

  /// Waits for a task, until a time and until the caller is cancelled.
  ///
  /// - Throws: The error of the task; `lateError` after the time; `CancellationError`.
  static func value(
    of task: Task<Value, any Error>, until end: ContinuousClock.Instant,
    _ lateError: @autoclosure @escaping @Sendable () -> RedisError
  ) async throws -> Value {
    let wait = SharedWait()
    let waiter = BlockingWork.task { wait.end(await task.result) }
    let timer = BlockingWork.task {
      guard (try? await BlockingWork.sleep(for: max(end - .now, .zero))) != nil else { return }
      wait.end(.failure(lateError()))
    }
    defer {
      waiter.cancel()
      timer.cancel()
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { wait.begin($0) }
    } onCancel: {
      wait.end(.failure(CancellationError()))
    }
  }

  private func begin(_ continuation: CheckedContinuation<Value, any Error>) {
    let result = state.withLock { state in
      if state.result == nil { state.continuation = continuation }
      return state.result
    }
    if let result { continuation.resume(with: result) }
  }

  /// Ends the wait, unless it has ended.
  private func end(_ result: Result<Value, any Error>) {
    let continuation = state.withLock { state in
      if state.result != nil { return nil as CheckedContinuation<Value, any Error>? }
      state.result = result
      defer { state.continuation = nil }
      return state.continuation
    }
    continuation?.resume(with: result)
  }
}
