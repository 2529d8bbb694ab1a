// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

// THE ORDER OF A SORT
//
// `Comparable` promises a total order, and floating-point numbers and dates do not keep the promise:
// what is no number (NaN) is neither below nor above anything. Sorted by `<` alone, one of them puts
// all others out of order, and pages that go on behind a value repeat and never end. So a sort has an
// order of its own: by `<`; what does not even equal itself comes behind everything, as it does in an
// index (`IndexKeyEncoder.swift`); and a value that is missing comes before everything, likewise.

//
// Texts are in the order of the bytes of their normalization form C, which is the order of an index.
// Swift's `<` is the same but for texts of conjoining jamo, which it does not compose to compare.

/// The order values are sorted in.
package enum SortOrdering {
  /// Whether a value is below another: by `<`, and texts by their canonical bytes.
  package static func isBelow<Value: Comparable>(_ left: Value, _ right: Value) -> Bool {
    guard Value.self == String.self else { return left < right }
    return textIsBelow(left as! String, right as! String)
  }

  /// Whether a value is another or below it: by `<=`, and texts by their canonical bytes.
  package static func isAtMost<Value: Comparable>(_ left: Value, _ right: Value) -> Bool {
    guard Value.self == String.self else { return left <= right }
    return !textIsBelow(right as! String, left as! String)
  }

  /// Negative: the first comes first; zero: neither does.
  package static func of<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
    if Value.self == String.self {
      return isBelow(left, right) ? -1 : isBelow(right, left) ? 1 : 0
    }
    if left < right { return -1 }
    if right < left { return 1 }
    if left == right { return 0 }
    return (left == left ? 0 : 1) - (right == right ? 0 : 1)
  }

  /// The same with values that may be missing.
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
