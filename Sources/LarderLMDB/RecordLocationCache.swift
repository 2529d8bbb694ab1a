// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
package import LarderSystem
internal import Synchronization

// PLACES
//
// A walk through the tree waits for memory at each of its levels. Whoever remembers where in the map
// a record lay, under which snapshot, and what its checksum was, can look there at once, without a
// snapshot. That is sound however the pages have changed since, if the caller
//
// * judges a copy of the bytes by their checksum: whatever has become of the page, the bytes are
//   those the snapshot had, or they are not used;
// * knows that nothing of the key was written since the snapshot, which a seal is for;
// * keeps the environment open meanwhile, so that the map is there.
//
// The table is this process's own, as large as it gets, and most of it is never touched in a small
// store: 65,536 lines of two places each. A line is one of the processor's.
//
//      0  tag       u64   hash ^ checksum ^ address * P ^ seal * Q
//      8  address   u64   of the record in the map, and its length in the upper 16 bits
//     16  seal      u64
//     24  checksum  u64
//     32  the other place
//
// The words are written and read one by one, by all threads at once: words of different writers have
// no tag that fits.

/// Where a record lay in the map, and what it was.
package struct RecordLocation: Sendable {
  /// The inverted label of the snapshot that had the record there.
  package let seal: UInt64
  package let checksum: UInt64
  fileprivate let address: UInt64

  fileprivate var start: UnsafeRawPointer? {
    unsafe UnsafeRawPointer(bitPattern: UInt(address & (1 << 48 - 1)))
  }

  fileprivate var count: Int { Int(address >> 48) }

  fileprivate func tag(_ hash: UInt64) -> UInt64 {
    hash ^ checksum ^ (address &* 0x9E37_79B9_7F4A_7C15) ^ (seal &* 0xC2B2_AE3D_27D4_EB4F)
  }
}

/// Where records were last seen in the map of one environment.
@safe
package final class RecordLocationCache: Sendable {
  // Sound: they point into the mapping, and what lies there are atomics.
  private nonisolated(unsafe) let words: UnsafeMutablePointer<Atomic<UInt64>>
  private let memory: MappedRegion
  private let mask: UInt64

  private static let wordsOfLine = 8
  /// Longer records have no place: what is saved is little beside the copy.
  private static let maximumLength = 0xFFFF

  /// - Parameter lines: A power of two; two places each.
  package init(lines: Int = 1 << 16) throws(SystemError) {
    precondition(lines > 0 && lines & (lines - 1) == 0, "lines are a power of two")
    mask = UInt64(lines - 1)
    let count = lines * Self.wordsOfLine
    memory = try MappedRegion(zeros: count * 8)
    unsafe words = memory.base.bindMemory(to: Atomic<UInt64>.self, capacity: count)
  }

  @inline(__always)
  private func line(_ hash: UInt64) -> UnsafeMutablePointer<Atomic<UInt64>> {
    // The low bits choose a stamp's slot; others here, or all keys of a slot would share few lines.
    unsafe words + Int(truncatingIfNeeded: (hash &>> 16) & mask) &* Self.wordsOfLine
  }

  /// Has the line of a hash fetched while something else is done.
  package func prefetch(_ hash: UInt64) { unsafe LarderSystem.prefetch(line(hash)) }

  /// The place remembered for a hash.
  @inline(__always)
  package func place(of hash: UInt64) -> RecordLocation? {
    let line = unsafe line(hash)
    return unsafe place(of: hash, at: line) ?? place(of: hash, at: line + 4)
  }

  @inline(__always)
  private func place(
    of hash: UInt64, at words: UnsafeMutablePointer<Atomic<UInt64>>
  ) -> RecordLocation? {
    let tag = unsafe words[0].load(ordering: .relaxed)
    let place = unsafe RecordLocation(
      seal: words[2].load(ordering: .relaxed), checksum: words[3].load(ordering: .relaxed),
      address: words[1].load(ordering: .relaxed))
    return place.address != 0 && place.tag(hash) == tag ? place : nil
  }

  /// Has what is at a place fetched, at most its first 1024 bytes. Whether the map is there still does
  /// not matter.
  @inline(__always)
  package func prefetch(_ place: RecordLocation) {
    guard let start = unsafe place.start else { return }
    unsafe larder_prefetch(start, min(place.count, 1024))
  }

  /// Remembers where a record of the map lies. What was seen there longest ago makes room.
  ///
  /// - Parameter record: The bytes as a transaction of the environment lent them.
  package func remember(_ record: RawSpan, of hash: UInt64, seal: UInt64, checksum: UInt64) {
    guard record.byteCount <= Self.maximumLength else { return }
    let address = unsafe record.withUnsafeBytes { UInt64(UInt(bitPattern: $0.baseAddress)) }
    guard address != 0, address >> 48 == 0 else { return }
    let place = RecordLocation(
      seal: seal, checksum: checksum, address: address | UInt64(record.byteCount) << 48)
    let first = unsafe line(hash)
    let second = unsafe first + 4
    let target = unsafe isBetter(second, than: first, for: hash) ? second : first
    unsafe target[0].store(place.tag(hash), ordering: .relaxed)
    unsafe target[1].store(place.address, ordering: .relaxed)
    unsafe target[2].store(place.seal, ordering: .relaxed)
    unsafe target[3].store(place.checksum, ordering: .relaxed)
  }

  /// Whether the second place of a line is the one to write to: that of the hash, or the older.
  private func isBetter(
    _ second: UnsafeMutablePointer<Atomic<UInt64>>,
    than first: UnsafeMutablePointer<Atomic<UInt64>>, for hash: UInt64
  ) -> Bool {
    if unsafe first[1].load(ordering: .relaxed) == 0 || place(of: hash, at: first) != nil {
      return false
    }
    if unsafe second[1].load(ordering: .relaxed) == 0 || place(of: hash, at: second) != nil {
      return true
    }
    // Seals are inverted: the greater one is the older.
    return unsafe second[2].load(ordering: .relaxed) >= first[2].load(ordering: .relaxed)
  }

  /// Lends the bytes that are at a place now.
  ///
  /// They may change while they are looked at. The caller keeps the environment open.
  @inline(__always)
  package func withBytes<R>(at place: RecordLocation, _ body: (RawSpan) throws -> R) rethrows -> R {
    let bytes = unsafe UnsafeRawBufferPointer(start: place.start, count: place.count)
    return try body(unsafe RawSpan(_unsafeBytes: bytes))
  }
}
