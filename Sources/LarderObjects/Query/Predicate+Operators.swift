// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

// The comparisons that key paths support directly: `\.year >= 2020`.

extension KeyRange {
  /// The maximum length of an index key in bytes. Longer constants are compared by their truncated
  /// keys.
  static let limit = 440

  /// The range with bounds that an index stores completely.
  var widened: KeyRange {
    KeyRange(
      lower: KeyRange.bound(lower),
      upper: upper.map { $0.count > KeyRange.limit ? KeyRange.after(KeyRange.bound($0)) : $0 })
  }

  static func bound(_ key: [UInt8]) -> [UInt8] { Array(key.prefix(limit)) }

  static func equal(_ key: [UInt8]) -> KeyRange {
    guard key.count > limit else { return .exactly(key) }
    return KeyRange(lower: bound(key), upper: after(bound(key)))
  }
  static func from(_ key: [UInt8]) -> KeyRange { KeyRange(lower: bound(key), upper: nil) }
  static func above(_ key: [UInt8]) -> KeyRange {
    KeyRange(lower: key.count > limit ? bound(key) : after(key), upper: nil)
  }
  static func below(_ key: [UInt8]) -> KeyRange {
    KeyRange(lower: firstValue, upper: key.count > limit ? after(bound(key)) : key)
  }
  static func upTo(_ key: [UInt8]) -> KeyRange {
    KeyRange(lower: firstValue, upper: after(bound(key)))
  }

  /// Returns whether the key of a constant determines exactly which values match.
  static func isExact<Value: Sendable>(_ key: [UInt8], _ value: Value) -> Bool {
    guard key.count <= limit else { return false }
    // The frequent types first: a dynamic conformance check costs more than these comparisons.
    if Value.self == Int.self || Value.self == String.self { return true }
    // NaN encodes after every number, but `==` and `>` return false for it, so the key range is not
    // exact.
    return !(value is any FloatingPoint || value is Date)
  }
}

/// Returns the index key of a constant, or `nil` if an index cannot contain the type.
func indexKey<Value: Sendable>(_ value: Value) -> [UInt8]? {
  if Value.self == Int.self, let value = value as? Int { return value.indexKey }
  if Value.self == String.self, let value = value as? String { return value.indexKey }
  return (value as? any IndexValue)?.indexKey
}

extension Predicate {
  static func compare<Value: Sendable>(
    _ path: PropertyPath<Object, Value>, _ sign: String, _ value: some Sendable,
    _ range: ([UInt8]) -> KeyRange, _ holds: @escaping @Sendable (Value) -> Bool
  ) -> Predicate {
    // A type with its own `<` has an order that differs from the order of its keys.
    let key = sign == "==" || isIndexOrdered(value) ? indexKey(value) : nil
    return Predicate(
      of: path, "\(path.name) \(sign) \(literal(value))", constants: ConstantIdentity(value),
      ranges: key.map { [range($0)] }.flatMap { dates($0, sign, value) },
      isExact: key.map { KeyRange.isExact($0, value) } ?? false
    ) { holds($0) }
  }

  private static func isIndexOrdered<Constant: Sendable>(_ value: Constant) -> Bool {
    Constant.self == Int.self || Constant.self == String.self
      || Constant.self is any IndexOrdered.Type
  }

  /// Adjusts the ranges for dates. In Swift, `<=` of `Date` means "not above", so a NaN date is
  /// both at most and at least every other date.
  private static func dates(
    _ ranges: [KeyRange], _ sign: String, _ value: some Sendable
  ) -> [KeyRange]? {
    guard let date = value as? Date else { return ranges }
    let isNumber = !date.timeIntervalSinceReferenceDate.isNaN
    let nothing = Date(timeIntervalSinceReferenceDate: .nan)
    if sign == "<=" { return isNumber ? ranges + [.exactly(nothing.indexKey)] : nil }
    return isNumber ? ranges : nil
  }

