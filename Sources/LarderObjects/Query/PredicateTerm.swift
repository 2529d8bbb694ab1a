// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// What a closure may combine and return: predicates, Boolean properties, and both at the end of an
// optional chain. One generic operator for all of them keeps the compiler fast and its errors clear.

/// A condition in a closure that builds a predicate: a predicate, a Boolean property, or a chain that
/// ends with one.
///
/// Do not conform other types.
public protocol PredicateTerm<Object>: Sendable {
  /// The object type.
  associatedtype Object: Storable

  /// The condition as a predicate.
  var asPredicate: ObjectPredicate<Object> { get }
}

extension ObjectPredicate: PredicateTerm {
  /// The predicate itself.
  public var asPredicate: ObjectPredicate { self }

  /// A predicate that matches no object.
  static var noObject: ObjectPredicate { ObjectPredicate(.or(Parts())) }
}

/// `Bool` and its optional: `nil` is not true.
public protocol OptionalTruth: Equatable, Sendable {
  /// The value of a true property.
  static var truth: Self { get }
}

extension Bool: OptionalTruth {
  /// `true`.
  public static var truth: Bool { true }
}

extension Optional: OptionalTruth where Wrapped == Bool {
  /// `true`.
  public static var truth: Bool? { true }
}

extension PredicateProperty: PredicateTerm where Value: OptionalTruth {
  /// A predicate that matches objects whose property is `true`.
  public var asPredicate: ObjectPredicate<Object> { .equal(path, Value.truth) }
}

extension Optional: PredicateTerm where Wrapped: PredicateTerm {
  /// The predicate of a chain; `nil` matches nothing.
  public var asPredicate: ObjectPredicate<Wrapped.Object> { self?.asPredicate ?? .noObject }
}

/// Returns a predicate that matches if both conditions match.
///
/// - Parameters:
///   - left: A condition.
///   - right: Another condition.
/// - Returns: The conjunction.
public func && <Left: PredicateTerm, Right: PredicateTerm>(
  left: Left, right: Right
) -> ObjectPredicate<Left.Object> where Left.Object == Right.Object {
  left.asPredicate && right.asPredicate
}

/// Returns a predicate that matches if at least one of the conditions matches.
///
/// - Parameters:
///   - left: A condition.
///   - right: Another condition.
/// - Returns: The disjunction.
public func || <Left: PredicateTerm, Right: PredicateTerm>(
  left: Left, right: Right
) -> ObjectPredicate<Left.Object> where Left.Object == Right.Object {
  left.asPredicate || right.asPredicate
}

/// Returns a predicate that matches if a condition does not.
///
/// - Parameter term: The condition.
/// - Returns: The negation.
public prefix func ! <Term: PredicateTerm>(term: Term) -> ObjectPredicate<Term.Object> {
  !term.asPredicate
}

extension Query {
  /// Returns the query restricted by a Boolean property, or by a condition with optional chaining.
  ///
  /// ```swift
  /// let adults = store.objects(Person.self).where { $0.isAdult }
  /// let bernese = store.objects(Person.self).where { $0.address?.city.hasPrefix("Ber") }
  /// ```
  ///
  /// - Parameter build: A closure that returns the condition. It runs once, when the query is composed.
  /// - Returns: The restricted query.
  /// - Throws: The errors of `build`.
  public func `where`<Term: PredicateTerm>(
    _ build: (PredicateRoot<Object>) throws -> Term
  ) rethrows -> Query where Term.Object == Object {
    let term = try build(PredicateRoot())
    return self.where(term.asPredicate)
  }
}
