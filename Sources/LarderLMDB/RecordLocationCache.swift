// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
package import LarderSystem
internal import Synchronization

// LOCATION CACHE
//
// A descent through the tree waits for memory at each of its levels. This cache stores where in the
// map a record was, under which snapshot, and its checksum, so that a reader can access the bytes
// directly, without a snapshot. That is valid however the pages have changed since, if the caller
//
// * checks a copy of the bytes against the checksum: whatever the page contains by then, the bytes
//   are those of the snapshot, or they are not used;
// * ensures that no write to the key followed the snapshot, by validation of the read version;
// * keeps the environment open during the access, so that the map exists.
//
// The table belongs to this process and has a fixed size; most of it is never touched in a small
// store: 65,536 lines of two slots each. A line is one cache line of the processor.
//
//      0  tag       u64   hash ^ checksum ^ address * P ^ seal * Q
//      8  address   u64   of the record in the map, and its length in the upper 16 bits
//     16  seal      u64   inverted read version
//     24  checksum  u64
//     32  the other slot
//
// All threads write and read the words one by one, concurrently: if the words of a slot come from
// different writers, its tag does not match.

/// The location of a record in the map, with its checksum.
package struct RecordLocation: Sendable {
  /// The inverted commit version of the snapshot that had the record at the location.
  package let readVersion: UInt64
  package let checksum: UInt64
  fileprivate let address: UInt64

  fileprivate var start: UnsafeRawPointer? {
    unsafe UnsafeRawPointer(bitPattern: UInt(address & (1 << 48 - 1)))
  }

  fileprivate var count: Int { Int(address >> 48) }

  fileprivate func tag(_ hash: UInt64) -> UInt64 {
    hash ^ checksum ^ (address &* 0x9E37_79B9_7F4A_7C15) ^ (readVersion &* 0xC2B2_AE3D_27D4_EB4F)
  }
}

/// The locations of recently read records in the map of one environment.
@safe
package final class RecordLocationCache: Sendable {
  // Safe: they point into the mapping, which contains atomics there.
  private nonisolated(unsafe) let words: UnsafeMutablePointer<Atomic<UInt64>>
  private let memory: MappedRegion
  private let mask: UInt64

  private static let wordsOfLine = 8
  /// The longest cached record; for longer ones, copying costs more than the cache saves.
  private static let maximumLength = 0xFFFF

  /// - Parameter lines: The number of lines, a power of two, of two slots each.
  package init(lines: Int = 1 << 16) throws(SystemError) {
    precondition(lines > 0 && lines & (lines - 1) == 0, "lines are a power of two")
    mask = UInt64(lines - 1)
    let count = lines * Self.wordsOfLine
    memory = try MappedRegion(zeros: count * 8)
    unsafe words = memory.base.bindMemory(to: Atomic<UInt64>.self, capacity: count)
  }

  @inline(__always)
  private func line(_ hash: UInt64) -> UnsafeMutablePointer<Atomic<UInt64>> {
    // The low bits choose a stamp slot; with other bits here, the keys of one slot use many lines.
    unsafe words + Int(truncatingIfNeeded: (hash &>> 16) & mask) &* Self.wordsOfLine
  }

  /// Prefetches the line of a hash.
  package func prefetch(_ hash: UInt64) { unsafe LarderSystem.prefetch(line(hash)) }

  /// Returns the location stored for a hash.
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
      readVersion: words[2].load(ordering: .relaxed), checksum: words[3].load(ordering: .relaxed),
      address: words[1].load(ordering: .relaxed))
    return place.address != 0 && place.tag(hash) == tag ? place : nil
  }

  /// Prefetches the record at a location, at most its first 1024 bytes. The map need not exist any
  /// more.
  @inline(__always)
  package func prefetch(_ place: RecordLocation) {
    guard let start = unsafe place.start else { return }
    unsafe larder_prefetch(start, min(place.count, 1024))
  }

  /// Stores the location of a record of the map. It replaces the older entry of the line.
  ///
  /// - Parameter record: The bytes in the map, borrowed from a transaction of the environment.
  package func remember(_ record: RawSpan, of hash: UInt64, readVersion: UInt64, checksum: UInt64) {
    guard record.byteCount <= Self.maximumLength else { return }
    let address = unsafe record.withUnsafeBytes { UInt64(UInt(bitPattern: $0.baseAddress)) }
    guard address != 0, address >> 48 == 0 else { return }
    let place = RecordLocation(
      readVersion: readVersion, checksum: checksum,
      address: address | UInt64(record.byteCount) << 48)
    let first = unsafe line(hash)
    let second = unsafe first + 4
    let target = unsafe isBetter(second, than: first, for: hash) ? second : first
    unsafe target[0].store(place.tag(hash), ordering: .relaxed)
    unsafe target[1].store(place.address, ordering: .relaxed)
    unsafe target[2].store(place.readVersion, ordering: .relaxed)
    unsafe target[3].store(place.checksum, ordering: .relaxed)
  }

  /// Returns whether to write to the second slot of a line: the one with the hash, or the older
  /// one.
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
    // Read versions are inverted: the greater one is the older.
    return unsafe second[2].load(ordering: .relaxed) >= first[2].load(ordering: .relaxed)
  }

  /// Calls a closure with the bytes now at a location.
  ///
  /// The bytes may change during the call. The caller keeps the environment open.
  @inline(__always)
  package func withBytes<R>(at place: RecordLocation, _ body: (RawSpan) throws -> R) rethrows -> R {
    let bytes = unsafe UnsafeRawBufferPointer(start: place.start, count: place.count)
    return try body(unsafe RawSpan(_unsafeBytes: bytes))
  }
}
