// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The validators as NamadaNativefier has them: functions at file scope.

public func isNil<Archive, Inner: Sendable>() -> PropertyValidator<Archive, Inner?> { .isNil() }
public func isNotNil<Archive, Inner: Sendable>() -> PropertyValidator<Archive, Inner?> {
  .isNotNil()
}

public func equal<Archive, Value: Equatable>(
  with value: Value
) -> PropertyValidator<Archive, Value> { .equal(with: value) }

public func notEqual<Archive, Value: Equatable>(
  with value: Value
) -> PropertyValidator<Archive, Value> { .notEqual(with: value) }

public func greater<Archive, Value: Comparable>(
  than value: Value
) -> PropertyValidator<Archive, Value> { .greater(than: value) }

public func less<Archive, Value: Comparable>(
  than value: Value
) -> PropertyValidator<Archive, Value> { .less(than: value) }

public func greaterThanOrEqual<Archive, Value: Comparable>(
  with value: Value
) -> PropertyValidator<Archive, Value> { .greaterThanOrEqual(with: value) }

public func lessThanOrEqual<Archive, Value: Comparable>(
  with value: Value
) -> PropertyValidator<Archive, Value> { .lessThanOrEqual(with: value) }

public func contains<Archive>(with part: String) -> PropertyValidator<Archive, String> {
  .contains(with: part)
}

public func contains<Archive>(_ part: String) -> PropertyValidator<Archive, String> {
  .contains(with: part)
}

public func contains<Archive, Value: Collection>(
  _ element: Value.Element
) -> PropertyValidator<Archive, Value> where Value.Element: Equatable & Sendable {
  .contains(element)
}

public func contains<Archive, Value: Collection>(
  atLeastOne elements: [Value.Element]
) -> PropertyValidator<Archive, Value> where Value.Element: Equatable & Sendable {
  .contains(atLeastOne: elements)
}

public func contains<Archive, Value: Collection>(
  all elements: [Value.Element]
) -> PropertyValidator<Archive, Value> where Value.Element: Equatable & Sendable {
  .contains(all: elements)
}

public func matches<Archive>(withRegex pattern: String) -> PropertyValidator<Archive, String> {
  .matches(withRegex: pattern)
}

public func countEqual<Archive, Value: Collection>(
  with count: Int
) -> PropertyValidator<Archive, Value> { .countEqual(with: count) }

public func countGreater<Archive, Value: Collection>(
  than count: Int
) -> PropertyValidator<Archive, Value> { .countGreater(than: count) }

public func countLess<Archive, Value: Collection>(
  than count: Int
) -> PropertyValidator<Archive, Value> { .countLess(than: count) }

public func countGreaterThanOrEqual<Archive, Value: Collection>(
  with count: Int
) -> PropertyValidator<Archive, Value> { .countGreaterThanOrEqual(with: count) }

public func countLessThanOrEqual<Archive, Value: Collection>(
  with count: Int
) -> PropertyValidator<Archive, Value> { .countLessThanOrEqual(with: count) }

public func valid<Archive, Value>(
  with holds: @escaping @Sendable (Value) -> Bool
) -> PropertyValidator<Archive, Value> { .valid(with: holds) }
