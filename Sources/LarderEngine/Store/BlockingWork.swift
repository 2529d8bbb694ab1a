// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// Runs functions that block where no thread of Swift's pool waits: for the suspending forms of the
/// layers above.
package enum BlockingWork {
  /// Runs a function on a thread of the library and suspends the caller until it returns.
  package static func run<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
  ) async throws -> Result {
    try await BackgroundExecutor.shared.run(body)
  }

  /// Suspends the task for a time, without a file descriptor, of which `Task.sleep` needs one.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  package static func sleep(for duration: Duration) async throws(CancellationError) {
    try await DeadlineTimer.shared.sleep(nanoseconds: duration.nanoseconds)
  }
}
