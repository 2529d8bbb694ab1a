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

// The comparisons that key paths support directly: `\.year >= 2020`.

/// Returns the index key of a constant, or `nil` if an index cannot contain the type.
func indexKey<Value: Sendable>(_ value: Value) -> [UInt8]? {
  if Value.self == Int.self, let value = value as? Int { return value.indexKey }
  if Value.self == String.self, let value = value as? String { return value.indexKey }
  return (value as? any IndexValue)?.indexKey
}

/// Returns the ranges of keys that equal one of several, or `nil` if a key is missing.
func equalities(_ keys: [[UInt8]?]) -> [IndexKeyRange]? {
  let known = keys.compactMap { $0 }
  return known.count == keys.count ? known.map { IndexKeyRange.equal($0) } : nil
}

/// Returns whether the key of a constant determines exactly which values match.
func isExact<Value: Sendable>(_ key: [UInt8], _ value: Value) -> Bool {
  guard key.count <= IndexKeyRange.limit else { return false }
  // The frequent types first: a dynamic conformance check costs more than these comparisons.
  if Value.self == Int.self || Value.self == String.self { return true }
  // NaN encodes after every number, but `==` and `>` return false for it, so the key range is not
  // exact.
  return !(value is any FloatingPoint || value is Date)
}

extension ObjectPredicate {
  static func equal<Value: Equatable & Sendable>(
    _ path: PropertyPath<Object, Value>, _ value: Value
  ) -> ObjectPredicate {
    compare(path, .equal, value) { $0 == value }
  }

  static func order<Value: Comparable & Sendable>(
    _ path: PropertyPath<Object, Value>, _ sign: ComparisonOperator, _ value: Value
  ) -> ObjectPredicate {
    compare(path, sign, value, SortOrdering.test(sign, value))
  }

  /// Compares an optional property; `nil` is neither less than nor greater than any value.
  static func order<Value: Comparable & Sendable>(
    _ path: PropertyPath<Object, Value?>, _ sign: ComparisonOperator, _ value: Value
  ) -> ObjectPredicate {
    let holds = SortOrdering.test(sign, value)
    return compare(path, sign, value) { $0.map(holds) ?? false }
  }

  private static func compare<Value: Sendable>(
    _ path: PropertyPath<Object, Value>, _ sign: ComparisonOperator, _ value: some Sendable,
    _ holds: @escaping @Sendable (Value) -> Bool
  ) -> ObjectPredicate {
    // A type with its own `<` has an order that differs from the order of its keys.
    let key = sign == .equal || isIndexOrdered(value) ? indexKey(value) : nil
    return ObjectPredicate(
      of: path, "\(path.name) \(sign.rawValue) \(literal(value))",
      constants: ConstantIdentity(value),
      ranges: key.flatMap { sign.range(of: $0) }.flatMap { dates([$0], sign, value) },
      isExact: key.map { isExact($0, value) } ?? false, stored: StoredFieldTest(sign, value),
      holds: holds)
  }

  private static func isIndexOrdered<Constant: Sendable>(_ value: Constant) -> Bool {
    Constant.self == Int.self || Constant.self == String.self
      || Constant.self is any IndexOrdered.Type
  }

  /// Adjusts the ranges for dates. In Swift, `<=` of `Date` means "not above", so a NaN date is
  /// both at most and at least every other date.
  private static func dates(
    _ ranges: [IndexKeyRange], _ sign: ComparisonOperator, _ value: some Sendable
  ) -> [IndexKeyRange]? {
    guard let date = value as? Date else { return ranges }
    let isNumber = !date.timeIntervalSinceReferenceDate.isNaN
    let nothing = Date(timeIntervalSinceReferenceDate: .nan)
    if sign == .atMost { return isNumber ? ranges + [.exactly(nothing.indexKey)] : nil }
    return isNumber ? ranges : nil
  }

  static func different<Value: Equatable & Sendable>(
    _ path: PropertyPath<Object, Value>, _ value: Value
  ) -> ObjectPredicate {
    ObjectPredicate(
      of: path, "\(path.name) != \(literal(value))", constants: ConstantIdentity(value),
      stored: StoredFieldTest(.different, value)
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
) -> ObjectPredicate<Object> {
  .equal(PropertyPath(path), value)
}

/// Returns a predicate that matches objects whose property differs from a value.
///
/// - Parameters:
///   - path: The property.
///   - value: The value.
/// - Returns: The predicate.
public func != <Object: Storable, Value: Equatable & Sendable>(
  path: Path<Object, Value>, value: Value
) -> ObjectPredicate<Object> {
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
) -> ObjectPredicate<Object> {
  .order(PropertyPath(path), .less, value)
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
) -> ObjectPredicate<Object> {
  .order(PropertyPath(path), .atMost, value)
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
) -> ObjectPredicate<Object> {
  .order(PropertyPath(path), .greater, value)
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
) -> ObjectPredicate<Object> {
  .order(PropertyPath(path), .atLeast, value)
}

/// Returns a predicate that matches objects whose optional property has a value that is less than
/// another.
///
/// - Parameters:
///   - path: The optional property; `nil` does not match.
///   - value: The exclusive upper bound.
/// - Returns: The predicate.
public func < <Object: Storable, Value: Comparable & Sendable>(
  path: Path<Object, Value?>, value: Value
) -> ObjectPredicate<Object> {
  .order(PropertyPath(path), .less, value)
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
) -> ObjectPredicate<Object> {
  .order(PropertyPath(path), .atMost, value)
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
) -> ObjectPredicate<Object> {
  .order(PropertyPath(path), .greater, value)
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
) -> ObjectPredicate<Object> {
  .order(PropertyPath(path), .atLeast, value)
}
