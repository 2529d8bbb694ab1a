// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB

/// Transactions without requests of callers.
extension StoreCore {
  /// Commits an empty stamped transaction, so that slots with a killed writer's stamps validate
  /// again.
  func commitNoOp() throws {
    _ = try withGeneration { generation in
      try transact(in: generation) { $0.force() }
    }
  }

  /// Writes the store's `meta` record with a change. The caller is the commit leader.
  ///
  /// - Parameter check: Throws if the transaction must not make the change.
  func putMeta(
    in generation: Generation,
    requiring check: (inout StoreTransaction) throws -> Void = { _ in },
    _ change: (inout StoreMeta) -> Void
  ) throws {
    _ = try transact(in: generation) { transaction in
      try check(&transaction)
      var meta = generation.meta
      meta.update(from: generation.table)
      change(&meta)
      try transaction.transaction.put(meta.bytes(), forKey: StoreMeta.key, in: .main)
      transaction.force()
    }
  }

  /// Changes the store's `meta` record for every process.
  func changeMeta(_ change: @escaping @Sendable (inout StoreMeta) -> Void) throws {
    try runExclusively { core in
      try core.withGeneration { try core.putMeta(in: $0, change) }
    }
  }
}
