// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Redis
import LarderSystem

/// The record of all writes of a run, in a file that their processes map.
///
/// Each key has one writer, which writes the numbers from 1 on. It records each number with the time at which
/// the server had acknowledged it. A reader that gets a number, and finds the next one recorded, knows for how
/// long the number has been out of date.
///
/// The file has 64 pairs of a number and a time for each key.
struct HostOracle: Sendable {
  private static let slots = 64
  private let words: SharedWords

  init(path: String, keys: Int) throws {
    words = try SharedWords(path: path, size: keys * Self.slots * 16)
  }

  /// Returns the first of the two words of a number.
  private func place(_ key: Int, _ number: UInt64) -> Int {
    (key * Self.slots + Int(number % UInt64(Self.slots))) * 2
  }

  func record(_ number: UInt64, key: Int) {
    let start = place(key, number)
    words[start] = 0
    words[start + 1] = Clocks.monotonicNanoseconds()
    words[start] = number
  }

  /// Returns the nanoseconds for which a number had been out of date at a time, or zero.
  func staleness(of number: UInt64, key: Int, at time: UInt64) -> UInt64 {
    let start = place(key, number + 1)
    guard words[start] == number + 1 else { return 0 }
    let acknowledged = words[start + 1]
    guard words[start] == number + 1, acknowledged < time else { return 0 }
    return time - acknowledged
  }
}

/// Numbers of which small ones come often: the number *k* with a probability proportional to 1/*k*.
struct ZipfNumbers: Sendable {
  private let sums: [Double]

  init(count: Int) {
    var sum = 0.0
    sums = (1...count).map { rank in
      sum += 1 / Double(rank)
      return sum
    }
  }

  func next(_ random: inout some RandomNumberGenerator) -> Int {
    let target = Double.random(in: 0..<sums.last!, using: &random)
    var (low, high) = (0, sums.count - 1)
    while low < high {
      let middle = (low + high) / 2
      if sums[middle] > target { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
#endif
