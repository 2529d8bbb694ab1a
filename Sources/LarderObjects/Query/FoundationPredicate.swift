// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

// PREDICATES OF FOUNDATION
//
// `#Predicate` builds a tree of generic values, one type per operation. Each operation that a query
// knows has an extension here that makes its own condition of it: a comparison of a property with a
// constant, or `&&`, `||` and `!` over others. An expression without a variable is a constant.
// Foundation itself evaluates every other part on decoded objects.
//
// The tree does not state that its values are Sendable. Comparisons are made for the scalar types of
// stored fields, which are.

extension Query {
  /// Adds a predicate of Foundation.
  ///
  /// ```swift
  /// let recent = try store.objects(Car.self).filter(#Predicate { $0.year > 2020 }).fetch()
  /// ```
  ///
  /// Comparisons of a property with a constant, text and array searches and their combinations are
  /// planned over indexes and read from stored fields as if they were written with `where`. Other
  /// parts are evaluated on decoded objects; `explain()` shows which. An object for which Foundation
  /// throws an error does not match, and the store's `onError` gets the error.
  ///
  /// - Parameter predicate: The predicate.
  /// - Returns: The query of the objects that match both.
  public func filter(_ predicate: Predicate<Object>) -> Query {
    let translation = PredicateTranslation(predicate: predicate, report: report)
    return self.where(translation.condition(predicate.expression))
  }
}

/// The translation of a predicate with one variable.
struct PredicateTranslation<Object: Storable>: Sendable {
  let predicate: Predicate<Object>
  let report: @Sendable (any Error) -> Void

  /// Returns the condition of an expression.
  func condition(_ expression: any PredicateExpression<Bool>) -> ObjectPredicate<Object> {
    (expression as? any TranslatableCondition)?.translated(self) ?? evaluated(expression)
  }

  /// Returns a condition that Foundation evaluates.
  private func evaluated(_ expression: any PredicateExpression<Bool>) -> ObjectPredicate<Object> {
    let (predicate, report) = (predicate, report)
    // The parts of a predicate are standard expressions, which are Sendable. Another part is
    // replaced by the whole predicate, which gives the same objects within `&&` and `||`.
    let part = expression as? any StandardPredicateExpression<Bool>
    return ObjectPredicate(nil, "#Predicate { \(part ?? predicate.expression) }", isExact: false) {
      do {
        guard let part else { return try predicate.evaluate($0) }
        return try part.evaluate(PredicateBindings((predicate.variable, $0)))
      } catch {
        report(error)
        return false
      }
    }
  }

  /// Returns the property that an expression is, or `nil`.
  func property<Value>(
    _ expression: any PredicateExpression, _ type: Value.Type
  ) -> PropertyPath<Object, Value>? {
    let path = (expression as? any PropertyExpression)?.path(from: predicate.variable.key)
    return (path as? KeyPath<Object, Value>).map { PropertyPath(joined: $0) }
  }

  /// Returns the value of an expression without a variable, or `nil`.
  func constant<Value>(_ expression: any PredicateExpression, _ type: Value.Type) -> Value? {
    // In two steps: a missing result would be cast to an optional type as its value nil.
    guard let value = try? expression.evaluate(PredicateBindings()) else { return nil }
    return value as? Value
  }

  /// Returns the comparison of a property with a constant, in either order.
  func comparison<Left: PredicateExpression, Right: PredicateExpression>(
    _ left: Left, _ right: Right, _ sign: ComparisonOperator
  ) -> ObjectPredicate<Object>? where Left.Output == Right.Output {
    func equality<Scalar: StoredScalar>(_ type: Scalar.Type) -> ObjectPredicate<Object>? {
      guard let path = property(left, type) ?? property(right, type),
        let value = constant(right, type) ?? constant(left, type)
      else { return nil }
      return sign == .equal ? .equal(path, value) : .different(path, value)
    }
    func order<Scalar: StoredScalar & Comparable>(_ type: Scalar.Type) -> ObjectPredicate<Object>? {
      if let path = property(left, type), let value = constant(right, type) {
        return .order(path, sign, value)
      }
      guard let path = property(right, type), let value = constant(left, type) else { return nil }
      return .order(path, sign.exchanged, value)
    }
    if sign == .equal || sign == .different {
      return (Left.Output.self as? any StoredScalar.Type).flatMap { equality($0) }
    }
    return (Left.Output.self as? any (StoredScalar & Comparable).Type).flatMap { order($0) }
  }
}

