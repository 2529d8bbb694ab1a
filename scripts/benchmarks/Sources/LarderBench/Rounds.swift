// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LMDBBaseline

/// How figures are measured: in turns, A B A B, a round of each thrown away first, and of the rest
/// the median of the rounds' ratios. Whatever else the machine does meets both.
enum Rounds {
  struct Comparison {
    /// Larder's time over the rival's: the median of the rounds.
    let ratio: Double
    /// Medians, in what `own` and `rival` returned.
    let own: Double
    let rival: Double
    /// The quartiles of the rounds' ratios, of the same upside down, and of what `own` returned.
    let spread: ClosedRange<Double>
    let inverseSpread: ClosedRange<Double>
    let ownSpread: ClosedRange<Double>
  }

  /// Between which the middle half of the values lies.
  static func quartiles(_ values: [Double]) -> ClosedRange<Double> {
    let sorted = values.sorted()
    precondition(!sorted.isEmpty, "the quartiles of nothing")
    return sorted[(sorted.count - 1) / 4]...sorted[(sorted.count * 3) / 4]
  }

  static func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    precondition(!sorted.isEmpty, "the median of nothing")
    let middle = sorted.count / 2
    return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
  }

  /// Runs both in turns; each is given the round's number and returns what it took.
  static func compare(
    count: Int, own: (Int) throws -> Double, rival: (Int) throws -> Double
  ) rethrows -> Comparison {
    var owns: [Double] = []
    var rivals: [Double] = []
    for round in 0...count {
      let first = try own(round)
      let second = try rival(round)
      if round == 0 { continue }
      owns.append(first)
      rivals.append(second)
    }
    let ratios = zip(owns, rivals).map { $0 / $1 }
    return Comparison(
      ratio: median(ratios), own: median(owns), rival: median(rivals), spread: quartiles(ratios),
      inverseSpread: quartiles(ratios.map { 1 / $0 }), ownSpread: quartiles(owns))
  }

  /// Nanoseconds `body` takes.
  @inline(__always)
  static func nanoseconds(_ body: () throws -> Void) rethrows -> Double {
    let start = bench_now()
    try body()
    return Double(bench_now() - start)
  }
}

/// Keeps the optimiser from throwing a result away.
@inline(never)
func keep<T>(_ value: borrowing T) {}

/// A small generator that gives both sides the same numbers.
struct Numbers: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}

struct BenchFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
