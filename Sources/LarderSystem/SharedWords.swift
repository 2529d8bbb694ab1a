// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// The words of a mapped file that several processes read and write, by their offset.
///
/// Every access is atomic, and an offset outside of the mapping is a trap. In a forked child all words
/// are zero.
@safe
package final class SharedWords: Sendable {
  private let region: MappedRegion
  // Sound: it points into `region`, is page-aligned, and lives as long as `self`.
  private nonisolated(unsafe) let base: UnsafeMutableRawPointer
  package let count: Int

  /// Maps the first `count` bytes of a file, which must have its blocks.
  package init(mapping file: OwnedFile, count: Int) throws(SystemError) {
    region = try MappedRegion(sharing: file, count: count, isZeroInForkedChild: true)
    unsafe base = region.base
    self.count = count
  }

  /// Copies the first `count` bytes of a file, for a process that only observes.
  package init(copying file: OwnedFile, count: Int) throws(SystemError) {
    region = try MappedRegion(copying: file, count: count, size: count)
    unsafe base = region.base
    self.count = count
  }

  @unsafe @inline(__always)
  private func word(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    precondition(offset >= 0 && offset & 7 == 0 && offset + 8 <= count, "no such word")
    return unsafe (base + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  @unsafe @inline(__always)
  private func half(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt32>> {
    precondition(offset >= 0 && offset & 3 == 0 && offset + 4 <= count, "no such word")
    return unsafe (base + offset).assumingMemoryBound(to: Atomic<UInt32>.self)
  }

  // MARK: 64 bits

  package func load(_ offset: Int) -> UInt64 {
    unsafe word(offset).pointee.load(ordering: .acquiring)
  }

  package func store(_ value: UInt64, at offset: Int) {
    unsafe word(offset).pointee.store(value, ordering: .releasing)
  }

  /// Replaces a word if it has the expected value; returns whether it had.
  package func replace(_ expected: UInt64, by value: UInt64, at offset: Int) -> Bool {
    unsafe word(offset).pointee.compareExchange(
      expected: expected, desired: value, ordering: .acquiringAndReleasing
    ).exchanged
  }

  // MARK: 32 bits

  package func load32(_ offset: Int) -> UInt32 {
    unsafe half(offset).pointee.load(ordering: .acquiring)
  }

  package func store32(_ value: UInt32, at offset: Int) {
    unsafe half(offset).pointee.store(value, ordering: .releasing)
  }

  /// Replaces a word of 32 bits if it has the expected value; returns whether it had.
  package func replace32(_ expected: UInt32, by value: UInt32, at offset: Int) -> Bool {
    unsafe half(offset).pointee.compareExchange(
      expected: expected, desired: value, ordering: .sequentiallyConsistent
    ).exchanged
  }

  /// Stores a word of 32 bits and returns its former value.
  package func exchange32(_ value: UInt32, at offset: Int) -> UInt32 {
    unsafe half(offset).pointee.exchange(value, ordering: .sequentiallyConsistent)
  }

  /// Adds one to a word of 32 bits.
  package func advance32(_ offset: Int) {
    unsafe half(offset).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
  }

  // MARK: Waiting

  /// Sleeps while a word of 32 bits has a value, for a time at most. It may return early.
  package func sleep(at offset: Int, while value: UInt32, nanoseconds: UInt64) {
    unsafe Futex.wait(half(offset), while: value, nanoseconds: Int64(clamping: nanoseconds))
  }

  /// Wakes the sleepers of a word, in every process.
  package func wake(at offset: Int) { unsafe Futex.wakeAll(half(offset)) }

  /// The ticket whose word is at an offset. It is valid as long as this object.
  package func ticket(at offset: Int) -> WriterTicket { unsafe WriterTicket(at: half(offset)) }
}
