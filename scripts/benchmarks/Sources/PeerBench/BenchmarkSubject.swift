// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline

/// Somebody who does the same work as the others, timed call by call.
protocol BenchmarkSubject: AnyObject {
  /// What it is, with its version and settings.
  var name: String { get }
  /// Gets each key; the nanoseconds of each call are appended. Returns the sum of the first eight
  /// bytes of all values.
  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64
  /// Sets each key to the value of key + shift; committed when the call returns.
  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws
  /// The value stored, empty if there is none.
  func value(_ key: Int) throws -> [UInt8]
}

extension BenchmarkSubject {
  /// Nanoseconds of a call, appended.
  @inline(__always)
  func recordingTimings<R>(_ times: inout [UInt32], _ body: () throws -> R) rethrows -> R {
    let start = bench_now()
    let result = try body()
    times.append(UInt32(clamping: bench_now() - start))
    return result
  }
}

/// What single calls took, in nanoseconds.
struct Latencies {
  let count: Int
  let mean: Double
  let median: Double
  let p99: Double
  let p999: Double
  let maximum: Double

  init(_ samples: [UInt32]) {
    precondition(!samples.isEmpty, "latencies of nothing")
    let sorted = samples.sorted()
    func at(_ share: Double) -> Double {
      Double(sorted[min(Int(Double(sorted.count) * share), sorted.count - 1)])
    }
    count = sorted.count
    mean = sorted.reduce(0.0) { $0 + Double($1) } / Double(sorted.count)
    (median, p99, p999, maximum) = (at(0.5), at(0.99), at(0.999), Double(sorted.last!))
  }
}

/// A ratio over rounds: the median of them, and their quartiles.
struct Ratio {
  let value: Double
  let spread: ClosedRange<Double>

  init(_ rounds: [Double]) {
    value = Rounds.median(rounds)
    spread = Rounds.quartiles(rounds)
  }
}

/// A contender whose values are Foundation's data.
protocol DataContender: BenchmarkSubject {
  var data: Dataset { get }
  func read(_ key: String) throws -> Data?
}

extension DataContender {
  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64 {
    var sum: UInt64 = 0
    for key in keys {
      let name = data.keys[Int(key)]
      guard let bytes = try recordingTimings(&times, { try read(name) }) else {
        throw BenchFailure("A key is missing.")
      }
      sum &+= bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
    }
    return sum
  }
}
