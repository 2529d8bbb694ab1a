// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// An operation whose duration a store reports if a timing handler is set.
package enum TimedOperation: Sendable, Hashable, CaseIterable {
  /// A write transaction: from the request for the writer lock to the end of the commit.
  case commit
  /// A sync of a `.relaxed` store.
  case sync
  /// A value computed under single flight.
  case computation
}

/// A closure that gets the duration of an operation in nanoseconds, whether or not it failed, with
/// the path of the store.
///
/// The thread of the operation calls it, possibly as the commit leader: it must not use the store.
package typealias TimingHandler = @Sendable (TimedOperation, UInt64, _ path: String) -> Void

/// The start time of an operation.
package struct OperationTimer {
  private let handler: TimingHandler
  private let operation: TimedOperation
  private let path: String
  private let start = Clocks.monotonicNanoseconds()

  fileprivate init(_ handler: @escaping TimingHandler, _ operation: TimedOperation, _ path: String)
  {
    self.handler = handler
    self.operation = operation
    self.path = path
  }

  package func end() { handler(operation, Clocks.monotonicNanoseconds() &- start, path) }
}

extension StoreCore {
  /// Starts the timer of an operation. Reads the clock only if a timing handler is set.
  @inline(__always)
  package func start(_ operation: TimedOperation) -> OperationTimer? {
    guard let handler = options.onTiming else { return nil }
    return OperationTimer(handler, operation, directory.path)
  }

  package func recordingTimings<R>(
    _ operation: TimedOperation, _ body: () async throws -> R
  ) async rethrows -> R {
    let timing = start(operation)
    defer { timing?.end() }
    return try await body()
  }
}
