// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Synchronization

/// The words of a shared table that a memory hit looks at, without a reference to count.
///
/// A shard of a memory tier keeps one in place. Reading through it touches the table's words and
/// nothing else; a reference to the table itself would be retained and released at every hit.
@safe @frozen @usableFromInline
package struct SharedTableView {
  // Sound: they point into the mapping that `table` keeps alive.
  @usableFromInline var stamps: UnsafeMutablePointer<Atomic<UInt64>>?
  @usableFromInline var words: UnsafeMutablePointer<Atomic<UInt64>>?
  @usableFromInline var recency: UnsafeMutablePointer<Atomic<UInt64>>?
  @usableFromInline var recencyMask: UInt64
  /// The table; `nil` before the first value was filed.
  package let table: SharedTable?

  /// A view of nothing.
  package init() {
    unsafe stamps = nil
    unsafe words = nil
    unsafe recency = nil
    recencyMask = 0
    table = nil
  }

  package init(_ table: SharedTable) {
    unsafe stamps = table.stamps
    unsafe words = table.base.assumingMemoryBound(to: Atomic<UInt64>.self)
    unsafe recency = table.recency
    recencyMask = table.recencyMask
    self.table = table
  }

  /// Whether a value filed with `seal` is the newest any process was told of: two loads.
  @inlinable @inline(__always)
  package func isCurrent(slot: Int, seal: UInt64) -> Bool {
    guard let stamps = unsafe stamps, let words = unsafe words else { return false }
    let stamp = unsafe stamps[slot & 0xFFFF].load(ordering: .acquiring)
    let floor = unsafe words[24].load(ordering: .acquiring)
    return stamp >= seal && floor >= seal
  }

  /// Marks a key as used now: at most one relaxed store, usually none.
  @inlinable @inline(__always)
  package func touch(hash: UInt64) {
    guard let recency = unsafe recency, let words = unsafe words else { return }
    let now = unsafe words[40].load(ordering: .relaxed)
    let index = Int(truncatingIfNeeded: hash & recencyMask)
    if unsafe recency[index].load(ordering: .relaxed) != now {
      unsafe recency[index].store(now, ordering: .relaxed)
    }
  }
}

// The pointers never change, and what they point at are atomics.
extension SharedTableView: @unchecked Sendable {}
