// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// THE TIMES OF WRITERS
//
// Each process publishes in its slot since when it has the writer ticket, and counts its commits by
// the time from the acquisition of the ticket to the end of the commit: what other writers wait for.
// Count 0 is of commits below 65.536 µs (2^16 ns), count n below 2^n times that, and the last one of
// all longer ones. A reader of the table subtracts two readings.
//
// The time is even; it is odd while the thread waits for the disk, so that others do not take the process for a stalled
// one.
//
// Only the thread with the process writer lock stores these words, with plain stores. No other process
// writes their cache line.

/// The counts of commits by duration.
package struct CommitTimes: Sendable, Hashable {
  package static let count = 14

  /// The number of commits by class of duration.
  package var counts = [UInt32](repeating: 0, count: CommitTimes.count)

  /// Creates counts of zero.
  package init() {}

  /// Returns the class of a duration in nanoseconds.
  static func index(nanoseconds: UInt64) -> Int {
    min(count - 1, 64 - (nanoseconds >> 16).leadingZeroBitCount)
  }

  /// Returns the microseconds below which the durations of a class are, or `nil` for the last class.
  package static func limit(_ index: Int) -> Double? {
    index < count - 1 ? 65.536 * Double(1 << index) : nil
  }

  /// Returns the counts since an earlier reading. Counts wrap.
  package func since(_ earlier: CommitTimes?) -> CommitTimes {
    guard let earlier else { return self }
    var result = self
    for index in 0..<CommitTimes.count { result.counts[index] &-= earlier.counts[index] }
    return result
  }

  package static func + (left: CommitTimes, right: CommitTimes) -> CommitTimes {
    var result = left
    for index in 0..<CommitTimes.count { result.counts[index] &+= right.counts[index] }
    return result
  }

  /// The number of commits.
  package var total: Int { counts.reduce(0) { $0 + Int($1) } }

  /// Returns the class that contains a share of the commits and all shorter ones, or `nil` without
  /// commits. One is the class of the longest commit.
  package func index(ofShare share: Double) -> Int? {
    guard total > 0 else { return nil }
    var sum = 0
    for (index, count) in counts.enumerated() {
      sum += Int(count)
      if Double(sum) >= share * Double(total) { return index }
    }
    return nil
  }
}

extension SharedTable {
  /// Records that this process has acquired the writer ticket. The caller has the process writer lock.
  @inline(__always)
  func beginWriting(process: Int) {
    unsafe word(offset(process: process) + SharedTableLayout.processWriting).pointee.store(
      Clocks.monotonicNanoseconds() & ~1, ordering: .relaxed)
  }

  /// Runs syncs, and shows meanwhile that this process waits for the disk. The caller has the process writer lock.
  @inline(__always)
  func waitingForDisk<R>(process: Int, _ body: () throws -> R) rethrows -> R {
    let address = unsafe word(offset(process: process) + SharedTableLayout.processWriting)
    let since = unsafe address.pointee.load(ordering: .relaxed)
    // Without the ticket no process waits; within another call of this method, the outer one ends it.
    if since == 0 || since & 1 == 1 { return try body() }
    unsafe address.pointee.store(since | 1, ordering: .relaxed)
    defer { unsafe address.pointee.store(since, ordering: .relaxed) }
    return try body()
  }

  /// Whether the process in a slot has the writer ticket and waits for the disk.
  package func isWaitingForDisk(process: Int) -> Bool {
    unsafe word(offset(process: process) + SharedTableLayout.processWriting).pointee
      .load(ordering: .relaxed) & 1 == 1
  }

  /// Whether a process has begun to write: it has the writer ticket, and may have LMDB's writer lock.
  func isWriting(process: Int) -> Bool {
    unsafe word(offset(process: process) + SharedTableLayout.processWriting).pointee.load(
      ordering: .acquiring) != 0
  }

  /// Counts the commit that began with ``beginWriting(process:)``.
  @inline(__always)
  func countCommitTime(process: Int) {
    let offset = offset(process: process)
    let since = unsafe word(offset + SharedTableLayout.processWriting).pointee.load(
      ordering: .relaxed)
    let index = CommitTimes.index(nanoseconds: Clocks.monotonicNanoseconds() &- since)
    let count = unsafe half(offset + SharedTableLayout.processCommitTimes + 4 * index)
    unsafe count.pointee.store(
      count.pointee.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    endWriting(process: process)
  }

  /// Records that this process is about to release the writer ticket.
  @inline(__always)
  func endWriting(process: Int) {
    unsafe word(offset(process: process) + SharedTableLayout.processWriting).pointee.store(
      0, ordering: .relaxed)
  }

  func clearCommitTimes(process: Int) {
    let offset = offset(process: process)
    for word in stride(
      from: SharedTableLayout.processWriting, to: SharedTableLayout.processSize, by: 8)
    {
      unsafe self.word(offset + word).pointee.store(0, ordering: .relaxed)
    }
  }

  /// Returns the nanoseconds for which the process in a slot has had the writer ticket, or `nil` if it
  /// does not have it.
  package func writingNanoseconds(process: Int, now: UInt64) -> UInt64? {
    let since = unsafe word(offset(process: process) + SharedTableLayout.processWriting).pointee
      .load(ordering: .relaxed)
    return since == 0 || since > now ? nil : now - since
  }

  /// Returns the commits of the process in a slot by duration.
  package func commitTimes(process: Int) -> CommitTimes {
    let offset = offset(process: process) + SharedTableLayout.processCommitTimes
    var result = CommitTimes()
    for index in 0..<CommitTimes.count {
      result.counts[index] = unsafe half(offset + 4 * index).pointee.load(ordering: .relaxed)
    }
    return result
  }
}
