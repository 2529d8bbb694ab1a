// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The validators of NamadaNativefier as functions at file scope.

/// Returns a validator that accepts `nil`.
public func isNil<Archive, Inner: Sendable>() -> PropertyValidator<Archive, Inner?> { .isNil() }
/// Returns a validator that accepts every value but `nil`.
public func isNotNil<Archive, Inner: Sendable>() -> PropertyValidator<Archive, Inner?> {
  .isNotNil()
}
/// Returns a validator that accepts no value: a property that is not optional is never `nil`.
@_disfavoredOverload
public func isNil<Archive, Value: Sendable>() -> PropertyValidator<Archive, Value> { .isNil() }
/// Returns a validator that accepts every value: a property that is not optional is never `nil`.
@_disfavoredOverload
public func isNotNil<Archive, Value: Sendable>() -> PropertyValidator<Archive, Value> {
  .isNotNil()
}

/// Returns a validator that accepts values equal to the argument.
public func equal<Archive, Value: Equatable>(
  with value: Value
) -> PropertyValidator<Archive, Value> { .equal(with: value) }

/// Returns a validator that accepts values different from the argument.
public func notEqual<Archive, Value: Equatable>(
  with value: Value
) -> PropertyValidator<Archive, Value> { .notEqual(with: value) }

/// Returns a validator that accepts values greater than the argument.
public func greater<Archive, Value: Comparable>(
  than value: Value
) -> PropertyValidator<Archive, Value> { .greater(than: value) }

/// Returns a validator that accepts values less than the argument.
public func less<Archive, Value: Comparable>(
  than value: Value
) -> PropertyValidator<Archive, Value> { .less(than: value) }

/// Returns a validator that accepts the argument and greater values.
public func greaterThanOrEqual<Archive, Value: Comparable>(
  with value: Value
) -> PropertyValidator<Archive, Value> { .greaterThanOrEqual(with: value) }

/// Returns a validator that accepts the argument and lesser values.
public func lessThanOrEqual<Archive, Value: Comparable>(
  with value: Value
) -> PropertyValidator<Archive, Value> { .lessThanOrEqual(with: value) }

/// Returns a validator that accepts strings that contain `part`.
public func contains<Archive>(with part: String) -> PropertyValidator<Archive, String> {
  .contains(with: part)
}

/// Returns a validator that accepts strings that contain `part`.
public func contains<Archive>(_ part: String) -> PropertyValidator<Archive, String> {
  .contains(with: part)
}

/// Returns a validator that accepts collections that contain an element.
public func contains<Archive, Value: Collection>(
  _ element: Value.Element
) -> PropertyValidator<Archive, Value> where Value.Element: Equatable & Sendable {
  .contains(element)
}

/// Returns a validator that accepts collections that contain at least one of some elements.
public func contains<Archive, Value: Collection>(
  atLeastOne elements: [Value.Element]
) -> PropertyValidator<Archive, Value> where Value.Element: Equatable & Sendable {
  .contains(atLeastOne: elements)
}

/// Returns a validator that accepts collections that contain all of some elements.
public func contains<Archive, Value: Collection>(
  all elements: [Value.Element]
) -> PropertyValidator<Archive, Value> where Value.Element: Equatable & Sendable {
  .contains(all: elements)
}

/// Returns a validator that accepts strings that match a regular expression.
public func matches<Archive>(withRegex pattern: String) -> PropertyValidator<Archive, String> {
  .matches(withRegex: pattern)
}

/// Returns a validator that accepts collections of a number of elements.
public func countEqual<Archive, Value: Collection>(
  with count: Int
) -> PropertyValidator<Archive, Value> { .countEqual(with: count) }

/// Returns a validator that accepts collections of more elements than the argument.
public func countGreater<Archive, Value: Collection>(
  than count: Int
) -> PropertyValidator<Archive, Value> { .countGreater(than: count) }

/// Returns a validator that accepts collections of fewer elements than the argument.
public func countLess<Archive, Value: Collection>(
  than count: Int
) -> PropertyValidator<Archive, Value> { .countLess(than: count) }

/// Returns a validator that accepts collections of at least a number of elements.
public func countGreaterThanOrEqual<Archive, Value: Collection>(
  with count: Int
) -> PropertyValidator<Archive, Value> { .countGreaterThanOrEqual(with: count) }

/// Returns a validator that accepts collections of at most a number of elements.
public func countLessThanOrEqual<Archive, Value: Collection>(
  with count: Int
) -> PropertyValidator<Archive, Value> { .countLessThanOrEqual(with: count) }

/// Returns a validator that accepts the values for which a closure returns `true`.
public func valid<Archive, Value>(
  with holds: @escaping @Sendable (Value) -> Bool
) -> PropertyValidator<Archive, Value> { .valid(with: holds) }
