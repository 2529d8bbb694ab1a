// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A check for a forked child that other modules can inline: one load, no call.
///
/// A memory tier checks it before it acquires a shard's lock: a thread of the parent may have held
/// that lock at the time of the fork.
@safe @frozen @usableFromInline
package struct ForkMark {
  // Sound: the page is never unmapped, and only the kernel changes it.
  @usableFromInline let page: UnsafePointer<UInt8>?

  /// Creates a mark.
  ///
  /// - Parameter isUsed: Whether there is something to guard. If `false`, ``isForkedChild`` is
  ///   always `false`.
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
