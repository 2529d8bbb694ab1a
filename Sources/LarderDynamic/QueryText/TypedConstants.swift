// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCoding

// A constant of a program has the type of the property that it is compared with: 0.1 is another number
// as a `Float`, a `Double` and a `Decimal`. So the constants of a query are converted, by their
// digits, to the kind of their field. Fields of unknown kind are compared by value.

extension QueryCondition {
  /// Returns the condition with its constants in the types of their fields.
  ///
  /// - Parameter shape: Returns the shape at the end of a path, or `nil` if it is unknown.
  func typed(by shape: (FieldPath) -> ValueShape?) -> QueryCondition {
    func elements(_ path: FieldPath) -> ValueShape? { shape(path)?.elements.first }
    switch self {
    case .compare(.path(let path), let sign, .literal(let literal)):
      return .compare(.path(path), sign, .literal(literal.typed(as: shape(path))))
    case .compare(.literal(let literal), let sign, .path(let path)):
      return .compare(.literal(literal.typed(as: shape(path))), sign, .path(path))
    case .isIn(let path, let literals):
      return .isIn(path, literals.map { $0.typed(as: shape(path)) })
    case .contains(let path, let literal):
      return .contains(path, literal.typed(as: elements(path)))
    case .containsAll(let path, let literals):
      return .containsAll(path, literals.map { $0.typed(as: elements(path)) })
    case .containsAny(let path, let literals):
      return .containsAny(path, literals.map { $0.typed(as: elements(path)) })
    case .and(let parts): return .and(parts.map { $0.typed(by: shape) })
    case .or(let parts): return .or(parts.map { $0.typed(by: shape) })
    case .not(let part): return .not(part.typed(by: shape))
    case .all, .compare, .text, .matches: return self
    }
  }
}

extension QueryCondition {
  /// Returns the condition with other paths.
  func paths(_ changed: (FieldPath) -> FieldPath) -> QueryCondition {
    func operand(_ operand: Operand) -> Operand {
      if case .path(let path) = operand { .path(changed(path)) } else { operand }
    }
    return switch self {
    case .all: self
    case .compare(let left, let sign, let right): .compare(operand(left), sign, operand(right))
    case .isIn(let path, let literals): .isIn(changed(path), literals)
    case .text(let path, let test): .text(changed(path), test)
    case .matches(let path, let pattern): .matches(changed(path), pattern)
    case .contains(let path, let literal): .contains(changed(path), literal)
    case .containsAll(let path, let literals): .containsAll(changed(path), literals)
    case .containsAny(let path, let literals): .containsAny(changed(path), literals)
    case .and(let parts): .and(parts.map { $0.paths(changed) })
    case .or(let parts): .or(parts.map { $0.paths(changed) })
    case .not(let part): .not(part.paths(changed))
    }
  }
}

extension QueryLiteral {
  fileprivate func typed(as shape: ValueShape?) -> QueryLiteral {
    guard let shape else { return self }
    let digits = source.filter { $0 != "_" }
    return QueryLiteral(plain: plain.typed(as: shape, digits), source: source)
  }
}

extension ComparableValue {
  /// Returns a number in the type of a shape.
  fileprivate func typed(as shape: ValueShape, _ digits: String?) -> ComparableValue {
    let digits: String? =
      switch self {
      case .integer(let number): digits ?? String(number)
      case .real(let number): digits ?? number.description
      default: nil
      }
    if let digits {
      switch shape.kind {
      case "float": return Float(digits).map { .real(Double($0)) } ?? self
      case "number": return Double(digits).map { .real($0) } ?? self
      case "decimal": return Decimal(string: digits).map { $0.isNaN ? self : .decimal($0) } ?? self
      default: return self
      }
    }
    guard case .array(let values) = self, let element = shape.elements.first else { return self }
    return .array(values.map { ComparableValue($0).typed(as: element, nil).stored })
  }
}
