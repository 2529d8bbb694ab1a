// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine
internal import LarderSystem

// REDUCTIONS
//
// A sum over a hundred thousand objects reads a field of each, and a generic function looks its types up
// in each call. So the loop over the objects knows ``FieldReceiver`` only, and the most frequent sums
// are classes without type parameters.
//
// Sums of integers are exact. An intermediate sum may exceed the range of the type: integers of up to
// 64 bits are added as integers of 128 bits. Of wider ones, quotients and remainders by 2^32 are added
// separately: of integers of 128 bits, neither can overflow with as many values as fit into memory.

/// The part of a reduction that a loop over stored objects calls, without type parameters.
class FieldReceiver {
  /// Whether no value was added.
  fileprivate(set) final var isEmpty = true

  /// Whether the result depends on the order of the values, as a sum of floating-point numbers does.
  var dependsOnOrder: Bool { false }

  /// Adds the value of a field.
  ///
  /// - Returns: `false` if the object must be decoded for it.
  func add(stored field: RawSpan) -> Bool { false }
}

/// A result that is made of the values of a property, in any order.
class FieldReduction<Value>: FieldReceiver {
  fileprivate let read: StoredFieldCoder<Value>? = .of(Value.self)

  func add(_ value: Value) { isEmpty = false }

  final override func add(stored field: RawSpan) -> Bool {
    addsFast(field)
      ?? {
        guard let value = read?.read(field) else { return false }
        add(value)
        return true
      }()
  }

  /// Adds the value of a field without generic code.
  ///
  /// - Returns: Whether the value was added, or `nil` if there is no such code for the type.
  func addsFast(_ field: RawSpan) -> Bool? { nil }
}

/// A reduction of the values of an optional property, without the missing ones.
final class OptionalReduction<Value, Reduction: FieldReduction<Value>>: FieldReduction<Value?> {
  let wrapped: Reduction

  init(_ wrapped: Reduction) { self.wrapped = wrapped }

  override var dependsOnOrder: Bool { wrapped.dependsOnOrder }

  override func add(_ value: Value?) {
    guard let value else { return }
    isEmpty = false
    wrapped.add(value)
  }
}

/// The number of values.
final class CountReduction<Value>: FieldReduction<Value> {
  private(set) var result = 0

  override func add(_ value: Value) {
    super.add(value)
    result += 1
  }

  // The key was read before.
  override func addsFast(_ field: RawSpan) -> Bool? {
    isEmpty = false
    result += 1
    return true
  }
}

/// The first value in an order.
final class ExtremeReduction<Value>: FieldReduction<Value> {
  private(set) var result: Value?
  private let precedes: (Value, Value) -> Bool

  init(_ precedes: @escaping (Value, Value) -> Bool) { self.precedes = precedes }

  override func add(_ value: Value) {
    super.add(value)
    if result.map({ precedes(value, $0) }) ?? true { result = value }
  }
}

/// The arithmetic mean of values as numbers.
final class MeanReduction<Value>: FieldReduction<Value> {
  private var sum = 0.0
  private var count = 0.0
  private let number: (Value) -> Double

  init(_ number: @escaping (Value) -> Double) { self.number = number }

  override var dependsOnOrder: Bool { true }

  /// The mean, or `nil` if there are no values.
  var result: Double? { isEmpty ? nil : sum / count }

  override func add(_ value: Value) {
    super.add(value)
    sum += number(value)
    count += 1
  }
}

/// The sum of values: added with their own `+`, integers exactly.
class Summation<Value: AdditiveArithmetic>: FieldReduction<Value> {
  /// Creates an empty sum.
  static func make() -> Summation {
    func exact<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Summation? {
      IntegerSummation<Integer>() as? Summation
    }
    if let sum = (IntSummation() as? Summation) ?? (DoubleSummation() as? Summation) { return sum }
    return (Value.self as? any FixedWidthInteger.Type).flatMap { exact($0) } ?? Summation()
  }

  private var total = Value.zero
  fileprivate override init() {}

  override var dependsOnOrder: Bool { !(Value.self is any FixedWidthInteger.Type) }

  override func add(_ value: Value) {
    super.add(value)
    total += value
  }

  /// The sum, or `nil` if it exceeds the range of the type.
  var result: Value? { total }
}

private final class IntSummation: Summation<Int> {
  private var sum: Int128 = 0

  override func add(_ value: Int) {
    isEmpty = false
    sum += Int128(value)
  }

  override func addsFast(_ field: RawSpan) -> Bool? {
    guard let value = Int.read(field) else { return false }
    isEmpty = false
    sum += Int128(value)
    return true
  }

  override var result: Int? { Int(exactly: sum) }
}

private final class DoubleSummation: Summation<Double> {
  private var sum = 0.0

  override func add(_ value: Double) {
    isEmpty = false
    sum += value
  }

  override func addsFast(_ field: RawSpan) -> Bool? {
    guard let value = Double.read(field) else { return false }
    isEmpty = false
    sum += value
    return true
  }

  override var result: Double? { sum }
}

private final class IntegerSummation<Integer: FixedWidthInteger>: Summation<Integer> {
  private var sum: Int128 = 0
  private var high: Integer = 0
  private var low: UInt64 = 0
  private var overflows = false

  override init() {}

  override func add(_ value: Integer) {
    isEmpty = false
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
