// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderObjects

/// What a property has to be; the eighteen of NamadaNativefier, and the names Vellum gave them.
///
/// Equality, order, containment and `nil` use an index of the type where there is one.
public struct PropertyValidator<Archive: Archivable, Value: Sendable>: Sendable {
  /// The same property, in the store's queries.
  public typealias Property = PredicateProperty<Archived<Archive>, Value>

  let predicate: @Sendable (Property) throws -> Predicate<Archived<Archive>>

  /// One of your own.
  public init(
    _ predicate: @escaping @Sendable (Property) throws -> Predicate<Archived<Archive>>
  ) {
    self.predicate = predicate
  }

  /// Whether a closure says so; every value is decoded.
  public static func valid(with holds: @escaping @Sendable (Value) -> Bool) -> Self {
    Self { property in property.satisfies(holds) }
  }

  public static func isValid(_ holds: @escaping @Sendable (Value) -> Bool) -> Self {
    valid(with: holds)
  }
}

extension PropertyValidator {
  public static func isNil<Inner>() -> Self where Value == Inner? { Self { $0.isNil() } }
  public static func isNotNil<Inner>() -> Self where Value == Inner? { Self { $0.isNotNil() } }
}

extension PropertyValidator where Value: Equatable {
  public static func equal(with value: Value) -> Self { Self { $0 == value } }
  public static func notEqual(with value: Value) -> Self { Self { $0 != value } }
  public static func isEqual(with value: Value) -> Self { equal(with: value) }
  public static func isNotEqual(with value: Value) -> Self { notEqual(with: value) }
}

extension PropertyValidator where Value: Comparable {
  public static func greater(than value: Value) -> Self { Self { $0 > value } }
  public static func less(than value: Value) -> Self { Self { $0 < value } }
  public static func greaterThanOrEqual(with value: Value) -> Self { Self { $0 >= value } }
  public static func lessThanOrEqual(with value: Value) -> Self { Self { $0 <= value } }
  public static func greaterOrEqual(with value: Value) -> Self { greaterThanOrEqual(with: value) }
  public static func lessOrEqual(with value: Value) -> Self { lessThanOrEqual(with: value) }
}

extension PropertyValidator where Value == String {
  /// Whether another text is part of it.
  public static func contains(with part: String) -> Self { Self { $0.contains(part) } }
  public static func contains(_ part: String) -> Self { contains(with: part) }
  public static func contains(string part: String, caseSensitive: Bool = true) -> Self {
    Self { caseSensitive ? $0.contains(part) : $0.containsIgnoringCase(part) }
  }

  /// Whether a regular expression matches somewhere; one that is none is an error of the query.
  public static func matches(withRegex pattern: String) -> Self { Self { try $0.matches(pattern) } }
  public static func matches(regex pattern: String) -> Self { matches(withRegex: pattern) }
}

extension PropertyValidator where Value: Collection & Sendable {
  public static func countEqual(with count: Int) -> Self { Self { $0.count == count } }
  public static func countGreater(than count: Int) -> Self { Self { $0.count > count } }
  public static func countLess(than count: Int) -> Self { Self { $0.count < count } }
  public static func countGreaterThanOrEqual(with count: Int) -> Self {
    Self { $0.count >= count }
  }
  public static func countLessThanOrEqual(with count: Int) -> Self { Self { $0.count <= count } }
  public static func isEmpty() -> Self { countEqual(with: 0) }
  public static func isNotEmpty() -> Self { countGreater(than: 0) }
}

extension PropertyValidator where Value: Collection, Value.Element: Equatable & Sendable {
  public static func contains(_ element: Value.Element) -> Self { Self { $0.contains(element) } }
  public static func contains(atLeastOne elements: [Value.Element]) -> Self {
    Self { $0.contains(any: elements) }
  }
  public static func contains(all elements: [Value.Element]) -> Self {
    Self { $0.contains(all: elements) }
  }
}
