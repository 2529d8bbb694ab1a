// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
package import LarderObjectEngine

/// A field of a query text that no object has.
package struct UnknownField: Sendable {
  /// The field.
  package let name: String
  /// The fields with the most similar names.
  package let near: [String]
  /// All known fields.
  package let known: [String]
  /// Whether the catalog contains the declared fields, so that stored objects may lack some of
  /// them.
  package let isDeclared: Bool
}

extension DynamicObjects {
  /// Returns the first field of a query that the type does not declare and no stored object has.
  ///
  /// - Parameters:
  ///   - query: The query.
  ///   - type: The record of the object type.
  /// - Returns: The field, or `nil` if all fields are known.
  /// - Throws: ``DynamicObjectError`` and `StoreError`.
  /// - Complexity: O(1) if all fields are declared; otherwise the method reads objects until it
  ///   finds all fields.
  package func unknownField(
    in query: DynamicQuery, of type: ObjectTypeRecord
  ) throws -> UnknownField? {
    let names = (query.condition.paths + query.sort.map(\.path)).compactMap(\.names.first)
    var known = Set(RecordedFields(type.schema ?? []).fields.keys)
    var missing = Set(names).subtracting(known)
    if missing.isEmpty { return nil }
    var count = 0
    try reading("query", hasAnswered: { false }) { snapshot in
      try ObjectReading.scan(type: type.number, in: snapshot) { found in
        guard case .success(let stored) = found, let read = self.object(stored),
          case .map(let pairs) = read.value.untagged
        else { return true }
        count += 1
        for pair in pairs {
          guard case .text(let name) = pair.key else { continue }
          known.insert(name)
          missing.remove(name)
        }
        return !missing.isEmpty
      }
    }
    guard let name = names.first(where: missing.contains), count > 0 || type.schema != nil else {
      return nil
    }
    return UnknownField(
      name: name, near: NearNames.of(name, among: known), known: known.sorted(),
      isDeclared: type.schema != nil)
  }
}

extension QueryCondition {
  /// The properties in the condition.
  var paths: [FieldPath] {
    switch self {
    case .all: []
    case .compare(let left, _, let right): [left, right].compactMap(\.path)
    case .isIn(let path, _), .text(let path, _), .contains(let path, _), .containsAll(let path, _),
      .containsAny(let path, _), .matches(let path, _):
      [path]
    case .and(let parts), .or(let parts): parts.flatMap(\.paths)
    case .not(let part): part.paths
    }
  }
}

extension QueryCondition.Operand {
  fileprivate var path: FieldPath? {
    if case .path(let path) = self { path } else { nil }
  }
}
