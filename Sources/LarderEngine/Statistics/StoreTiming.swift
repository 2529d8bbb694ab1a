// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// What takes a store long enough to be timed, where somebody asked for it.
package enum TimedOperation: Sendable, Hashable, CaseIterable {
  /// A write transaction: from asking for the writer lock to the end of the commit.
  case commit
  /// A `.relaxed` store's changes brought to the disk.
  case sync
  /// A value computed under single flight.
  case computation
}

/// Told how many nanoseconds an operation of the store at a path took, failed or not.
///
/// Called by the thread that did it, perhaps with the writer's role: it may not use the store.
package typealias TimingHandler = @Sendable (TimedOperation, UInt64, _ path: String) -> Void

/// When an operation began; `nil`: nobody wants to know.
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
  /// The clock is looked at only where somebody asked for it.
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
