// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LMDBBaseline

/// Several contenders that do the same calls in turns, A B C A B C: whatever else the machine does
/// meets all of them.
struct ComparisonRun {
  enum Kind { case get, set }

  struct Row {
    let name: String
    let latencies: Latencies
    /// What a call took on average, round by round.
    let rounds: [Double]
    /// The median call, round by round.
    let medians: [Double]
  }

  let title: String
  let kind: Kind
  let data: Dataset
  /// Calls of a round.
  let calls: Int
  let rounds: Int
  /// The only keys used, if not all.
  var hot: [UInt32]?

  private func keys(_ round: Int) -> [UInt32] {
    guard var hot else { return data.order(round, calls) }
    var numbers = Numbers(seed: UInt64(round))
    hot.shuffle(using: &numbers)
    return hot
  }

  /// The rows in the contenders' order. Throws if one of them has other bytes than it should.
  func run(_ contenders: [any BenchmarkSubject]) throws -> [Row] {
    var samples = contenders.map { _ in [UInt32]() }
    var means = contenders.map { _ in [Double]() }
    var medians = contenders.map { _ in [Double]() }
    var expected = Array(0..<data.count)
    try check(contenders, expected)
    if kind == .get, hot == nil { try readAll(contenders) }
    // The first round is thrown away, and so is what precedes each: caches are warm, or as they are.
    for round in 0...rounds {
      let keys = keys(round)
      var sum: UInt64?
      for (index, contender) in contenders.enumerated() {
        var times: [UInt32] = []
        times.reserveCapacity(keys.count)
        try warmUp(contender, keys, round)
        if kind == .get {
          let mine = try contender.get(keys, &times)
          guard mine == sum ?? mine else {
            throw BenchFailure("\(title): \(contender.name) returned other values.")
          }
          sum = mine
        } else {
          try contender.set(keys, shift: round + 1, &times)
        }
        if round == 0 { continue }
        samples[index] += times
        means[index].append(times.reduce(0.0) { $0 + Double($1) } / Double(times.count))
        medians[index].append(Rounds.median(times.map(Double.init)))
      }
      if kind == .set {
        for key in keys { expected[Int(key)] = (Int(key) + round + 1) % data.count }
      }
    }
    try check(contenders, expected)
    return contenders.indices.map { index in
      Row(
        name: contenders[index].name, latencies: Latencies(samples[index]), rounds: means[index],
        medians: medians[index])
    }
  }

  /// Every contender has read every key before it is measured: what a process that runs for long has.
  private func readAll(_ contenders: [any BenchmarkSubject]) throws {
    let all = data.order(0, data.count)
    for contender in contenders {
      for start in stride(from: 0, to: all.count, by: 1000) {
        var times: [UInt32] = []
        _ = try contender.get(Array(all[start..<min(start + 1000, all.count)]), &times)
      }
    }
  }

  /// Five milliseconds of the same calls, whoever makes them: the others have filled the processor's
  /// caches, and a fast one would make all of its calls before they are its own again. The keys are
  /// others, but of the sets, which are made anew afterwards.
  private func warmUp(_ contender: any BenchmarkSubject, _ keys: [UInt32], _ round: Int) throws {
    let others = hot ?? (kind == .set ? keys : data.order(round + 1000, 5000))
    let start = bench_now()
    var times: [UInt32] = []
    for first in stride(from: 0, to: others.count, by: 20) {
      let some = Array(others[first..<min(first + 20, others.count)])
      if kind == .get {
        _ = try contender.get(some, &times)
      } else {
        try contender.set(some, shift: round, &times)
      }
      if bench_now() - start > 5_000_000 { return }
    }
  }

  /// Throws unless all hold the bytes they should, for a sample of the keys.
  private func check(_ contenders: [any BenchmarkSubject], _ expected: [Int]) throws {
    for key in hot ?? data.order(0, min(1000, data.count)) {
      for contender in contenders {
        guard try contender.value(Int(key)) == data.values[expected[Int(key)]] else {
          throw BenchFailure("\(title): \(contender.name) has another value for \(key).")
        }
      }
    }
  }
}

extension ComparisonRun.Row {
  /// How many times as long as another's these calls took.
  func times(_ other: ComparisonRun.Row) -> Ratio {
    Ratio(zip(rounds, other.rounds).map { $0 / $1 })
  }

  /// The same of the median calls.
  func medianTimes(_ other: ComparisonRun.Row) -> Ratio {
    Ratio(zip(medians, other.medians).map { $0 / $1 })
  }
}
