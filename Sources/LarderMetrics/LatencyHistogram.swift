// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Metrics
internal import LarderEngine
internal import Synchronization

/// A distribution of durations in fixed buckets, from 100 ns to 100 s in steps of 1, 2 and 5.
///
/// Recording increments two atomic counters, without a lock and without an allocation. Threads increment
/// counters of different stripes, so that they rarely share a cache line.
package final class LatencyHistogram: Sendable {
  /// The upper bounds of the buckets in nanoseconds, ascending. A duration belongs to the first bucket
  /// whose bound is not lower; after the last bound there is one more bucket.
  package static let bounds: [UInt64] = (2...11).flatMap { exponent in
    let decade = (0..<exponent).reduce(1 as UInt64) { power, _ in power * 10 }
    return exponent < 11 ? [decade, 2 * decade, 5 * decade] : [decade]
  }

  /// The counts of the buckets, and the sum of the durations.
  package struct Snapshot: Sendable, Equatable {
    /// The number of durations in each bucket; not cumulative.
    package var counts: [UInt64]
    /// The sum of the durations in nanoseconds.
    package var sum: UInt64

    package var count: UInt64 { counts.reduce(0, +) }
  }

  /// A counter in a separate allocation: `Atomic` cannot be an element of an array.
  private final class Cell: Sendable { let value = Atomic<UInt64>(0) }

  /// For each stripe the buckets, and then the sum.
  private let cells: [Cell]
  private let mask: Int
  private static let width = bounds.count + 2

  /// Creates an empty distribution.
  ///
  /// - Parameter stripes: The number of stripes, a power of two.
  package init(stripes: Int = 1) {
    mask = stripes - 1
    cells = (0..<stripes * Self.width).map { _ in Cell() }
  }

  /// Adds a duration.
  package func record(nanoseconds: UInt64) {
    let stripe =
      mask == 0 ? 0 : Int((StoreCore.callingThread &* 0x9E37_79B9_7F4A_7C15) >> 56) & mask
    let first = stripe * Self.width
    cells[first + Self.bucket(of: nanoseconds)].value.wrappingAdd(1, ordering: .relaxed)
    cells[first + Self.width - 1].value.wrappingAdd(nanoseconds, ordering: .relaxed)
  }

  /// Returns the number of the bucket of a duration.
  package static func bucket(of nanoseconds: UInt64) -> Int {
    let bounds = bounds
    var (low, high) = (0, bounds.count)
    while low < high {
      let middle = (low + high) / 2
      if bounds[middle] < nanoseconds { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// The distribution now. A duration that is added at the same time may be in the counts and not in
  /// the sum, or the reverse.
  package var snapshot: Snapshot {
    var result = Snapshot(counts: Array(repeating: 0, count: Self.width - 1), sum: 0)
    for first in stride(from: 0, to: cells.count, by: Self.width) {
      for bucket in result.counts.indices {
        result.counts[bucket] &+= cells[first + bucket].value.load(ordering: .relaxed)
      }
      result.sum &+= cells[first + Self.width - 1].value.load(ordering: .relaxed)
    }
    return result
  }
}
#endif
