// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

// The comparisons that key paths have by themselves: `\.year >= 2020`.

extension KeyRange {
  /// Constants longer than an index keeps are compared by what it keeps.
  static let limit = 440

  /// With bounds that an index keeps whole.
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

  /// Whether a constant's key tells exactly which values fit.
  static func isExact<Value: Sendable>(_ key: [UInt8], _ value: Value) -> Bool {
    guard key.count <= limit else { return false }
    // The frequent types first: asking for a conformance costs more than these.
    if Value.self == Int.self || Value.self == String.self { return true }
    // What is no number has a key behind all others, and is neither equal to nor above anything.
    return !(value is any FloatingPoint || value is Date)
  }
}

/// The index key of a constant; `nil`: no index can be over it.
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
    // A type with its own `<` has another order than its keys.
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

  /// To `Date` one that is no number is at most, and at least, every other: Swift's `<=` is "not above".
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

  /// What a constant looks like in a description.
  static func literal(_ value: some Sendable) -> String {
    switch value {
    case let text as String: text.debugDescription
    // In words it would lose its fraction, and trap where the calendar ends.
    case let date as Date: "Date(\(date.timeIntervalSinceReferenceDate))"
    default: "\(value)"
    }
  }
}

/// Whether the property has this value.
public func == <Object: Storable, Value: Equatable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "==", value, KeyRange.equal) { $0 == value }
}

/// Whether the property has another value.
public func != <Object: Storable, Value: Equatable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .different(PropertyPath(path), value)
}

/// Whether the property is below a value.
public func < <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "<", value, KeyRange.below) { SortOrdering.isBelow($0, value) }
}

/// Whether the property is a value or below it.
public func <= <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "<=", value, KeyRange.upTo) { SortOrdering.isAtMost($0, value) }
}

/// Whether the property is above a value.
public func > <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), ">", value, KeyRange.above) { SortOrdering.isBelow(value, $0) }
}

/// Whether the property is a value or above it.
public func >= <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), ">=", value, KeyRange.from) { SortOrdering.isAtMost(value, $0) }
}

// What is missing is neither below nor above anything.

/// Whether the property has a value, and it is below another.
public func < <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "<", value, KeyRange.below) {
    $0.map { SortOrdering.isBelow($0, value) } ?? false
  }
}

/// Whether the property has a value, and it is another or below it.
public func <= <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), "<=", value, KeyRange.upTo) {
    $0.map { SortOrdering.isAtMost($0, value) } ?? false
  }
}

/// Whether the property has a value, and it is above another.
public func > <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), ">", value, KeyRange.above) {
    $0.map { SortOrdering.isBelow(value, $0) } ?? false
  }
}

/// Whether the property has a value, and it is another or above it.
public func >= <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> Predicate<Object> {
  .compare(PropertyPath(path), ">=", value, KeyRange.from) {
    $0.map { SortOrdering.isAtMost(value, $0) } ?? false
  }
}
