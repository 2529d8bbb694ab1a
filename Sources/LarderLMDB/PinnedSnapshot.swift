// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A snapshot kept for as long as its owner likes: no writer uses a page again that it reaches.
///
/// LMDB gives a page that transaction F freed to a writer only when the oldest snapshot any reader
/// holds is newer than F. The writer looks through the reader table when it first wants such a page,
/// so a snapshot taken before that is seen by it.
package final class PinnedSnapshot {
  package let id: UInt64
  private var transaction: ReadTransaction?

  /// Takes the newest snapshot. It has to be let go before the environment is closed.
  package init(in environment: EnvironmentHandle) throws(LMDBError) {
    let begun = try ReadTransaction(in: environment)
    id = begun.id
    transaction = consume begun
  }
}

// The transaction is touched by `init`, then only by whoever drops the last reference.
extension PinnedSnapshot: @unchecked Sendable {}
