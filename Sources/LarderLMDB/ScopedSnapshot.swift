// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A snapshot that values may keep beyond its end: they can read from it only while it is lent, and
/// only on the thread that took it.
///
/// A borrowed transaction cannot be stored. What is decoded from it may have to read more of it
/// later, in the middle of somebody's closure; so it keeps this, and asks.
@safe
package final class ScopedSnapshot {
  private let handle: OpaquePointer
  private let thread = OSThread.token
  private let isOpen = Atomic<Bool>(true)

  /// Lends a snapshot until ``end()``, which must come before the borrow's.
  package init(_ transaction: borrowing ReadTransaction) { unsafe handle = transaction.handle }

  /// Whether this thread may read from it now.
  package var isHere: Bool { isOpen.load(ordering: .acquiring) && OSThread.token == thread }

  /// Reads from the snapshot; `nil`: it has ended, or this is another thread.
  package func withTransaction<R>(
    _ body: (borrowing ReadTransaction) throws -> R
  ) rethrows -> R? {
    guard isHere else { return nil }
    return try body(unsafe ReadTransaction(lending: handle))
  }

  package func end() { isOpen.store(false, ordering: .releasing) }
}

// The handle is used by one thread alone, the one that also ends the loan.
extension ScopedSnapshot: @unchecked Sendable {}
