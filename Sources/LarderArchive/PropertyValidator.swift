// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderObjects

/// A condition on a property: the eighteen validators of NamadaNativefier, and Vellum's names for
/// them.
///
/// Equality, order, containment and `nil` use an index of the type if there is one.
public struct PropertyValidator<Archive: Archivable, Value: Sendable>: Sendable {
  /// The same property in the store's queries.
  public typealias Property = PredicateProperty<Archived<Archive>, Value>

  let predicate: @Sendable (Property) throws -> ObjectPredicate<Archived<Archive>>

  /// Creates a validator from a predicate.
  ///
  /// - Parameter predicate: A closure that returns the predicate for a property.
  public init(
    _ predicate: @escaping @Sendable (Property) throws -> ObjectPredicate<Archived<Archive>>
  ) {
    self.predicate = predicate
  }

  /// Returns a validator that evaluates a closure. No index serves it: the query decodes every
  /// value.
  ///
  /// - Parameter holds: A closure that returns whether a property value matches.
  /// - Returns: The validator.
  public static func valid(with holds: @escaping @Sendable (Value) -> Bool) -> Self {
    Self { property in property.satisfies(holds) }
  }

  /// Returns a validator that accepts the values for which a closure returns `true`.
  public static func isValid(_ holds: @escaping @Sendable (Value) -> Bool) -> Self {
    valid(with: holds)
  }
}

extension PropertyValidator {
  /// Returns a validator that accepts `nil`.
  public static func isNil<Inner>() -> Self where Value == Inner? { Self { $0.isNil() } }
  /// Returns a validator that accepts every value but `nil`.
  public static func isNotNil<Inner>() -> Self where Value == Inner? { Self { $0.isNotNil() } }

  /// Returns a validator that accepts no value: a property that is not optional is never `nil`.
  @_disfavoredOverload
  public static func isNil() -> Self { Self { _ in !ObjectPredicate<Archived<Archive>>.all } }
  /// Returns a validator that accepts every value: a property that is not optional is never `nil`.
  @_disfavoredOverload
  public static func isNotNil() -> Self { Self { _ in .all } }
}

extension PropertyValidator where Value: Equatable {
  /// Returns a validator that accepts values equal to `value`.
  public static func equal(with value: Value) -> Self { Self { $0 == value } }
  /// Returns a validator that accepts values different from `value`.
  public static func notEqual(with value: Value) -> Self { Self { $0 != value } }
  /// Returns a validator that accepts values equal to `value`.
  public static func isEqual(with value: Value) -> Self { equal(with: value) }
  /// Returns a validator that accepts values different from `value`.
  public static func isNotEqual(with value: Value) -> Self { notEqual(with: value) }
}

extension PropertyValidator where Value: Comparable {
  /// Returns a validator that accepts values greater than `value`.
  public static func greater(than value: Value) -> Self { Self { $0 > value } }
  /// Returns a validator that accepts values less than `value`.
  public static func less(than value: Value) -> Self { Self { $0 < value } }
  /// Returns a validator that accepts `value` and greater values.
  public static func greaterThanOrEqual(with value: Value) -> Self { Self { $0 >= value } }
  /// Returns a validator that accepts `value` and lesser values.
  public static func lessThanOrEqual(with value: Value) -> Self { Self { $0 <= value } }
  /// Returns a validator that accepts `value` and greater values.
  public static func greaterOrEqual(with value: Value) -> Self { greaterThanOrEqual(with: value) }
  /// Returns a validator that accepts `value` and lesser values.
  public static func lessOrEqual(with value: Value) -> Self { lessThanOrEqual(with: value) }
}

extension PropertyValidator where Value == String {
  /// Returns a validator that matches strings that contain another.
  ///
  /// - Parameter part: The string to find: complete characters, compared by canonical equivalence.
  /// - Returns: The validator.
  public static func contains(with part: String) -> Self { Self { $0.contains(part) } }
  /// Returns a validator that accepts strings that contain `part`.
  public static func contains(_ part: String) -> Self { contains(with: part) }
  /// Returns a validator that accepts strings that contain `part`, with or without regard to case.
  public static func contains(string part: String, caseSensitive: Bool = true) -> Self {
    Self { caseSensitive ? $0.contains(part) : $0.containsIgnoringCase(part) }
  }

  /// Returns a validator that matches strings that contain a match of a regular expression.
  ///
  /// The query throws `ObjectError` with the code `invalidPattern` if the pattern is invalid.
  ///
  /// - Parameter pattern: The regular expression in the syntax of Swift's `Regex`.
  /// - Returns: The validator.
  public static func matches(withRegex pattern: String) -> Self { Self { try $0.matches(pattern) } }
  /// Returns a validator that accepts strings that match a regular expression.
  public static func matches(regex pattern: String) -> Self { matches(withRegex: pattern) }
}

extension PropertyValidator where Value: Collection & Sendable {
  /// Returns a validator that accepts collections of `count` elements.
  public static func countEqual(with count: Int) -> Self { Self { $0.count == count } }
  /// Returns a validator that accepts collections of more than `count` elements.
  public static func countGreater(than count: Int) -> Self { Self { $0.count > count } }
  /// Returns a validator that accepts collections of fewer than `count` elements.
  public static func countLess(than count: Int) -> Self { Self { $0.count < count } }
  /// Returns a validator that accepts collections of at least `count` elements.
  public static func countGreaterThanOrEqual(with count: Int) -> Self {
    Self { $0.count >= count }
  }
  /// Returns a validator that accepts collections of at most `count` elements.
  public static func countLessThanOrEqual(with count: Int) -> Self { Self { $0.count <= count } }
  /// Returns a validator that accepts empty collections.
  public static func isEmpty() -> Self { countEqual(with: 0) }
  /// Returns a validator that accepts collections with at least one element.
  public static func isNotEmpty() -> Self { countGreater(than: 0) }
}

extension PropertyValidator where Value: Collection, Value.Element: Equatable & Sendable {
  /// Returns a validator that accepts collections that contain `element`.
  public static func contains(_ element: Value.Element) -> Self { Self { $0.contains(element) } }
  /// Returns a validator that accepts collections that contain at least one of `elements`.
  public static func contains(atLeastOne elements: [Value.Element]) -> Self {
    Self { $0.contains(any: elements) }
  }
  /// Returns a validator that accepts collections that contain all of `elements`.
  public static func contains(all elements: [Value.Element]) -> Self {
    Self { $0.contains(all: elements) }
  }
}
