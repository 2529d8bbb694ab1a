// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE PLANNER
//
// A plan is one scan: an index scan over one or several key ranges, or a table scan over all
// objects of the type in their order. Typed predicates (LarderObjects) and query text
// (LarderDynamic) are lowered to the same request: comparisons, sort keys and indexes whose
// properties are numbers, and whose constants are ranges of index keys. So the planner is compiled
// once; a generic planner would request type metadata at every step.
//
// For each complete index, the planner examines the comparisons that the top level of the predicate
// joins with &&: equalities fix the first properties of the index, and one more comparison bounds
// the next property. The rest of the predicate becomes a residual filter per object.
//
// The plan with the most fixed properties wins; then one in the requested order, because it can
// stop early with a limit; then one with a bounded range, or a partial index. There are no
// statistics that could mislead it. `explain()` prints the choice and the reasons.

/// The access path of a query.
package struct QueryPlan: Sendable {
  /// A property that an index contains. Numbers are unique within a request.
  package typealias Field = Int

  /// One comparison of a predicate.
  package struct Comparison: Sendable {
    /// The property, or `nil` if no index contains it.
    let field: Field?
    /// The keys of an index on the property that can match, or `nil` if an index cannot serve the
    /// comparison.
    let ranges: [IndexKeyRange]?
    /// The same for a multi-key index.
    let elementRanges: [IndexKeyRange]?
    /// Whether the ranges contain exactly the matching objects.
    let isExact: Bool

    package init(
      field: Field?, ranges: [IndexKeyRange]?, elementRanges: [IndexKeyRange]? = nil, isExact: Bool
    ) {
      self.field = field
      self.ranges = ranges
      self.elementRanges = elementRanges
      self.isExact = isExact
    }
  }

  /// One key of a sort.
  package struct Sort: Sendable {
    /// The property, or `nil` if no index has the order of the sort key.
    let field: Field?
    /// The same property in descending form, or `nil` if no index contains it.
    let descending: Field?
    let isDescending: Bool

    package init(field: Field?, descending: Field? = nil, isDescending: Bool) {
      self.field = field
      self.descending = descending
      self.isDescending = isDescending
    }
  }

  /// An index that a plan can scan.
  package struct Index: Sendable {
    let name: String
    let fields: [Field]
    let isUnique: Bool
    let isMultiple: Bool
    /// Whether keys continue after the properties: an equality on all of them matches several keys.
    let isOpen: Bool
    /// Whether the index contains only the objects that match its condition.
    let isPartial: Bool

    package init(
      name: String, fields: [Field], isUnique: Bool, isMultiple: Bool, isOpen: Bool = false,
      isPartial: Bool = false
    ) {
      self.name = name
      self.fields = fields
      self.isUnique = isUnique
      self.isMultiple = isMultiple
      self.isOpen = isOpen
      self.isPartial = isPartial
    }

    /// Whether the index has one key for each object that matches its condition, and for no other.
    fileprivate var isPart: Bool { isPartial && !isMultiple }
  }

  /// A lowered query.
  package struct Request: Sendable {
    package var comparisons: [Comparison] = []
    /// Whether the comparisons are the complete predicate.
    package var isComplete = false
    package var sorts: [Sort] = []
    /// Whether the query has a limit.
    package var isLimited = false

    package init() {}
  }

  /// The index scan of a plan.
  package struct IndexScan: Sendable {
    package let name: String
    package let number: UInt32
    /// The key ranges, disjoint and in ascending order.
    package internal(set) var ranges: [IndexKeyRange]
    package let isMultiple: Bool
    /// Whether an object can be in the ranges more than once.
    let mayRepeat: Bool
    /// The number of properties that are fixed to one value.
    let fixed: Int
    /// The number of properties of the index.
    let properties: Int
    /// The bytes of the fixed properties, a common prefix of all keys.
    let prefix: [UInt8]
    /// Whether every object in the ranges matches the complete predicate.
    package let isExact: Bool
    /// Whether all entries in the ranges have the same key.
    package let isOneKey: Bool

    var isWhole: Bool { ranges == [.everything] }
  }

  /// The index scan, or `nil` for a table scan in the order of insertion.
  package internal(set) var scan: IndexScan?
  /// The sequence number at which a table scan begins.
  var first: UInt64?
  /// The sequence numbers of the objects to visit, in their order, instead of a scan: the result of
  /// a full-text search.
  package var sequences: [UInt64]?
  /// Whether the scan order is the requested order.
  package private(set) var isSorted: Bool
  /// Whether the requested order is the order of the index keys, not that of insertion.
  let hasSort: Bool
  let isBackwards: Bool
  /// Whether each property of the sort is in descending form in the keys of the scan.
  private var areDescending: [Bool] = []

  /// The same plan with a sort in memory.
  package var unsorted: QueryPlan { QueryPlan(scan, isSorted: false, hasSort: hasSort) }

  private init(_ scan: IndexScan?, isSorted: Bool, hasSort: Bool, isBackwards: Bool = false) {
    self.scan = scan
    self.isSorted = isSorted
    self.hasSort = hasSort
    self.isBackwards = isBackwards
  }

  /// Creates the plan of a full-text search, whose ``sequences`` are to be set.
  ///
  /// - Parameter hasSort: Whether another order than that of the search is requested.
  package init(ofTextHits hasSort: Bool) {
    self.init(nil, isSorted: !hasSort, hasSort: hasSort)
  }

  /// Creates the best plan for a request.
  ///
  /// - Parameters:
  ///   - request: The lowered query.
  ///   - indexes: The indexes of the type.
  ///   - number: Returns the identifier of the index at a position, or `nil` if the query cannot
  ///     use that index. The planner calls it only for indexes that can serve the request.
  package init(_ request: Request, _ indexes: [Index], number: (_ position: Int) -> UInt32?) {
    let sorts = request.sorts
    var best: (score: Int, scan: IndexScan?, isSorted: Bool) = (0, nil, sorts.isEmpty)
    for position in indexes.indices {
      let index = indexes[position]
      // Most indexes are unrelated to a query.
      guard let first = index.fields.first,
        request.comparisons.contains(where: { $0.field == first }) || index.isPart
          || (request.isLimited && sorts.first?.field == first),
        let number = number(position)
      else { continue }
      let scan = Self.scan(index, number, request)
      let isSorted = Self.isSorted(sorts, index, fixed: scan.fixed)
      // A scan of a complete partial index is still a bounded scan.
      let isBounded = !scan.isWhole || index.isPart
      // Without a limit, a scan of a complete index costs a look-up per object and only saves a
      // sort.
      guard isBounded || (isSorted && request.isLimited) else { continue }
      let score =
        scan.fixed * 8 + (isBounded ? 4 : 0) + (index.isPart ? 1 : 0)
        + (isSorted && !sorts.isEmpty ? (request.isLimited ? 6 : 1) : 0)
        + (index.isUnique && scan.fixed == index.fields.count ? 16 : 0)
      if score > best.score { best = (score, scan, isSorted) }
    }
    // Entries of one key are in the order of insertion.
    let isSorted = sorts.isEmpty ? best.scan?.isOneKey ?? true : best.isSorted
    self.init(
      best.scan, isSorted: isSorted, hasSort: !sorts.isEmpty,
      isBackwards: isSorted && sorts.first?.isDescending ?? false)
    areDescending = sorts.map { $0.isDescending != sorts[0].isDescending }
  }

  private static func scan(_ index: Index, _ number: UInt32, _ request: Request) -> IndexScan {
    var prefix: [UInt8] = []
    var fixed = 0
    var ranges = [IndexKeyRange.everything]
    var used = 0
    var isExact = true
    for field in index.fields {
      let fitting = request.comparisons.filter {
        $0.field == field && (index.isMultiple ? $0.elementRanges : $0.ranges) != nil
      }
      guard !fitting.isEmpty else { break }
      if index.isMultiple {
        // Different elements can match different comparisons, so the plan scans the ranges of only
        // one.
        ranges = IndexKeyRange.merged(fitting[0].elementRanges!)
        used += 1
        isExact = isExact && fitting[0].isExact && ranges.count == 1
        fixed = ranges.allSatisfy { $0.isEquality } ? 1 : 0
        break
      }
      used += fitting.count
      if let equal = fitting.first(where: { $0.ranges!.count == 1 && $0.ranges![0].isEquality }) {
        prefix += equal.ranges![0].lower
        fixed += 1
        isExact = isExact && equal.isExact && fitting.count == 1
        ranges = [.exactly(prefix)]
        continue
      }
      let narrowed = fitting.dropFirst().reduce(IndexKeyRange.merged(fitting[0].ranges!)) {
        narrowed, comparison in
        IndexKeyRange.intersection(narrowed, IndexKeyRange.merged(comparison.ranges!))
      }
      isExact = isExact && fitting.allSatisfy { $0.isExact }
      ranges = IndexKeyRange.merged(
        narrowed.filter { !$0.isEmpty }.map { $0.following(prefix) })
      break
    }
    // The residual filter compares what an index truncates. Elements with the same first bytes are
    // in one range.
    let isLong = ranges.contains { $0.isLong }
    if isLong { ranges = IndexKeyRange.merged(ranges.map { $0.widened }) }
    return IndexScan(
      name: index.name, number: number, ranges: ranges, isMultiple: index.isMultiple,
      mayRepeat: index.isMultiple && (ranges.count > 1 || isLong || index.isOpen),
      fixed: fixed, properties: index.fields.count, prefix: prefix,
      isExact: isExact && !isLong && request.isComplete && request.comparisons.count == used
        && !index.isPartial,
      isOneKey: !isLong && ranges.count == 1 && fixed == index.fields.count && !index.isOpen)
  }

  /// Returns whether an index has the requested order: after the fixed properties, exactly the
  /// sort's properties follow, in the direction of the first one, or in descending form in the other.
  private static func isSorted(_ sorts: [Sort], _ index: Index, fixed: Int) -> Bool {
    guard let first = sorts.first, !index.isMultiple else { return false }
    let rest = index.fields.dropFirst(fixed)
    return rest.count == sorts.count
      && zip(rest, sorts).allSatisfy {
        $0 == ($1.isDescending == first.isDescending ? $1.field : $1.descending)
      }
  }

  // MARK: Positions

  /// Whether the scan can begin at a position: a key of the sort, or a sequence number.
  package var canBegin: Bool { isSorted && sequences == nil && (scan == nil || hasSort) }

  /// Restricts the scan to the objects after a position, if the scan has the requested order and
  /// the index stores the position completely.
  ///
  /// - Parameters:
  ///   - sequence: The sequence number of the position.
  ///   - keys: The index keys of its sort values, or `nil` if an index cannot contain one of them.
  package mutating func begin(after sequence: UInt64, keys: [[UInt8]]?) {
    guard let scan else {
      if !hasSort, sequences == nil { first = sequence &+ 1 }
      return
    }
    guard canBegin, let keys else { return }
    var entry = scan.prefix
    for (key, isDescending) in zip(keys, areDescending) {
      entry += isDescending ? IndexKeyForm.complement(key) : key
    }
    guard entry.count <= IndexKeyRange.limit else { return }
    // Index entries are ordered by key, then by sequence number.
    PackedKey.append(sequence: isBackwards ? sequence : sequence &+ 1, to: &entry)
    let rest =
      isBackwards
      ? IndexKeyRange(lower: [], upper: entry) : IndexKeyRange(lower: entry, upper: nil)
    self.scan!.ranges = scan.ranges.map { $0.intersection(rest) }.filter { !$0.isEmpty }
  }
}
