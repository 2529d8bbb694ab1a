// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension Environment {
  /// Runs `body` in a transaction and commits it, from asynchronous code: no thread of Swift's pool
  /// waits for the write lock.
  ///
  /// `body` itself is synchronous: all of it runs on one thread, as LMDB's lock wants it. What holds of
  /// a write from synchronous code holds here. A task that is cancelled while it waits for its turn
  /// writes nothing; once `body` has begun, it ends as it would have.
  ///
  /// - Throws: what `body` throws; `CancellationError`; ``LMDBError/Code/writerStalled``;
  ///   ``LMDBError/Code/mapFull``; an error of the system when the disk is full.
  public func withWriteTransaction<R: Sendable>(
    _ body: @escaping @Sendable (inout WriteTransaction) throws -> R
  ) async throws -> R {
    try await BackgroundExecutor.shared.run { [self] in
      try withWriteTransaction(body, proceed: { try Task.checkCancellation() })
    }
  }
}
