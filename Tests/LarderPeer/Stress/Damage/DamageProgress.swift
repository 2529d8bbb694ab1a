// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem

/// The progress of a damage worker in memory that outlives it: the current case, the phase of the
/// case, and the start of the phase.
final class DamageProgress: Sendable {
  enum Word: Int {
    /// The number of the case plus one, or zero without a case.
    case current
    case phase, since
    case opened, refused, healed, unsound, hits, misses, failures, finished, stop
  }

  enum Phase: UInt64 {
    case preparing = 1
    case opening, verifying, reading, listing, writing, closing, reopening, rereading, comparing
    case judging
  }

  private let words: SharedWords

  init(path: String) throws { words = try SharedWords(path: path) }

  subscript(word: Word) -> UInt64 {
    get { words[word.rawValue] }
    set { words[word.rawValue] = newValue }
  }

  func add(_ word: Word, _ amount: Int = 1) { words.add(word.rawValue, UInt64(amount)) }

  func enter(_ phase: Phase) {
    self[.since] = Clocks.monotonicNanoseconds()
    self[.phase] = phase.rawValue
  }

  func begin(_ number: Int) {
    self[.since] = Clocks.monotonicNanoseconds()
    self[.phase] = Phase.preparing.rawValue
    self[.current] = UInt64(number) + 1
  }

  /// The current case, its phase, and the nanoseconds since the phase began; `nil` without a case.
  var now: (number: Int, phase: Phase, nanoseconds: UInt64)? {
    let number = self[.current]
    guard number > 0, let phase = Phase(rawValue: self[.phase]) else { return nil }
    let age = Clocks.monotonicNanoseconds() &- self[.since]
    // A phase that began after the clock was read has a negative age.
    return (Int(number) - 1, phase, age > UInt64(Int64.max) ? 0 : age)
  }
}
#endif
