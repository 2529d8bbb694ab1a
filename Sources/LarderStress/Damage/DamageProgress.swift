// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import Synchronization

/// What a worker says of itself in memory that outlives it: which case it is at, what it is doing
/// to it, since when.
final class DamageProgress: Sendable {
  enum Word: Int {
    /// The number of the case plus one; zero: none.
    case current
    case phase, since
    case opened, refused, healed, unsound, hits, misses, failures, finished, stop
  }

  enum Phase: UInt64 {
    case preparing = 1
    case opening, verifying, reading, listing, writing, closing, reopening, rereading, comparing
    case judging
  }

  private let region: MappedRegion

  init(path: String) throws {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    if try file.status.size < 4096 { try file.preallocate(4096) }
    region = try MappedRegion(sharing: file, count: 4096)
  }

  subscript(word: Word) -> UInt64 {
    get { unsafe address(word).pointee.load(ordering: .sequentiallyConsistent) }
    set { unsafe address(word).pointee.store(newValue, ordering: .sequentiallyConsistent) }
  }

  private func address(_ word: Word) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (region.base + word.rawValue * 8).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  func add(_ word: Word, _ amount: Int = 1) {
    unsafe address(word).pointee.wrappingAdd(UInt64(amount), ordering: .relaxed)
  }

  func enter(_ phase: Phase) {
    self[.since] = Clocks.monotonicNanoseconds()
    self[.phase] = phase.rawValue
  }

  func begin(_ number: Int) {
    self[.since] = Clocks.monotonicNanoseconds()
    self[.phase] = Phase.preparing.rawValue
    self[.current] = UInt64(number) + 1
  }

  /// The case this worker is at, the phase, and how long it has been in it.
  var now: (number: Int, phase: Phase, nanoseconds: UInt64)? {
    let number = self[.current]
    guard number > 0, let phase = Phase(rawValue: self[.phase]) else { return nil }
    let age = Clocks.monotonicNanoseconds() &- self[.since]
    // A phase that began between the two looks at the clock.
    return (Int(number) - 1, phase, age > UInt64(Int64.max) ? 0 : age)
  }
}
