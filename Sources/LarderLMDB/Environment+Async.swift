// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension Environment {
  /// Runs `body` in a transaction and commits it, from asynchronous code: no thread of Swift's pool
  /// waits for the write lock.
  ///
  /// `body` itself is synchronous: all of it runs on one thread, as LMDB's lock wants it. What holds of
  /// a write from synchronous code holds here. A task that is cancelled still gets its write done.
  ///
  /// - Throws: what `body` throws; ``LMDBError/Code/mapFull``; an error of the system when the disk is
  ///   full.
  public func withWriteTransaction<R: Sendable>(
    _ body: @escaping @Sendable (inout WriteTransaction) throws -> R
  ) async throws -> R {
    try await BackgroundExecutor.shared.run { [self] in try withWriteTransaction(body) }
  }
}
