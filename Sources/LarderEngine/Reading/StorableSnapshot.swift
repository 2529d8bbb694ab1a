// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import Synchronization

/// A snapshot that decoded values may store and read from, inside the closure that provides it.
///
/// A ``Snapshot`` cannot be stored. A value decoded from it may have to read more of it later in
/// the user's closure; so the value stores this object. It reads only on the thread that created
/// it, and only until ``end()``.
package final class StorableSnapshot: Sendable {
  private let scoped: ScopedSnapshot
  /// Released at the end, because decoded values can outlive the read.
  private let heldView: Mutex<SnapshotView?>

  /// Makes a snapshot readable until ``end()``, which must come before the snapshot's end.
  package init(_ snapshot: borrowing Snapshot) {
    scoped = ScopedSnapshot(snapshot.transaction)
    heldView = Mutex(snapshot.view)
  }

  /// The identity of the snapshot, or `nil` after ``end()``.
  package var view: SnapshotView? { heldView.withLock { $0 } }

  /// Whether this thread may read from the snapshot now.
  package var isHere: Bool { scoped.isHere }

  /// Runs `body` in the snapshot.
  ///
  /// - Returns: The result of `body`, or `nil` if the snapshot has ended or belongs to another
  ///   thread.
  package func withSnapshot<R>(_ body: (borrowing Snapshot) throws -> R) rethrows -> R? {
    guard let view else { return nil }
    return try scoped.withTransaction { try body(Snapshot(view, $0)) }
  }

  /// Ends the snapshot and releases its generation. Call it on the thread that created it.
  package func end() {
    scoped.end()
    heldView.withLock { $0 = nil }
  }
}
