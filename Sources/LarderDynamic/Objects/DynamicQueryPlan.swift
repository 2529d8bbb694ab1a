// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

// PLANNING WITHOUT TYPES
//
// As in the program's own planner (`QueryPlan.swift` of LarderObjects): one walk, over an index in
// ranges of its keys or over all objects. The comparisons joined by && at the top of the condition are
// looked at for each index that is complete and whose keys are known (`IndexRule.swift`); equalities
// fix its first properties, one more comparison bounds the next. Every object found is judged by the
// whole condition, so a range only has to hold at least what fits.

/// How a query is answered.
struct DynamicQueryPlan: Sendable {
  struct IndexScan: Sendable {
    let rule: IndexRule
    /// Apart from each other, in ascending order.
    let ranges: [IndexRange]
    let fixed: Int
    /// How many comparisons made the ranges.
    let used: Int

    var isWhole: Bool { ranges == [.everything] }
  }

  /// `nil`: every object, in the order of insertion.
  let walk: IndexScan?
  /// Whether the walk's order is the order asked for.
  let isSorted: Bool
  let backwards: Bool
  /// Indexes that would have helped, and why they do not.
  let notes: [String]

  init(_ query: DynamicQuery, _ record: ObjectTypeRecord, _ evidence: IndexRuleEvidence) {
    let terms = Self.conjunction(query.condition)
    var best: (score: Int, walk: IndexScan?, isSorted: Bool) = (0, nil, query.sort.isEmpty)
    var notes: [String] = []
    for index in record.indexes where !index.fields.isEmpty {
      guard let rule = evidence.rules[index.number] else {
        notes.append(
          "index \"\(index.name)\" is not used: "
            + (evidence.foreign[index.number] ?? "it is not understood"))
        continue
      }
      if let doubt = evidence.doubt(about: rule) {
        notes.append("index \"\(index.name)\" is not used: \(doubt)")
        continue
      }
      guard index.builtTo == nil else {
        notes.append("index \"\(index.name)\" is not used: it is not complete yet")
        continue
      }
      let walk = Self.walk(rule, terms)
      let isSorted = Self.isSorted(query.sort, walk)
      if walk.isWhole && (!isSorted || query.sort.isEmpty || query.limit == nil) { continue }
      let score =
        walk.fixed * 8 + (walk.isWhole ? 0 : 4)
        + (isSorted && !query.sort.isEmpty ? (query.limit == nil ? 1 : 6) : 0)
        + (rule.isUnique && walk.fixed == rule.fields.count ? 16 : 0)
      if score > best.score { best = (score, walk, isSorted) }
    }
    walk = best.walk
    // Without a sort, the order is that of insertion, whatever index is walked.
    isSorted = query.sort.isEmpty ? best.walk == nil : best.isSorted && best.walk != nil
    backwards = isSorted && query.sort.first?.isDescending ?? false
    self.notes = notes
  }

  /// The conditions that must all hold.
  private static func conjunction(_ condition: QueryCondition) -> [QueryCondition] {
    if case .and(let conditions) = condition { return conditions.flatMap { conjunction($0) } }
    return [condition]
  }

  private static func walk(_ rule: IndexRule, _ terms: [QueryCondition]) -> IndexScan {
    func made(_ ranges: [IndexRange], _ fixed: Int, _ used: Int) -> IndexScan {
      IndexScan(
        rule: rule, ranges: IndexRange.merged(ranges.map(\.widened)), fixed: fixed, used: used)
    }
    if rule.isMultiple {
      // Different elements may fit different comparisons: only one can be walked.
      for term in terms {
        guard let ranges = elementRanges(rule.fields[0], term) else { continue }
        return made(ranges, ranges.allSatisfy(\.isEquality) ? 1 : 0, 1)
      }
      return IndexScan(rule: rule, ranges: [.everything], fixed: 0, used: 0)
    }
    var prefix: [UInt8] = []
    var fixed = 0
    var used = 0
    for field in rule.fields {
      let fitting = terms.compactMap { ranges(field, $0) }
      guard !fitting.isEmpty else { break }
      used += fitting.count
      if let equal = fitting.first(where: { $0.count == 1 && $0[0].isEquality }) {
        prefix += equal[0].lower
        fixed += 1
        continue
      }
      let narrowed = fitting.dropFirst().reduce(IndexRange.merged(fitting[0])) { narrowed, ranges in
        IndexRange.merged(narrowed.flatMap { range in ranges.map { range.intersection($0) } })
      }
      return made(narrowed.map { $0.behind(prefix) }, fixed, used)
    }
    return fixed == 0
      ? IndexScan(rule: rule, ranges: [.everything], fixed: 0, used: 0)
      : made([.exactly(prefix)], fixed, used)
  }

  /// The keys of one property that a condition allows; `nil`: it says nothing about it.
  private static func ranges(
    _ field: IndexRule.Field, _ term: QueryCondition
  ) -> [IndexRange]? {
    func key(_ literal: QueryLiteral) -> [UInt8]? {
      literal.plain == .nothing ? [0] : field.kind.literalKey(literal.plain)
    }
    switch term {
    case .compare(.path(let path), let comparison, .literal(let literal)),
      .compare(.literal(let literal), let comparison, .path(let path)):
      guard path == field.path else { return nil }
      var sign = comparison
      if case .compare(.literal, _, _) = term { sign = comparison.turned }
      if literal.plain == .nothing {
        switch sign {
        case .equal: return [.exactly([0])]
        case .different: return [IndexRange(lower: IndexRange.firstValue, upper: nil)]
        default: return nil
        }
      }
      // Only what compares has an order; the others' keys say nothing about below and above.
      if sign != .equal, literal.plain.compared(to: literal.plain) == nil { return nil }
      return key(literal).flatMap { IndexRange.keys(sign, $0) }.map { [$0] }
    case .isIn(let path, let literals):
      guard path == field.path else { return nil }
      let keys = literals.map(key)
      return keys.contains { $0 == nil } ? nil : keys.map { .exactly($0!) }
    case .text(let path, let test):
      guard path == field.path, test.kind == .hasPrefix,
        let key = field.kind.literalKey(.text(test.argument)), key.first == 0x02
      else { return nil }
      let start = Array(key.dropLast())
      return [IndexRange(lower: start, upper: IndexRange.after(start))]
    default: return nil
    }
  }

  private static func elementRanges(
    _ field: IndexRule.Field, _ term: QueryCondition
  ) -> [IndexRange]? {
    let literals: [QueryLiteral]
    switch term {
    case .contains(field.path, let literal): literals = [literal]
    case .containsAny(field.path, let any): literals = any
    case .containsAll(field.path, let all) where !all.isEmpty: literals = [all[0]]
    default: return nil
    }
    let keys = literals.map {
      $0.plain == .nothing ? [0] : field.kind.literalKey($0.plain)
    }
    return keys.contains { $0 == nil } ? nil : keys.map { .exactly($0!) }
  }

  /// Whether a walk gives objects in the order asked for: behind the fixed properties come exactly
  /// the sort's, all in one direction.
  private static func isSorted(_ sort: [SortField], _ walk: IndexScan) -> Bool {
    guard let first = sort.first, !walk.rule.isMultiple,
      sort.allSatisfy({ $0.isDescending == first.isDescending })
    else { return false }
    let rest = walk.rule.fields.dropFirst(walk.fixed)
    return rest.count == sort.count && zip(rest, sort).allSatisfy { $0.path == $1.path }
  }
}

extension FieldPath {
  static func ~= (pattern: FieldPath, path: FieldPath) -> Bool { pattern == path }
}
