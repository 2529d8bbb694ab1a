// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
public import Synchronization

/// The words of a shared table that a memory hit looks at, without a reference to count.
///
/// A shard of a memory tier keeps one in place. Reading through it touches the table's words and
/// nothing else; a reference to the table itself would be retained and released at every hit.
@safe @frozen @usableFromInline
package struct SharedTableView {
  // Sound: they point into the mapping that `table` keeps alive, and into the counters of `gauge`.
  @usableFromInline var stamps: UnsafeMutablePointer<Atomic<UInt64>>?
  @usableFromInline var words: UnsafeMutablePointer<Atomic<UInt64>>?
  @usableFromInline var recency: UnsafeMutablePointer<Atomic<UInt64>>?
  @usableFromInline var pending: UnsafeMutablePointer<Atomic<UInt32>>?
  @usableFromInline var recencyMask: UInt64
  @usableFromInline var stampMask: Int
  /// The table; `nil` before the first value was filed.
  package let table: SharedTable?
  private let gauge: AnyObject?

  /// A view of nothing.
  package init() {
    unsafe stamps = nil
    unsafe words = nil
    unsafe recency = nil
    unsafe pending = nil
    recencyMask = 0
    stampMask = 0
    table = nil
    gauge = nil
  }

  /// - Parameter pending: The writes of this process that wait, which shadow what was filed.
  package init(_ table: SharedTable, pending gauge: PendingWriteCounters? = nil) {
    unsafe stamps = table.stamps
    unsafe words = table.base.assumingMemoryBound(to: Atomic<UInt64>.self)
    unsafe recency = table.recency
    recencyMask = table.recencyMask
    stampMask = table.stampMask
    unsafe pending = gauge?.counts.base
    self.table = table
    self.gauge = gauge?.counts
  }

  /// Whether the view is of this table.
  @usableFromInline
  package func isOf(_ other: SharedTable) -> Bool { table === other }

  /// Whether a value filed with `seal` is the newest any process was told of: two loads.
  @inlinable @inline(__always)
  package func isCurrent(slot: Int, seal: UInt64) -> Bool {
    guard let stamps = unsafe stamps, let words = unsafe words else { return false }
    let stamp = unsafe stamps[slot & stampMask].load(ordering: .acquiring)
    let floor = unsafe words[24].load(ordering: .acquiring)
    return stamp >= seal && floor >= seal
  }

  /// Whether a write of this process that waits may be of a key of this slot.
  @inlinable @inline(__always)
  package func mayBeShadowed(slot: Int) -> Bool {
    guard let pending = unsafe pending else { return false }
    // The sum stands behind the slots; it is zero nearly always.
    if unsafe pending[65_536].load(ordering: .acquiring) == 0 { return false }
    return unsafe pending[slot & 0xFFFF].load(ordering: .acquiring) != 0
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

extension SharedTable {
  /// Has the words of a key's slots fetched while its entry is looked for: they are far apart, and
  /// a look-up would wait for each in turn.
  package func prefetch(hash: UInt64) {
    unsafe LarderSystem.prefetch(stamps + (Int(truncatingIfNeeded: hash) & stampMask))
    unsafe LarderSystem.prefetch(recency + Int(truncatingIfNeeded: hash & recencyMask))
  }
}
