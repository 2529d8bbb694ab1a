// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

// THE ORDER OF A SORT
//
// `Comparable` requires a total order, which floating-point numbers and dates do not have: NaN is
// neither less than nor greater than any value. In a sort by `<` alone, one NaN disorders all
// values, and pages that continue after a value repeat and never end. So a sort defines a total
// order: by `<`; a value that does not equal itself comes after everything, as it does in an index
// (`IndexKeyEncoder.swift`); and a missing value comes before everything, likewise.
//
// Strings are ordered by the bytes of their normalization form C, which is the order of an index.
// Swift's `<` is the same except for strings of conjoining jamo, which it does not compose before
// it compares.

/// The total order of sorted values.
package enum SortOrdering {
  /// Returns whether a value is less than another: by `<`, strings by their canonical bytes.
  ///
  /// - Parameters:
  ///   - left: A value.
  ///   - right: Another value.
  /// - Returns: `true` if `left` is less than `right`.
  package static func isBelow<Value: Comparable>(_ left: Value, _ right: Value) -> Bool {
    guard Value.self == String.self else { return left < right }
    return textIsBelow(left as! String, right as! String)
  }

  /// Returns whether a value is at most another: by `<=`, strings by their canonical bytes.
  ///
  /// - Parameters:
  ///   - left: A value.
  ///   - right: Another value.
  /// - Returns: `true` if `left` is at most `right`.
  package static func isAtMost<Value: Comparable>(_ left: Value, _ right: Value) -> Bool {
    guard Value.self == String.self else { return left <= right }
    return !textIsBelow(right as! String, left as! String)
  }

  /// Returns a function that compares a value with a constant.
  static func test<Value: Comparable & Sendable>(
    _ sign: ComparisonOperator, _ constant: Value
  ) -> @Sendable (Value) -> Bool {
    switch sign {
    case .equal: { $0 == constant }
    case .different: { $0 != constant }
    case .less: { isBelow($0, constant) }
    case .atMost: { isAtMost($0, constant) }
    case .greater: { isBelow(constant, $0) }
    case .atLeast: { isAtMost(constant, $0) }
    }
  }

  /// Compares two values.
  ///
  /// - Parameters:
  ///   - left: A value.
  ///   - right: Another value.
  /// - Returns: A negative number if `left` comes first, zero if they are equal, otherwise a
  ///   positive number.
  package static func of<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
    if Value.self == String.self {
      return isBelow(left, right) ? -1 : isBelow(right, left) ? 1 : 0
    }
    if left < right { return -1 }
    if right < left { return 1 }
    if left == right { return 0 }
    return (left == left ? 0 : 1) - (right == right ? 0 : 1)
  }

  /// Compares two optional values; `nil` comes first.
  ///
  /// - Parameters:
  ///   - left: A value.
  ///   - right: Another value.
  /// - Returns: A negative number if `left` comes first, zero if they are equal, otherwise a
  ///   positive number.
  package static func of<Value: Comparable>(_ left: Value?, _ right: Value?) -> Int {
    switch (left, right) {
    case (nil, nil): 0
    case (nil, _): -1
    case (_, nil): 1
    case (let left?, let right?): of(left, right)
    }
  }
}

/// Types whose order is the order of their index keys.
protocol IndexOrdered {}
extension Int: IndexOrdered {}
extension Int8: IndexOrdered {}
extension Int16: IndexOrdered {}
extension Int32: IndexOrdered {}
extension Int64: IndexOrdered {}
extension UInt: IndexOrdered {}
extension UInt8: IndexOrdered {}
extension UInt16: IndexOrdered {}
extension UInt32: IndexOrdered {}
extension UInt64: IndexOrdered {}
extension Float: IndexOrdered {}
extension Double: IndexOrdered {}
extension Date: IndexOrdered {}
extension String: IndexOrdered {}
