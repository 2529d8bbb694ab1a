// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension Environment {
  /// Runs `body` in a write transaction and commits it, without blocking a thread of Swift's
  /// cooperative pool.
  ///
  /// `body` is synchronous and runs on one thread, because LMDB's writer lock belongs to a thread.
  /// The rules of the synchronous ``withWriteTransaction(_:)`` apply. Cancelling the task while it
  /// waits for the writer lock writes nothing; after `body` has started, cancellation has no
  /// effect.
  ///
  /// - Parameter body: A closure that reads and changes tables through the transaction.
  /// - Returns: The result of `body`.
  /// - Throws: What `body` throws; `CancellationError`; ``LMDBError/Code/writerStalled``;
  ///   ``LMDBError/Code/mapFull``; a system error if the disk is full.
  public func withWriteTransaction<R: Sendable>(
    _ body: @escaping @Sendable (inout WriteTransaction) throws -> R
  ) async throws -> R {
    try await BackgroundExecutor.shared.run { [self] in
      try withWriteTransaction(body, proceed: { try Task.checkCancellation() })
    }
  }
}
