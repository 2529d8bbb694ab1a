// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine

// OPTIONAL CHAINING
//
//     people.where { $0.address?.city == "Bern" && $0.boss?.name.hasPrefix("A") }
//
// Swift chains only over optionals, so an optional property has two forms in a closure: the property,
// for `$0.address.isNil()`, and an optional member, for `$0.address?.city`. The member itself is
// never `nil`: the closure composes a predicate and has no object. A chain has the optional value of
// its last property; its result is again an optional that has a value, which the operators below
// accept.

/// An optional property, or a property of one, in the middle of an optional chain.
@dynamicMemberLookup
public struct PredicateMember<Object: Storable, Wrapped: Sendable>: Sendable {
  let property: PropertyPath<Object, Wrapped?>

  /// Returns a property of the value, `nil` if the value is missing.
  ///
  /// - Parameter inner: The key path from the value.
  public subscript<Value: Sendable>(
    dynamicMember inner: Path<Wrapped, Value>
  ) -> PredicateProperty<Object, Value?> { PredicateProperty(path: property.chaining(inner)) }

  /// Returns an optional property of the value, `nil` if the value is missing.
  ///
  /// - Parameter inner: The key path from the value.
  public subscript<Value: Sendable>(
    dynamicMember inner: Path<Wrapped, Value?>
  ) -> PredicateProperty<Object, Value?> { PredicateProperty(path: property.chaining(flat: inner)) }

  /// Returns a property of the value, to continue the chain: `$0.address?.place.city`.
  ///
  /// - Parameter inner: The key path from the value.
  @_disfavoredOverload
  public subscript<Value: Sendable>(
    dynamicMember inner: Path<Wrapped, Value>
  ) -> PredicateMember<Object, Value> {
    PredicateMember<Object, Value>(property: property.chaining(inner))
  }

  /// Returns an optional property of the value, to continue the chain: `$0.boss?.address?.city`.
  ///
  /// - Parameter inner: The key path from the value.
  @_disfavoredOverload
  public subscript<Value: Sendable>(
    dynamicMember inner: Path<Wrapped, Value?>
  ) -> PredicateMember<Object, Value>? {
    PredicateMember<Object, Value>(property: property.chaining(flat: inner))
  }
}

/// Returns a predicate that matches objects whose chain has a value: `$0.address?.city == "Bern"`.
///
/// - Parameters:
///   - property: The chain.
///   - value: The value; `nil` if a part of the chain is missing.
/// - Returns: The predicate.
public func == <Object: Storable, Value: Equatable & Sendable>(
  property: PredicateProperty<Object, Value?>?, value: Value?
) -> ObjectPredicate<Object> { property.map { .equal($0.path, value) } ?? .noObject }

/// Returns a predicate that matches objects whose chain differs from a value.
///
/// - Parameters:
///   - property: The chain.
///   - value: The value; `nil` if a part of the chain is missing.
/// - Returns: The predicate.
public func != <Object: Storable, Value: Equatable & Sendable>(
  property: PredicateProperty<Object, Value?>?, value: Value?
) -> ObjectPredicate<Object> { property.map { .different($0.path, value) } ?? .noObject }

/// Returns a predicate that matches objects whose chain has a value less than another.
///
/// - Parameters:
///   - property: The chain; `nil` does not match.
///   - value: The exclusive upper bound.
/// - Returns: The predicate.
public func < <Object: Storable, Value: Comparable & Sendable>(
  property: PredicateProperty<Object, Value?>?, value: Value
) -> ObjectPredicate<Object> { property.map { .order($0.path, .less, value) } ?? .noObject }

/// Returns a predicate that matches objects whose chain has a value of at most another.
///
/// - Parameters:
///   - property: The chain; `nil` does not match.
///   - value: The inclusive upper bound.
/// - Returns: The predicate.
public func <= <Object: Storable, Value: Comparable & Sendable>(
  property: PredicateProperty<Object, Value?>?, value: Value
) -> ObjectPredicate<Object> { property.map { .order($0.path, .atMost, value) } ?? .noObject }

/// Returns a predicate that matches objects whose chain has a value greater than another.
///
/// - Parameters:
///   - property: The chain; `nil` does not match.
///   - value: The exclusive lower bound.
/// - Returns: The predicate.
public func > <Object: Storable, Value: Comparable & Sendable>(
  property: PredicateProperty<Object, Value?>?, value: Value
) -> ObjectPredicate<Object> { property.map { .order($0.path, .greater, value) } ?? .noObject }

/// Returns a predicate that matches objects whose chain has a value of at least another.
///
/// - Parameters:
///   - property: The chain; `nil` does not match.
///   - value: The inclusive lower bound.
/// - Returns: The predicate.
public func >= <Object: Storable, Value: Comparable & Sendable>(
  property: PredicateProperty<Object, Value?>?, value: Value
) -> ObjectPredicate<Object> { property.map { .order($0.path, .atLeast, value) } ?? .noObject }
