// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// EXACT SUMS
//
// An intermediate sum may exceed the range of the type. Integers of up to 64 bits are added as
// integers of 128 bits. Of wider ones, quotients and remainders by 2^32 are added separately: of
// integers of 128 bits, neither can overflow with as many values as fit into memory.

/// The sum of values of a type: added with their own `+`, integers exactly.
class Summation<Value: AdditiveArithmetic> {
  /// Creates an empty sum.
  static func make() -> Summation {
    func exact<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Summation? {
      IntegerSummation<Integer>() as? Summation
    }
    return (Value.self as? any FixedWidthInteger.Type).flatMap { exact($0) } ?? Summation()
  }

  private var total = Value.zero
  fileprivate init() {}

  func add(_ value: Value) { total += value }

  /// The sum, or `nil` if it exceeds the range of the type.
  var result: Value? { total }
}

private final class IntegerSummation<Integer: FixedWidthInteger>: Summation<Integer> {
  private var sum: Int128 = 0
  private var high: Integer = 0
  private var low: UInt64 = 0
  private var overflows = false

  override init() {}

  override func add(_ value: Integer) {
    if Integer.bitWidth <= 64 {
      sum += Int128(truncatingIfNeeded: value)
      return
    }
    // Floor division with a nonnegative remainder, also for negative values.
    let (sum, overflow) = high.addingReportingOverflow(value >> 32)
    high = sum
    overflows = overflows || overflow
    low += UInt64(truncatingIfNeeded: value) & 0xFFFF_FFFF
  }

  override var result: Integer? {
    if Integer.bitWidth <= 64 { return Integer(exactly: sum) }
    if overflows { return nil }
    let (quotient, isTooHigh) = high.addingReportingOverflow(Integer(low >> 32))
    let (product, overflow) = quotient.multipliedReportingOverflow(by: 1 << 32)
    let (sum, isTooLarge) = product.addingReportingOverflow(Integer(low & 0xFFFF_FFFF))
    return isTooHigh || overflow || isTooLarge ? nil : sum
  }
}
