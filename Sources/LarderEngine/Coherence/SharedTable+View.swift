// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
public import Synchronization

/// The words of the shared-memory table that a memory hit reads, without reference counting.
///
/// A shard of a memory tier contains one by value. Access through it reads and writes only the
/// table's words. A reference to the table itself would be retained and released at every hit.
@safe @frozen @usableFromInline
package struct SharedTableView {
  // Sound: the pointers point into the mapping that `table` keeps alive, and into the counters that
  // `gauge` keeps alive.
  @usableFromInline var stamps: UnsafeMutablePointer<Atomic<UInt64>>?
  @usableFromInline var words: UnsafeMutablePointer<Atomic<UInt64>>?
  @usableFromInline var uses: UseTable?
  /// The ring for samples, or one that records nothing: uses of objects are not sampled.
  @usableFromInline var samples: SampleRing
  @usableFromInline var pending: UnsafeMutablePointer<Atomic<UInt32>>?
  @usableFromInline var stampMask: Int
  /// The index of the word with the tick that a use is recorded with.
  @usableFromInline var clockIndex: Int
  /// The words of the link to the remote server of the values, if they have one.
  private var remote: RemoteRecord?
  private var server: RemoteName?
  /// The table, or `nil` before the first insert.
  package let table: SharedTable?
  private let gauge: AnyObject?

  /// Creates a view without a table: nothing validates.
  package init() {
    unsafe stamps = nil
    unsafe words = nil
    uses = nil
    samples = .none
    unsafe pending = nil
    stampMask = 0
    clockIndex = 0
    remote = nil
    server = nil
    table = nil
    gauge = nil
  }

  /// Creates a view of `table`.
  ///
  /// - Parameters:
  ///   - pending: The counters of this process's pending writes, which override cached values.
  ///   - recordsExactUses: Whether ``touch(hash:)`` records the newest tick whatever the policy of the
  ///     store, as ``SharedTable/touchExactly(hash:)`` does.
  ///   - remote: The name of the link to the remote server of the values, if they have one.
  package init(
    _ table: SharedTable, pending gauge: PendingWriteCounters? = nil,
    recordsExactUses: Bool = false, remote: RemoteName? = nil
  ) {
    self.remote = remote.flatMap { table.remoteRecord($0) }
    server = remote
    unsafe stamps = table.stamps
    unsafe words = table.base.assumingMemoryBound(to: Atomic<UInt64>.self)
    uses = table.uses
    samples = recordsExactUses ? .none : table.samples
    stampMask = table.stampMask
    clockIndex = (recordsExactUses ? SharedTableLayout.clock : SharedTableLayout.useClock) / 8
    unsafe pending = gauge?.counts.base
    self.table = table
    self.gauge = gauge?.counts
  }

  /// Returns whether this is a view of `other`. The record of the server may be another one's by now.
  @usableFromInline
  package func matches(_ other: SharedTable) -> Bool {
    guard table === other else { return false }
    guard let server else { return true }
    return remote.map { other.isFirst($0, of: server) } ?? false
  }

  /// Returns whether a value cached with the inverted read version `readVersion` is valid: neither
  /// its stamp slot nor the floor contains a newer commit version. Costs two atomic loads.
  @inlinable @inline(__always)
  package func isCurrent(slot: StampSlot, readVersion: UInt64) -> Bool {
    guard let stamps = unsafe stamps, let words = unsafe words else { return false }
    let stamp = unsafe stamps[slot.index & stampMask].load(ordering: .acquiring)
    let floor = unsafe words[SharedTableLayout.floor / 8].load(ordering: .acquiring)
    return stamp >= readVersion && floor >= readVersion
  }

  /// Returns whether a value cached with the inverted read version `readVersion` was not removed by one
  /// of its tags, whose hashes are `tags`.
  @usableFromInline
  package func areCurrent(_ tags: [UInt64], readVersion: UInt64) -> Bool {
    tags.allSatisfy { isCurrent(slot: StampSlot(hash: $0), readVersion: readVersion) }
  }

  /// Returns whether the values of a remote server are known to be at most as old as a limit; see
  /// ``RemoteRecord/isFresh(at:within:)``.
  @usableFromInline
  package func isFresh(at now: Int64, within limit: StalenessLimit) -> Bool {
    remote?.isFresh(at: now, within: limit) ?? false
  }

  /// Returns whether a value of a remote server was written under a link.
  @usableFromInline
  package func isLinked(commitVersion: UInt64) -> Bool {
    remote?.isLinked(commitVersion: commitVersion) ?? false
  }

  /// Returns whether this process may have a pending write to a key of this slot.
  @inlinable @inline(__always)
  package func mayBeShadowed(slot: StampSlot) -> Bool {
    guard let pending = unsafe pending else { return false }
    // The sum of all slots is stored after them. It is usually zero.
    if unsafe pending[StampSlot.count].load(ordering: .acquiring) == 0 { return false }
    return unsafe pending[slot.index].load(ordering: .acquiring) != 0
  }

  /// Marks a key as used now, and records a sample if uses of the key are sampled.
  ///
  /// - Parameter seen: The mark of the use clock when the word of the key was last seen with all bits;
  ///   zero at first. At that mark, the word is not loaded again. Otherwise this is at most one relaxed
  ///   store, usually none.
  /// - Returns: The new mark, if it changes.
  @inlinable @inline(__always)
  package func touch(hash: UInt64, seen: UInt32) -> UInt32? {
    guard let uses, let words = unsafe words else { return nil }
    // Sound: a half of a word of the header.
    let threshold = unsafe (UnsafeMutableRawPointer(words) + SharedTableLayout.sampleThreshold)
      .assumingMemoryBound(to: Atomic<UInt32>.self)
    if unsafe threshold.pointee.load(ordering: .relaxed) > hashPrefix(hash) {
      // A call with the view would copy it at every hit.
      unsafe samples.record(hash, .memoryHit, words)
    }
    let now = unsafe words[clockIndex].load(ordering: .relaxed)
    let mark = UseTable.mark(of: now)
    if mark == seen { return nil }
    return uses.touch(hashPrefix(hash), now: now) ? mark : nil
  }
}

// The pointers never change, and they point to atomics.
extension SharedTableView: @unchecked Sendable {}

extension SharedTable {
  /// Prefetches the words of a key's slots while its entry is searched. They are far apart, and a
  /// look-up would otherwise wait for one after the other.
  package func prefetch(hash: UInt64) {
    unsafe LarderSystem.prefetch(stamps + (StampSlot(hash: hash).index & stampMask))
    uses.prefetch(hashPrefix(hash))
  }
}
