// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A key of at most 16 bytes, on the stack: an array per look-up costs as much as the look-up.
package struct ShortKey: Sendable {
  private var bits: UInt128 = 0
  /// The number of bytes.
  package private(set) var count = 0

  package init() {}

  /// Appends the lowest bytes of a number, big-endian.
  @inline(__always)
  package mutating func append(_ number: UInt64, bytes: Int) {
    let mask = bytes < 8 ? UInt64(1) << UInt64(8 * bytes) - 1 : UInt64.max
    bits = bits << UInt128(8 * bytes) | UInt128(number & mask)
    count += bytes
  }

  /// The bytes in memory order; the key is the first ``count`` of them.
  @inline(__always)
  var bytes: UInt128 { (bits << UInt128(8 * (16 - count))).bigEndian }
}