/// An expression of which a query makes a condition.
private protocol TranslatableCondition {
  /// Returns the condition, or `nil` if Foundation must evaluate the expression.
  func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>?
}

/// An expression that may be a property of the variable.
private protocol PropertyExpression {
  /// Returns the key path from the variable, or `nil`.
  func path(from variable: PredicateExpressions.VariableID) -> AnyKeyPath?
}

extension PredicateExpressions.KeyPath: PropertyExpression, TranslatableCondition {
  fileprivate func path(from variable: PredicateExpressions.VariableID) -> AnyKeyPath? {
    if let root = root as? PredicateExpressions.Variable<Root.Output> {
      return root.key == variable ? keyPath : nil
    }
    return (root as? any PropertyExpression)?.path(from: variable)?.appending(path: keyPath)
  }

  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? {
    translation.property(self, Bool.self).map { .equal($0, true) }
  }
}

extension PredicateExpressions.Conjunction: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? { translation.condition(lhs) && translation.condition(rhs) }
}

extension PredicateExpressions.Disjunction: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? { translation.condition(lhs) || translation.condition(rhs) }
}

extension PredicateExpressions.Negation: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? {
    // An object for which Foundation throws an error must not match the negation either.
    let condition = translation.condition(wrapped)
    let isTranslated = condition.node.allComparisons.allSatisfy { $0.path != nil }
    return isTranslated ? !condition : nil
  }
}

extension PredicateExpressions.Equal: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? { translation.comparison(lhs, rhs, .equal) }
}

extension PredicateExpressions.NotEqual: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? { translation.comparison(lhs, rhs, .different) }
}

extension PredicateExpressions.Comparison: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? {
    let sign: ComparisonOperator? =
      switch op {
      case .lessThan: .less
      case .lessThanOrEqual: .atMost
      case .greaterThan: .greater
      case .greaterThanOrEqual: .atLeast
      @unknown default: nil
      }
    return sign.flatMap { translation.comparison(lhs, rhs, $0) }
  }
}

extension PredicateExpressions.RangeExpressionContains: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? {
    func translated<Scalar: StoredScalar & Comparable>(
      _ type: Scalar.Type
    ) -> ObjectPredicate<Object>? {
      guard let path = translation.property(element, type) else { return nil }
      let property = PredicateProperty(path: path)
      if let range = translation.constant(range, ClosedRange<Scalar>.self) {
        return property.isIn(range)
      }
      return translation.constant(range, Range<Scalar>.self).map { property.isIn($0) }
    }
    return (Element.Output.self as? any (StoredScalar & Comparable).Type).flatMap { translated($0) }
  }
}

extension PredicateExpressions.SequenceContains: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? {
    func translated<Scalar: StoredScalar>(_ type: Scalar.Type) -> ObjectPredicate<Object>? {
      if let path = translation.property(element, type) {
        return translation.constant(sequence, [Scalar].self).map {
          PredicateProperty(path: path).isIn($0)
        }
      }
      guard let path = translation.property(sequence, [Scalar].self) else { return nil }
      return translation.constant(element, type).map { PredicateProperty(path: path).contains($0) }
    }
    return (RHS.Output.self as? any StoredScalar.Type).flatMap { translated($0) }
  }
}

extension PredicateExpressions.CollectionContainsCollection: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? {
    guard let path = translation.property(base, String.self),
      let part = translation.constant(other, String.self)
    else { return nil }
    return PredicateProperty(path: path).contains(part)
  }
}

extension PredicateExpressions.SequenceStartsWith: TranslatableCondition {
  fileprivate func translated<Object>(
    _ translation: PredicateTranslation<Object>
  ) -> ObjectPredicate<Object>? {
    guard let path = translation.property(base, String.self),
      let prefix = translation.constant(prefix, String.self)
    else { return nil }
    return PredicateProperty(path: path).hasPrefix(prefix)
  }
}
