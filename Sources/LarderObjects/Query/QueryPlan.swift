// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

// THE PLANNER
//
// A plan is one walk: over an index, in one or several ranges of its keys, or over all objects of the
// type in their order. The comparisons that stand at the top of the predicate, joined by &&, are
// looked at for each index that is complete: equalities fix its first properties, one more
// comparison bounds the next. What is left is judged object by object.
//
// The plan with the most fixed properties wins; then one whose order is the order asked for, since
// with a limit it can stop early; then one with a range at all, or an index of some objects. There are no statistics to mislead
// it. `explain()` says what was chosen and why.

// The planner looks at shapes: what a comparison, an index, a sort key is without the type of the
// object. So it is compiled once, where a generic one would ask for its types' metadata at every step.

/// One comparison of a predicate, as the planner sees it.
struct Comparison: Sendable {
  /// The property; `nil` for a closure.
  let path: AnyPath?
  /// Made when somebody asks: describing a key path takes longer than a query does.
  let makeText: @Sendable () -> String
  /// The keys of an index on the property that may fit; `nil`: no index helps.
  let ranges: [KeyRange]?
  /// The same for an index with one key an element.
  let elementRanges: [KeyRange]?
  /// Whether the ranges hold every object that fits and no other.
  let isExact: Bool
  /// Made when something asks: what tells the constants from others that read the same.
  var makeConstants: @Sendable () -> ConstantIdentity = { .text }

  var text: String { makeText() }
  var constants: ConstantIdentity { makeConstants() }

  /// What tells the comparison from others: the text, and the constants that it does not say exactly.
  var identity: String { text + constants.suffix }

  /// Whether another comparison says the same; what a closure says is not known.
  func isSame(as other: Comparison) -> Bool {
    path != nil && path == other.path && ranges == other.ranges
      && elementRanges == other.elementRanges && isExact == other.isExact && text == other.text
      && constants != .unknown && constants == other.constants
  }
}

/// An index, as the planner sees it.
struct IndexShape: Sendable {
  let name: String
  let isUnique: Bool
  let isMultiple: Bool
  let isReferences: Bool
  let paths: [AnyPath]
  let fields: [String]
  let definition: String
  /// The comparisons its objects fit, none of them if it is no conjunction of comparisons; `nil`: all
  /// objects are in it.
  let condition: [Comparison]?

  /// Whether it has a key of each object that fits its condition, and of no other.
  var isPart: Bool { condition != nil && !isMultiple }

  func isStored(as stored: ObjectTypeRecord.Index) -> Bool {
    guard stored.name == name else { return false }
    return isReferences
      || stored.definition == definition && stored.isUnique == isUnique && stored.fields == fields
        && stored.hasKeysOfToday
  }
}

/// A key of a sort, as the planner sees it.
struct SortShape: Sendable {
  let path: AnyPath
  let direction: SortDirection
  let isIndexable: Bool
}

extension Predicate.Node {
  /// The comparisons that must all hold.
  var comparisons: [Comparison] {
    switch self {
    case .leaf(let leaf): return [leaf.comparison]
    case .and(let nodes):
      var all: [Comparison] = []
      for node in nodes { all += node.comparisons }
      return all
    default: return []
    }
  }

  /// Every comparison, wherever it is.
  var allComparisons: [Comparison] {
    switch self {
    case .all: []
    case .leaf(let leaf): [leaf.comparison]
    case .and(let nodes), .or(let nodes): nodes.flatMap(\.allComparisons)
    case .not(let node): node.allComparisons
    }
  }

  /// Whether a closure is in it, whose answer may depend on more than the object.
  var isOpaque: Bool {
    switch self {
    case .all: false
    case .leaf(let leaf): leaf.origin != nil
    case .and(let nodes), .or(let nodes): nodes.contains(where: \.isOpaque)
    case .not(let node): node.isOpaque
    }
  }

