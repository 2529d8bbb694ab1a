// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

// THE PLANNER
//
// A plan is one scan: an index scan over one or several key ranges, or a table scan over all
// objects of the type in their order. For each complete index, the planner examines the comparisons
// that the top level of the predicate joins with &&: equalities fix the first properties of the
// index, and one more comparison bounds the next property. The rest of the predicate becomes a
// residual filter per object.
//
// The plan with the most fixed properties wins; then one in the requested order, because it can
// stop early with a limit; then one with a bounded range, or a partial index. There are no
// statistics that could mislead it. `explain()` prints the choice and the reasons.

// The planner works on shapes: comparisons, indexes and sort keys without the object type. So it is
// compiled once; a generic planner would request type metadata at every step.

/// One comparison of a predicate, as the planner uses it.
struct Comparison: Sendable {
  /// The property, or `nil` for a closure.
  let path: AnyPath?
  /// The description, created on demand: describing a key path takes longer than a query.
  let makeText: @Sendable () -> String
  /// The keys of an index on the property that can match, or `nil` if an index cannot serve the
  /// comparison.
  let ranges: [KeyRange]?
  /// The same for a multi-key index.
  let elementRanges: [KeyRange]?
  /// Whether the ranges contain exactly the matching objects.
  let isExact: Bool
  /// The identity of the constants beyond their descriptions, created on demand.
  var makeConstants: @Sendable () -> ConstantIdentity = { .text }

  var text: String { makeText() }
  var constants: ConstantIdentity { makeConstants() }

  /// The identity of the comparison: the description, and the constants whose description is not
  /// exact.
  var identity: String { text + constants.suffix }

  /// Returns whether another comparison is the same. Closures are never the same.
  func isSame(as other: Comparison) -> Bool {
    path != nil && path == other.path && ranges == other.ranges
      && elementRanges == other.elementRanges && isExact == other.isExact && text == other.text
      && constants != .unknown && constants == other.constants
  }
}

/// An index, as the planner uses it.
struct IndexShape: Sendable {
  let name: String
  let isUnique: Bool
  let isMultiple: Bool
  let isReferences: Bool
  let paths: [AnyPath]
  let fields: [String]
  let definition: String
  /// The comparisons of a partial index's condition, empty if the condition is not a conjunction of
  /// comparisons; `nil` if the index contains all objects.
  let condition: [Comparison]?

  /// Whether the index has one key for each object that matches its condition, and for no other.
  var isPart: Bool { condition != nil && !isMultiple }

  func isStored(as stored: ObjectTypeRecord.Index) -> Bool {
    guard stored.name == name else { return false }
    return isReferences
      || stored.definition == definition && stored.isUnique == isUnique && stored.fields == fields
        && stored.hasKeysOfToday
  }
}

/// A sort key, as the planner uses it.
struct SortShape: Sendable {
  let path: AnyPath
  let direction: SortDirection
  let isIndexable: Bool
}

extension Predicate.Node {
  /// The comparisons that must all match.
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

  /// All comparisons of the tree.
  var allComparisons: [Comparison] {
    switch self {
    case .all: []
    case .leaf(let leaf): [leaf.comparison]
    case .and(let nodes), .or(let nodes): nodes.flatMap(\.allComparisons)
    case .not(let node): node.allComparisons
    }
  }

  /// Whether the predicate contains a closure, whose result may depend on more than the object.
  var isOpaque: Bool {
    switch self {
    case .all: false
    case .leaf(let leaf): leaf.origin != nil
    case .and(let nodes), .or(let nodes): nodes.contains(where: \.isOpaque)
    case .not(let node): node.isOpaque
    }
  }

  /// Whether the predicate is a conjunction of comparisons.
  var isConjunction: Bool {
    switch self {
    case .all, .leaf: true
    case .and(let nodes): nodes.allSatisfy { $0.isConjunction }
    default: false
    }
  }
}

/// The access path of a query.
struct QueryPlan: Sendable {
  struct IndexScan: Sendable {
    let name: String
    let number: UInt32
    /// The key ranges, disjoint and in ascending order.
    let ranges: [KeyRange]
    let isMultiple: Bool
    /// Whether an object can be in the ranges more than once.
    let mayRepeat: Bool
    /// The number of properties that are fixed to one value.
    let fixed: Int
    /// The bytes of the fixed properties, a common prefix of all keys.
    let prefix: [UInt8]
    /// Whether every object in the ranges matches the complete predicate.
    let isExact: Bool
    /// Whether all entries in the ranges have the same key.
    let isOneKey: Bool
  }

  /// The index scan, or `nil` for a table scan in the order of insertion.
  let walk: IndexScan?
  /// Whether the scan order is the requested order.
  private(set) var isSorted: Bool
  private(set) var backwards: Bool

  /// The same plan with a sort in memory.
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

  /// Creates the best plan for a list of comparisons.
  ///
  /// - Parameter isAll: Whether the comparisons are the complete predicate.
  private init(
    _ leaves: [Comparison], isAll: Bool, _ sorts: [SortShape], maximum: Int?,
    _ indexes: [IndexShape], _ record: ObjectTypeRecord
  ) {
    var best: (score: Int, walk: IndexScan?, isSorted: Bool) = (0, nil, sorts.isEmpty)
    for index in indexes {
      // Most indexes are unrelated to a query.
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
      // A scan of a complete partial index is still a bounded scan.
      let isBounded = walk.ranges != [Self.everything] || index.isPart
      guard isBounded || isSorted else { continue }
      // Without a limit, a scan of a complete index costs a look-up per object and only saves a
      // sort.
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

  /// Returns whether a query implies an index's condition.
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
        // Different elements can match different comparisons, so the plan scans the ranges of only
        // one.
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
    // A key is stored up to 440 bytes plus a hash; the residual filter compares the rest. Elements
    // with the same first 440 bytes are in one range.
    let isLong = ranges.contains {
      max($0.lower.count, ($0.upper?.count ?? 1) - 1) >= KeyRange.limit
    }
    if isLong { ranges = merged(ranges.map { $0.widened }) }
    // The ranges cover the complete predicate.
    return IndexScan(
      name: index.name, number: number, ranges: ranges, isMultiple: index.isMultiple,
      mayRepeat: index.isMultiple && (ranges.count > 1 || isLong || index.isReferences),
      fixed: fixed, prefix: prefix,
      isExact: isExact && !isLong && isAll && leaves.count == used && index.condition == nil,
      isOneKey: !isLong && ranges.count == 1 && fixed == index.paths.count && !index.isReferences)
  }

  /// Returns the ranges in ascending order without overlaps.
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

  /// Returns whether an index has the requested order: after the fixed properties, exactly the
  /// sort's properties follow, all in one direction.
  private static func isSorted(
    _ sorts: [SortShape], _ index: IndexShape, _ walk: IndexScan
  ) -> Bool {
    guard let first = sorts.first, !index.isMultiple else { return false }
    guard sorts.allSatisfy({ $0.isIndexable && $0.direction == first.direction }) else {
      return false
    }
    let rest = index.paths.dropFirst(walk.fixed)
    // Without key path literals: generic code creates one on every execution.
    return rest.count == sorts.count && zip(rest, sorts).allSatisfy { $0 == $1.path }
  }
}
