// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import BaselineClients

/// The same keys and values for everybody: key i is "key-" and six digits, with value i at first.
final class Dataset {
  let count: Int
  let size: Int
  let keys: [String]
  let values: [[UInt8]]
  let flat: UnsafeMutableBufferPointer<UInt8>

  init(count: Int = 100_000, size: Int = 256) {
    self.count = count
    self.size = size
    var numbers = Numbers(seed: 1)
    flat = .allocate(capacity: count * size)
    for index in flat.indices { flat[index] = UInt8(truncatingIfNeeded: numbers.next()) }
    let flat = flat
    values = (0..<count).map { Array(flat[$0 * size..<($0 + 1) * size]) }
    keys = (0..<count).map(Self.key)
  }

  deinit { flat.deallocate() }

  var forC: peer_data {
    peer_data(values: flat.baseAddress, size: size, count: UInt32(count))
  }

  static func key(_ number: Int) -> String {
    let digits = String(number)
    return "key-" + String(repeating: "0", count: 6 - digits.count) + digits
  }

  /// Some keys, each at most once, others in each round.
  func order(_ round: Int, _ wanted: Int) -> [UInt32] {
    var numbers = Numbers(seed: UInt64(round) + 17)
    var all = Array(0..<UInt32(count))
    let wanted = min(wanted, count)
    for index in 0..<wanted {
      all.swapAt(index, Int.random(in: index..<count, using: &numbers))
    }
    return Array(all.prefix(wanted))
  }

  /// The first eight bytes of a value, for sums.
  @inline(__always)
  static func first(_ bytes: [UInt8]) -> UInt64 {
    bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
  }
}
