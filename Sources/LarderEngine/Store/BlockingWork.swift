// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A runner of blocking functions outside Swift's thread pool, for the asynchronous methods of the
/// layers above.
package enum BlockingWork {
  /// Runs a function on a thread of the library and suspends the caller until it returns.
  package static func run<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
  ) async throws -> Result {
    try await BackgroundExecutor.shared.run(body)
  }

  /// Runs an asynchronous function on threads of the library, and blocks the calling thread until it
  /// returns. The function must have a time limit, and must not need Swift's pool: the caller may be one of
  /// its threads.
  package static func wait<R: Sendable>(
    _ body: @escaping @Sendable () async throws -> R
  ) throws -> R {
    let box = Box<R>()
    _ = task {
      do { box.set(.success(try await body())) } catch { box.set(.failure(error)) }
    }
    return try box.wait().get()
  }

  /// Starts a task on threads of the library.
  package static func task(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
    Task(executorPreference: BackgroundExecutor.shared) { await body() }
  }

  /// Starts a task with a result on threads of the library.
  package static func task<R: Sendable>(
    _ body: @escaping @Sendable () async throws -> R
  ) -> Task<R, any Error> {
    Task(executorPreference: BackgroundExecutor.shared) { try await body() }
  }

  private final class Box<R: Sendable>: Sendable {
    private let result = Mutex<Result<R, any Error>?>(nil)
    private let event = Event()

    func set(_ value: Result<R, any Error>) {
      result.withLock { $0 = value }
      event.set()
    }

    func wait() -> Result<R, any Error> {
      while true {
        if let value = result.withLock({ $0 }) { return value }
        event.wait()
      }
    }
  }

  /// Suspends the task for a time. In contrast to `Task.sleep`, it needs no file descriptor.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  package static func sleep(for duration: Duration) async throws(CancellationError) {
    try await DeadlineTimer.shared.sleep(nanoseconds: duration.nanoseconds)
  }
}
