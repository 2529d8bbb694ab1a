// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Sums of integers that do not depend on the order.
enum IntegerSum {
  /// `nil`: the sum does not fit the type.
  static func of<Integer: FixedWidthInteger>(_ values: [Integer]) -> Integer? {
    // In two parts: of the quotients and of the remainders by 2^32, of which neither can overflow in
    // fewer values than memory holds, up to integers of 128 bits, whose quotients are watched.
    guard Integer.bitWidth > 64 else {
      var sum: Int128 = 0
      for value in values { sum += Int128(value) }
      return Integer(exactly: sum)
    }
    var high: Integer = 0
    var low: UInt64 = 0
    for value in values {
      // Floor and remainder, also of what is negative.
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
