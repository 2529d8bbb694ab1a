// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine

// Further forms of conditions in the closure of `where`: properties that are conditions, constants on
// the left side, two properties, and text that may be missing.

extension PredicateProperty where Value == Bool {
  /// Returns the condition that the property is `false`.
  ///
  /// - Parameter property: The property.
  /// - Returns: The condition.
  public static prefix func ! (property: Self) -> ObjectPredicate<Object> { property == false }
}

extension PredicateProperty where Value: Equatable {
  /// Returns the condition that a constant is equal to the property.
  ///
  /// - Parameters:
  ///   - value: The constant.
  ///   - property: The property.
  /// - Returns: The condition.
  public static func == (value: Value, property: Self) -> ObjectPredicate<Object> {
    property == value
  }

  /// Returns the condition that a property is equal to another, evaluated on decoded objects.
  ///
  /// - Parameters:
  ///   - left: A property.
  ///   - right: Another property.
  /// - Returns: The condition.
  public static func == (left: Self, right: Self) -> ObjectPredicate<Object> {
    compare(left, right, "==") { $0 == $1 }
  }

  /// Returns the condition that a constant is different from the property.
  ///
  /// - Parameters:
  ///   - value: The constant.
  ///   - property: The property.
  /// - Returns: The condition.
  public static func != (value: Value, property: Self) -> ObjectPredicate<Object> {
    property != value
  }

  /// Returns the condition that a property is different from another, evaluated on decoded objects.
  ///
  /// - Parameters:
  ///   - left: A property.
  ///   - right: Another property.
  /// - Returns: The condition.
  public static func != (left: Self, right: Self) -> ObjectPredicate<Object> {
    compare(left, right, "!=") { $0 != $1 }
  }
}

extension PredicateProperty where Value: Comparable {
  /// Returns the condition that a constant is less than the property.
  ///
  /// - Parameters:
  ///   - value: The constant.
  ///   - property: The property.
  /// - Returns: The condition.
  public static func < (value: Value, property: Self) -> ObjectPredicate<Object> {
    property > value
  }

  /// Returns the condition that a property is less than another, evaluated on decoded objects.
  ///
  /// - Parameters:
  ///   - left: A property.
  ///   - right: Another property.
  /// - Returns: The condition.
  public static func < (left: Self, right: Self) -> ObjectPredicate<Object> {
    compare(left, right, "<") { SortOrdering.isBelow($0, $1) }
  }

  /// Returns the condition that a constant is at most the property.
  ///
  /// - Parameters:
  ///   - value: The constant.
  ///   - property: The property.
  /// - Returns: The condition.
  public static func <= (value: Value, property: Self) -> ObjectPredicate<Object> {
    property >= value
  }

  /// Returns the condition that a property is at most another, evaluated on decoded objects.
  ///
  /// - Parameters:
  ///   - left: A property.
  ///   - right: Another property.
  /// - Returns: The condition.
  public static func <= (left: Self, right: Self) -> ObjectPredicate<Object> {
    compare(left, right, "<=") { SortOrdering.isAtMost($0, $1) }
  }

  /// Returns the condition that a constant is greater than the property.
  ///
  /// - Parameters:
  ///   - value: The constant.
  ///   - property: The property.
  /// - Returns: The condition.
  public static func > (value: Value, property: Self) -> ObjectPredicate<Object> {
    property < value
  }

  /// Returns the condition that a property is greater than another, evaluated on decoded objects.
  ///
  /// - Parameters:
  ///   - left: A property.
  ///   - right: Another property.
  /// - Returns: The condition.
  public static func > (left: Self, right: Self) -> ObjectPredicate<Object> {
    compare(left, right, ">") { SortOrdering.isBelow($1, $0) }
  }

  /// Returns the condition that a constant is at least the property.
  ///
  /// - Parameters:
  ///   - value: The constant.
  ///   - property: The property.
  /// - Returns: The condition.
  public static func >= (value: Value, property: Self) -> ObjectPredicate<Object> {
    property <= value
  }

  /// Returns the condition that a property is at least another, evaluated on decoded objects.
  ///
  /// - Parameters:
  ///   - left: A property.
  ///   - right: Another property.
  /// - Returns: The condition.
  public static func >= (left: Self, right: Self) -> ObjectPredicate<Object> {
    compare(left, right, ">=") { SortOrdering.isAtMost($1, $0) }
  }
}

extension PredicateProperty {
  fileprivate static func compare(
    _ left: Self, _ right: Self, _ sign: String, _ holds: @escaping @Sendable (Value, Value) -> Bool
  ) -> ObjectPredicate<Object> {
    let (one, other) = (left.path, right.path)
    return ObjectPredicate(nil, "\(one.name) \(sign) \(other.name)", isExact: false) {
      holds(one.value(of: $0), other.value(of: $0))
    }
  }
}
