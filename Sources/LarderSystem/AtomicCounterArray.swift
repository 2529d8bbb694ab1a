// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import Synchronization

/// A fixed array of small counters, read without a lock, and private to this process.
@safe
package final class AtomicCounterArray: Sendable {
  /// The first counter; valid as long as this object lives.
  package nonisolated(unsafe) let base: UnsafeMutablePointer<Atomic<UInt32>>
  package let count: Int

  package init(count: Int) {
    self.count = count
    unsafe base = .allocate(capacity: count)
    for index in 0..<count { unsafe (base + index).initialize(to: Atomic(0)) }
  }

  deinit { unsafe base.deallocate() }

  @inline(__always)
  package func isZero(_ index: Int) -> Bool {
    unsafe base[index].load(ordering: .acquiring) == 0
  }

  package func increment(_ index: Int) {
    precondition(index >= 0 && index < count, "no such counter")
    unsafe base[index].wrappingAdd(1, ordering: .acquiringAndReleasing)
  }

  package func decrement(_ index: Int) {
    precondition(index >= 0 && index < count, "no such counter")
    unsafe base[index].wrappingSubtract(1, ordering: .acquiringAndReleasing)
  }
}