  /// Whether there is nothing but comparisons that must all hold.
  var isConjunction: Bool {
    switch self {
    case .all, .leaf: true
    case .and(let nodes): nodes.allSatisfy { $0.isConjunction }
    default: false
    }
  }
}

/// How a query is answered.
struct QueryPlan: Sendable {
  struct IndexScan: Sendable {
    let name: String
    let number: UInt32
    /// The ranges of keys, apart from each other, in ascending order.
    let ranges: [KeyRange]
    let isMultiple: Bool
    /// Whether an object may be in the ranges more than once.
    let mayRepeat: Bool
    /// How many properties are fixed to one value.
    let fixed: Int
    /// The bytes of the fixed properties, which all keys begin with.
    let prefix: [UInt8]
    /// Whether every object in the ranges fits all of the predicate.
    let isExact: Bool
    /// Whether all entries in the ranges have the same key.
    let isOneKey: Bool
  }

  /// `nil`: every object, in the order of insertion.
  let walk: IndexScan?
  /// Whether the walk's order is the order asked for.
  private(set) var isSorted: Bool
  private(set) var backwards: Bool

  /// The same, to be sorted afterwards.
  var unsorted: QueryPlan {
    var plan = self
    plan.isSorted = false
    plan.backwards = false
    return plan
  }

  init<Object>(
    _ query: Query<Object>, _ kind: ObjectTypeDescriptor<Object>, _ record: ObjectTypeRecord
  ) {
    var sorts: [SortShape] = []
    for sort in query.sorts { sorts.append(sort.shape) }
    self.init(
      query.predicate.node.comparisons, isAll: query.predicate.node.isConjunction, sorts,
      maximum: query.maximum, kind.walkable, record)
  }

  /// - Parameter isAll: Whether the comparisons are all there is of the predicate.
  private init(
    _ leaves: [Comparison], isAll: Bool, _ sorts: [SortShape], maximum: Int?,
    _ indexes: [IndexShape], _ record: ObjectTypeRecord
  ) {
    var best: (score: Int, walk: IndexScan?, isSorted: Bool) = (0, nil, sorts.isEmpty)
    for index in indexes {
      // Most indexes have nothing to do with a query.
      let first = index.paths[0]
      guard
        leaves.contains(where: { $0.path == first }) || index.isPart
          || (maximum != nil && sorts.first?.path == first)
      else { continue }
      guard
        let stored = record.indexes.first(where: { index.isStored(as: $0) }), stored.builtTo == nil,
        Self.demands(index.condition, leaves)
      else { continue }
      let walk = Self.walk(index, stored.number, leaves, isAll: isAll)
      let isSorted = Self.isSorted(sorts, index, walk)
      // All of an index of some objects is a part of all objects.
      let isBounded = walk.ranges != [Self.everything] || index.isPart
      guard isBounded || isSorted else { continue }
      // Without a limit, walking all of an index costs a look-up an object and saves a sort.
      if !isBounded, maximum == nil { continue }
      let score =
        walk.fixed * 8 + (isBounded ? 4 : 0) + (index.isPart ? 1 : 0)
        + (isSorted && !sorts.isEmpty ? (maximum == nil ? 1 : 6) : 0)
        + (index.isUnique && walk.fixed == index.paths.count ? 16 : 0)
      if score > best.score { best = (score, walk, isSorted) }
    }
    walk = best.walk
    // Entries of one key are in the order of insertion.
    let isOneKey = best.walk?.isOneKey ?? true
    isSorted = sorts.isEmpty ? isOneKey : best.isSorted
    backwards = isSorted && sorts.first?.direction == .descending
  }

  static var everything: KeyRange { KeyRange(lower: [], upper: nil) }

  /// Whether a query demands at least what an index's condition does.
  private static func demands(_ condition: [Comparison]?, _ leaves: [Comparison]) -> Bool {
    guard let condition else { return true }
    guard !condition.isEmpty else { return false }
    return condition.allSatisfy { leaf in leaves.contains { $0.isSame(as: leaf) } }
  }

