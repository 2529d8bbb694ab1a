// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A pinned snapshot: while this object exists, no writer reuses a page that the snapshot reaches.
///
/// LMDB gives a page that transaction F freed to a writer only if the oldest snapshot of any reader
/// is newer than F. The writer reads the reader table when it first needs such a page, so it finds
/// every snapshot taken before that.
package final class PinnedSnapshot {
  package let id: UInt64
  private var transaction: ReadTransaction?

  /// Pins the newest snapshot. It must be released before the environment is closed.
  package init(in environment: EnvironmentHandle) throws(LMDBError) {
    let begun = try ReadTransaction(in: environment)
    id = begun.id
    transaction = consume begun
  }
}

// `init` uses the transaction, then only the thread that drops the last reference.
extension PinnedSnapshot: @unchecked Sendable {}
