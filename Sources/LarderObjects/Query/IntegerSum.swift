// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Integer sums that do not depend on the order of the values.
enum IntegerSum {
  /// Returns the sum of the values, or `nil` if it exceeds the range of the type.
  static func of<Integer: FixedWidthInteger>(_ values: [Integer]) -> Integer? {
    // Adds quotients and remainders by 2^32 separately. Neither can overflow with as many values as
    // fit into memory, for integers of up to 128 bits; the overflow of the quotients is checked for
    // those.
    guard Integer.bitWidth > 64 else {
      var sum: Int128 = 0
      for value in values { sum += Int128(value) }
      return Integer(exactly: sum)
    }
    var high: Integer = 0
    var low: UInt64 = 0
    for value in values {
      // Floor division with a nonnegative remainder, also for negative values.
      let (sum, overflow) = high.addingReportingOverflow(value >> 32)
      if overflow { return nil }
      high = sum
      low += UInt64(truncatingIfNeeded: value) & 0xFFFF_FFFF
    }
    high += Integer(low >> 32)
    let (product, overflow) = high.multipliedReportingOverflow(by: 1 << 32)
    if overflow { return nil }
    let (sum, isTooLarge) = product.addingReportingOverflow(Integer(low & 0xFFFF_FFFF))
    return isTooLarge ? nil : sum
  }
}
