// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

// LOWERING
//
// A query text becomes a request of the planner (`QueryPlan.swift` of LarderEngine), like a typed
// query. A property is a path and the type of its values, because the type determines the index
// keys of constants. The planner scans only indexes whose keys follow from the stored fields
// (`IndexRule.swift`). The complete condition is evaluated on every object of the scan, so a range
// must contain at least the matching objects.

/// The access path of a query text.
struct DynamicQueryPlan: Sendable {
  let plan: QueryPlan
  /// The reasons why indexes of the type are not used.
  let notes: [String]

  init(_ query: DynamicQuery, _ record: ObjectTypeRecord, _ evidence: IndexRuleEvidence) {
    var notes: [String] = []
    var rules: [IndexRule] = []
    for index in record.indexes where !index.fields.isEmpty {
      switch evidence.usableRule(for: index) {
      case .success(let rule): rules.append(rule)
      case .failure(let error):
        notes.append("index \"\(index.name)\" is not used: \(error.reason)")
      }
    }
    self.notes = notes
    // The position of a property is its number in the request.
    var fields: [IndexRule.Field] = []
    let indexes = rules.map { rule in
      let numbers = rule.fields.map { field in
        if let known = fields.firstIndex(where: { $0.hasKeys(of: field) }) { return known }
        fields.append(field)
        return fields.count - 1
      }
      return QueryPlan.Index(
        name: rule.name, fields: numbers, isUnique: rule.isUnique, isMultiple: rule.isMultiple)
    }
    var request = QueryPlan.Request()
    request.isLimited = query.limit != nil
    for term in Self.conjunction(query.condition) {
      for (number, field) in fields.enumerated() {
        let ranges = Self.ranges(field, term)
        let elementRanges = Self.elementRanges(field, term)
        if ranges == nil, elementRanges == nil { continue }
        request.comparisons.append(
          QueryPlan.Comparison(
            field: number, ranges: ranges, elementRanges: elementRanges, isExact: false))
      }
    }
    request.sorts = query.sort.map { sort in
      func field(_ form: IndexKeyForm) -> QueryPlan.Field? {
        fields.firstIndex { $0.path == sort.path && $0.form == form }
      }
      return QueryPlan.Sort(
        field: field(IndexKeyForm()), descending: field(IndexKeyForm(isDescending: true)),
        isDescending: sort.isDescending)
    }
    plan = QueryPlan(request, indexes) { rules[$0].number }
  }

  /// Returns the conditions that must all match.
  private static func conjunction(_ condition: QueryCondition) -> [QueryCondition] {
    if case .and(let conditions) = condition { return conditions.flatMap { conjunction($0) } }
    return [condition]
  }

  /// Returns the keys of a property that a condition allows, or `nil` if an index on the property
  /// cannot serve it.
  private static func ranges(
    _ field: IndexRule.Field, _ term: QueryCondition
  ) -> [IndexKeyRange]? {
    guard field.form == IndexKeyForm() else {
      guard case .text(field.path, let test) = term else { return nil }
      return field.form.isDescending ? nil : test.rangesIgnoringCase
    }
    switch term {
    case .compare(.path(field.path), let sign, .literal(let literal)):
      return range(field, sign, literal).map { [$0] }
    case .compare(.literal(let literal), let sign, .path(field.path)):
      return range(field, sign.exchanged, literal).map { [$0] }
    case .isIn(field.path, let literals): return equalities(field, literals)
    case .text(field.path, let test):
      return field.kind.name == "\(String.self)" ? test.ranges : nil
    default: return nil
    }
  }

  private static func range(
    _ field: IndexRule.Field, _ sign: ComparisonOperator, _ literal: QueryLiteral
  ) -> IndexKeyRange? {
    if literal.plain == .nothing {
      return sign == .equal ? .exactly([0]) : sign == .different ? .values : nil
    }
    // Keys order values of other types, but the condition does not.
    if sign != .equal, literal.plain.compared(to: literal.plain) == nil { return nil }
    return field.key(of: literal.plain).flatMap { sign.range(of: $0) }
  }

  /// Returns the keys of the elements of a collection that a condition allows, or `nil`.
  private static func elementRanges(
    _ field: IndexRule.Field, _ term: QueryCondition
  ) -> [IndexKeyRange]? {
    switch term {
    case .contains(field.path, let literal): equalities(field, [literal])
    case .containsAny(field.path, let literals): equalities(field, literals)
    case .containsAll(field.path, let literals) where !literals.isEmpty:
      equalities(field, [literals[0]])
    default: nil
    }
  }

  private static func equalities(
    _ field: IndexRule.Field, _ literals: [QueryLiteral]
  ) -> [IndexKeyRange]? {
    let keys = literals.compactMap { field.key(of: $0.plain) }
    return keys.count == literals.count ? keys.map { .equal($0) } : nil
  }
}

extension FieldPath {
  static func ~= (pattern: FieldPath, path: FieldPath) -> Bool { pattern == path }
}