  private static func walk(
    _ index: IndexShape, _ number: UInt32, _ leaves: [Comparison], isAll: Bool
  ) -> IndexScan {
    var prefix: [UInt8] = []
    var fixed = 0
    var ranges = [everything]
    var used = 0
    var isExact = true
    for path in index.paths {
      let fitting = leaves.filter {
        $0.path == path && (index.isMultiple ? $0.elementRanges : $0.ranges) != nil
      }
      guard !fitting.isEmpty else { break }
      if index.isMultiple {
        // Different elements may fit different comparisons: only one can be walked.
        ranges = merged(fitting[0].elementRanges!)
        used += 1
        isExact = isExact && fitting[0].isExact && ranges.count == 1
        fixed = ranges.allSatisfy { $0.isEquality } ? 1 : 0
        break
      }
      if let equal = fitting.first(where: { $0.ranges!.count == 1 && $0.ranges![0].isEquality }) {
        prefix += equal.ranges![0].lower
        fixed += 1
        used += fitting.count
        isExact = isExact && equal.isExact && fitting.count == 1
        ranges = [.exactly(prefix)]
        continue
      }
      var narrowed = merged(fitting[0].ranges!)
      for leaf in fitting.dropFirst() {
        narrowed = narrowed.flatMap { range in
          leaf.ranges!.map { range.intersection($0) }
        }
      }
      used += fitting.count
      isExact = isExact && fitting.allSatisfy { $0.isExact }
      ranges = merged(
        narrowed.map {
          KeyRange(
            lower: prefix + $0.lower, upper: $0.upper.map { prefix + $0 } ?? KeyRange.after(prefix))
        })
      break
    }
    if prefix.isEmpty, ranges.isEmpty { ranges = [] }
    // A key is kept up to 440 bytes and a hash; what lies behind that is left to the judge. Elements
    // that are the same up to there stand in one range.
    let isLong = ranges.contains {
      max($0.lower.count, ($0.upper?.count ?? 1) - 1) >= KeyRange.limit
    }
    if isLong { ranges = merged(ranges.map { $0.widened }) }
    // Everything the predicate says is in the ranges.
    return IndexScan(
      name: index.name, number: number, ranges: ranges, isMultiple: index.isMultiple,
      mayRepeat: index.isMultiple && (ranges.count > 1 || isLong || index.isReferences),
      fixed: fixed, prefix: prefix,
      isExact: isExact && !isLong && isAll && leaves.count == used && index.condition == nil,
      isOneKey: !isLong && ranges.count == 1 && fixed == index.paths.count && !index.isReferences)
  }

  /// Ranges in ascending order that do not overlap.
  private static func merged(_ ranges: [KeyRange]) -> [KeyRange] {
    var result: [KeyRange] = []
    let sorted = ranges.filter { range in
      range.upper.map { range.lower.lexicographicallyPrecedes($0) } ?? true
    }.sorted { $0.lower.lexicographicallyPrecedes($1.lower) }
    for range in sorted {
      guard let last = result.last else {
        result.append(range)
        continue
      }
      guard let end = last.upper else { break }
      if end.lexicographicallyPrecedes(range.lower) {
        result.append(range)
      } else if range.upper.map({ end.lexicographicallyPrecedes($0) }) ?? true {
        result[result.count - 1].upper = range.upper
      }
    }
    return result
  }

  /// Whether an index gives objects in the order asked for: behind the fixed properties come
  /// exactly the sort's, all in one direction.
  private static func isSorted(
    _ sorts: [SortShape], _ index: IndexShape, _ walk: IndexScan
  ) -> Bool {
    guard let first = sorts.first, !index.isMultiple else { return false }
    guard sorts.allSatisfy({ $0.isIndexable && $0.direction == first.direction }) else {
      return false
    }
    let rest = index.paths.dropFirst(walk.fixed)
    // No key path literals here: in generic code each one is made anew.
    return rest.count == sorts.count && zip(rest, sorts).allSatisfy { $0 == $1.path }
  }
}
