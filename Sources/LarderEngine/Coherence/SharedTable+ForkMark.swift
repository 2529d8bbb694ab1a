// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The check for a forked child as code in other modules makes it: one load, no call.
///
/// A memory tier makes it before it acquires a shard's lock, which a thread of the parent may have held
/// when the process forked.
@safe @frozen @usableFromInline
package struct ForkMark {
  // Sound: the page is never unmapped, and the kernel alone changes it.
  @usableFromInline let page: UnsafePointer<UInt8>?

  /// - Parameter isUsed: Whether there is something to guard; without it the answer is always `false`.
  package init(isUsed: Bool = true) { unsafe page = isUsed ? ForkGuard.mark : nil }

  /// Whether this process is a fork of the one that first opened a store.
  @inlinable @inline(__always)
  package var isForkedChild: Bool {
    guard let page = unsafe page else { return false }
    return unsafe page.pointee == 0
  }
}

// The pointer never changes, and only the kernel writes to the page, when the process forks.
extension ForkMark: @unchecked Sendable {}
