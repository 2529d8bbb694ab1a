// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A scoped snapshot that decoded values may store. They can read from it only inside the closure
/// that provides it, and only on the thread that acquired it.
///
/// A borrowed transaction cannot be stored. A value decoded from it may have to read more of it
/// later in the user's closure; so the value stores this object and reads through it.
@safe
package final class ScopedSnapshot {
  private let handle: OpaquePointer
  private let thread = OSThread.token
  private let isOpen = Atomic<Bool>(true)

  /// Makes a snapshot readable until ``end()``, which must come before the end of the borrow.
  package init(_ transaction: borrowing ReadTransaction) { unsafe handle = transaction.handle }

  /// Whether this thread may read from the snapshot now.
  package var isHere: Bool { isOpen.load(ordering: .acquiring) && OSThread.token == thread }

  /// Reads from the snapshot; returns `nil` if it has ended or belongs to another thread.
  package func withTransaction<R>(
    _ body: (borrowing ReadTransaction) throws -> R
  ) rethrows -> R? {
    guard isHere else { return nil }
    return try body(unsafe ReadTransaction(lending: handle))
  }

  package func end() { isOpen.store(false, ordering: .releasing) }
}

// Only one thread uses the handle: the one that calls `end()`.
extension ScopedSnapshot: @unchecked Sendable {}
