// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderCoding
internal import LarderEngine
package import LarderObjectEngine

/// The condition of a query text, as a tree.
package indirect enum QueryCondition: Sendable {
  case all
  case compare(Operand, ComparisonOperator, Operand)
  case isIn(FieldPath, [QueryLiteral])
  case text(FieldPath, StringCondition)
  /// Whether a string contains a match of a regular expression.
  case matches(FieldPath, TextPattern)
  /// Whether a collection contains an element, or a string another string.
  case contains(FieldPath, QueryLiteral)
  case containsAll(FieldPath, [QueryLiteral])
  case containsAny(FieldPath, [QueryLiteral])
  case and([QueryCondition])
  case or([QueryCondition])
  case not(QueryCondition)

  package enum Operand: Sendable {
    case path(FieldPath)
    case literal(QueryLiteral)
  }

  // MARK: Evaluating

  /// Returns whether an object matches.
  ///
  /// - Parameter object: The object in its stored form.
  package func holds(for object: CBORValue) -> Bool {
    switch self {
    case .all: return true
    case .compare(let left, let comparison, let right):
      return Self.compare(left.value(object), comparison, right.value(object))
    case .isIn(let path, let literals):
      let value = ComparableValue(path.value(in: object))
      return literals.contains { $0.plain.equals(value) }
    case .text(let path, let test):
      guard case .text(let text) = ComparableValue(path.value(in: object)) else { return false }
      return test.holds(text)
    case .matches(let path, let pattern):
      guard case .text(let text) = ComparableValue(path.value(in: object)) else { return false }
      return pattern.matches(text)
    case .contains(let path, let literal):
      let value = ComparableValue(path.value(in: object))
      if case .text(let text) = value, case .text(let part) = literal.plain {
        return StringCondition.contains(part, in: text)
      }
      return Self.has(literal, in: value)
    case .containsAll(let path, let literals):
      let value = ComparableValue(path.value(in: object))
      guard case .array = value else { return false }
      return literals.allSatisfy { Self.has($0, in: value) }
    case .containsAny(let path, let literals):
      let value = ComparableValue(path.value(in: object))
      return literals.contains { Self.has($0, in: value) }
    case .and(let conditions): return conditions.allSatisfy { $0.holds(for: object) }
    case .or(let conditions): return conditions.contains { $0.holds(for: object) }
    case .not(let condition): return !condition.holds(for: object)
    }
  }

  private static func has(_ literal: QueryLiteral, in value: ComparableValue) -> Bool {
    guard case .array(let elements) = value else { return false }
    return elements.contains { literal.plain.equals(ComparableValue($0)) }
  }

  private static func compare(
    _ left: ComparableValue, _ comparison: ComparisonOperator, _ right: ComparableValue
  ) -> Bool {
    switch comparison {
    case .equal: return left.equals(right)
    case .different: return !left.equals(right)
    default: break
    }
    guard let order = left.compared(to: right) else { return false }
    switch comparison {
    case .less: return order < 0
    case .atMost: return order <= 0
    case .greater: return order > 0
    default: return order >= 0
    }
  }
}

extension QueryCondition.Operand {
  func value(_ object: CBORValue) -> ComparableValue {
    switch self {
    case .path(let path): ComparableValue(path.value(in: object))
    case .literal(let literal): literal.plain
    }
  }

  var shown: String {
    switch self {
    case .path(let path): path.description
    case .literal(let literal): literal.source
    }
  }
}

/// A constant of a query.
package struct QueryLiteral: Sendable {
  let plain: ComparableValue
  /// The spelling in the query text.
  let source: String
}

extension QueryCondition: CustomStringConvertible {
  package var description: String {
    switch self {
    case .all: "all"
    case .compare(let left, let comparison, let right):
      "\(left.shown) \(comparison.rawValue) \(right.shown)"
    case .isIn(let path, let literals): "\(path) in \(Self.list(literals))"
    case .text(let path, let test): "\(path).\(test.method.rawValue)(\"\(test.argument)\")"
    case .matches(let path, let pattern): "\(path).matches(\"\(pattern.source)\")"
    case .contains(let path, let literal): "\(path).contains(\(literal.source))"
    case .containsAll(let path, let literals): "\(path).contains(all: \(Self.list(literals)))"
    case .containsAny(let path, let literals): "\(path).contains(any: \(Self.list(literals)))"
    case .and(let conditions): "(" + conditions.map(\.description).joined(separator: " && ") + ")"
    case .or(let conditions): "(" + conditions.map(\.description).joined(separator: " || ") + ")"
    case .not(let condition): "!(\(condition))"
    }
  }

  private static func list(_ literals: [QueryLiteral]) -> String {
    "[" + literals.map(\.source).joined(separator: ", ") + "]"
  }
}