  static func different<Value: Equatable & Sendable>(
    _ path: PropertyPath<Object, Value>, _ value: Value
  ) -> Predicate {
    Predicate(
      of: path, "\(path.name) != \(literal(value))", constants: ConstantIdentity(value)
    ) { $0 != value }
  }

  /// Returns the description of a constant.
  static func literal(_ value: some Sendable) -> String {
    switch value {
    case let text as String: text.debugDescription
    // The calendar form loses the fraction, and traps outside the range of the calendar.
    case let date as Date: "Date(\(date.timeIntervalSinceReferenceDate))"
    default: "\(value)"
    }
  }
}

/// Returns a predicate that matches objects whose property equals a value. An index on the property
/// serves it.
///
/// - Parameters:
///   - path: The property.
///   - value: The value.
/// - Returns: The predicate.
public func == <Object: Storable, Value: Equatable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "==", value, KeyRange.equal) { $0 == value }
}

/// Returns a predicate that matches objects whose property differs from a value.
///
/// - Parameters:
///   - path: The property.
///   - value: The value.
/// - Returns: The predicate.
public func != <Object: Storable, Value: Equatable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .different(PropertyPath(path), value)
}

/// Returns a predicate that matches objects whose property is less than a value. An index on the
/// property serves it.
///
/// - Parameters:
///   - path: The property.
///   - value: The exclusive upper bound.
/// - Returns: The predicate.
public func < <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "<", value, KeyRange.below) { SortOrdering.isBelow($0, value) }
}

/// Returns a predicate that matches objects whose property is at most a value. An index on the
/// property serves it.
///
/// - Parameters:
///   - path: The property.
///   - value: The inclusive upper bound.
/// - Returns: The predicate.
public func <= <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "<=", value, KeyRange.upTo) { SortOrdering.isAtMost($0, value) }
}

/// Returns a predicate that matches objects whose property is greater than a value. An index on the
/// property serves it.
///
/// - Parameters:
///   - path: The property.
///   - value: The exclusive lower bound.
/// - Returns: The predicate.
public func > <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), ">", value, KeyRange.above) { SortOrdering.isBelow(value, $0) }
}

/// Returns a predicate that matches objects whose property is at least a value. An index on the
/// property serves it.
///
/// - Parameters:
///   - path: The property.
///   - value: The inclusive lower bound.
/// - Returns: The predicate.
public func >= <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), ">=", value, KeyRange.from) { SortOrdering.isAtMost(value, $0) }
}

// `nil` is neither less than nor greater than any value.

/// Returns a predicate that matches objects whose optional property has a value that is less than
/// another.
///
/// - Parameters:
///   - path: The optional property; `nil` does not match.
///   - value: The exclusive upper bound.
/// - Returns: The predicate.
public func < <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "<", value, KeyRange.below) {
    $0.map { SortOrdering.isBelow($0, value) } ?? false
  }
}

/// Returns a predicate that matches objects whose optional property has a value that is at most
/// another.
///
/// - Parameters:
///   - path: The optional property; `nil` does not match.
///   - value: The inclusive upper bound.
/// - Returns: The predicate.
public func <= <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "<=", value, KeyRange.upTo) {
    $0.map { SortOrdering.isAtMost($0, value) } ?? false
  }
}

/// Returns a predicate that matches objects whose optional property has a value that is greater
/// than another.
///
/// - Parameters:
///   - path: The optional property; `nil` does not match.
///   - value: The exclusive lower bound.
/// - Returns: The predicate.
public func > <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), ">", value, KeyRange.above) {
    $0.map { SortOrdering.isBelow(value, $0) } ?? false
  }
}

/// Returns a predicate that matches objects whose optional property has a value that is at least
/// another.
///
/// - Parameters:
///   - path: The optional property; `nil` does not match.
///   - value: The inclusive lower bound.
/// - Returns: The predicate.
public func >= <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), ">=", value, KeyRange.from) {
    $0.map { SortOrdering.isAtMost(value, $0) } ?? false
  }
}
