// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
package import LarderObjectEngine

// EXECUTION
//
// Without a sort, the query passes objects to the caller as it finds them. With a sort that no
// index has, it keeps only the sort values and the sequence number of each object: of all matching
// objects, or, with a limit, of at most twice the wanted ones. Then it reads the objects again, in
// the same snapshot. So the limit bounds the memory, independent of the stored objects.
//
// Constants have the types of their fields (`TypedConstants.swift`), and paths follow references
// (`FollowedReference.swift`).

/// A query for stored objects, without their Swift type.
package struct DynamicQuery: Sendable {
  package var condition: QueryCondition
  package var sort: [SortField]
  package var limit: Int?
  package var offset: Int

  package init(
    condition: QueryCondition = .all, sort: [SortField] = [], limit: Int? = nil, offset: Int = 0
  ) {
    self.condition = condition
    self.sort = sort
    self.limit = limit
    self.offset = offset
  }

  /// The number of objects to find, including the skipped ones.
  fileprivate var wanted: Int {
    guard let limit else { return .max }
    let (sum, overflow) = limit.addingReportingOverflow(offset)
    return overflow ? .max : sum
  }
}

extension DynamicObjects {
  /// Calls `body` with every object of a query's result, in order.
  ///
  /// - Parameters:
  ///   - query: The query.
  ///   - type: The record of the object type.
  ///   - body: Receives an object; returns whether to continue.
  /// - Throws: ``DynamicObjectError``, `StoreError`, and the errors of `body`.
  package func query(
    _ query: DynamicQuery, of type: ObjectTypeRecord,
    _ body: (DynamicObject) throws -> Bool
  ) throws {
    var answered = 0
    try reading("query", hasAnswered: { answered > 0 }) { snapshot in
      let run = try DynamicQueryExecution(self, query, type, snapshot)
      try run.execute(snapshot) { object in
        answered += 1
        return try body(object)
      }
    }
  }

  /// Returns the number of objects in a query's result.
  ///
  /// - Parameters:
  ///   - query: The query.
  ///   - type: The record of the object type.
  /// - Returns: The count in one snapshot, within the query's limit and offset.
  /// - Throws: ``DynamicObjectError`` and `StoreError`.
  /// - Complexity: O(log *n*) without a condition; otherwise the query reads the objects of its
  ///   plan.
  package func count(_ query: DynamicQuery, of type: ObjectTypeRecord) throws -> Int {
    try reading("count", hasAnswered: { false }) { snapshot in
      var count = 0
      if case .all = query.condition {
        count = Int(clamping: try ObjectReading.books(type.number, snapshot).count)
      } else {
        var unsorted = query
        unsorted.sort = []
        let run = try DynamicQueryExecution(self, unsorted, type, snapshot)
        try run.visit(run.plan.plan, snapshot) { _, _ in
          count += 1
          return count < query.wanted
        }
      }
      return max(0, min(count, query.wanted) - query.offset)
    }
  }

  /// Returns a description of the query plan, and of the indexes that the query cannot use.
  ///
  /// - Parameters:
  ///   - query: The query.
  ///   - type: The record of the object type.
  /// - Returns: One line per step of the plan and per index.
  /// - Throws: ``DynamicObjectError`` and `StoreError`.
  package func explain(_ query: DynamicQuery, of type: ObjectTypeRecord) throws -> String {
    try reading("explain", hasAnswered: { false }) { snapshot in
      let run = try DynamicQueryExecution(self, query, type, snapshot)
      let count = Int(clamping: try ObjectReading.books(type.number, snapshot).count)
      return run.explanation(count)
    }
  }
}

/// The execution of a query in one snapshot.
struct DynamicQueryExecution {
  let objects: DynamicObjects
  let query: DynamicQuery
  let type: ObjectTypeRecord
  let plan: DynamicQueryPlan
  private let references: ReferenceReader

  init(
    _ objects: DynamicObjects, _ query: DynamicQuery, _ type: ObjectTypeRecord,
    _ snapshot: borrowing Snapshot
  ) throws {
    let fields = try QueryFields(query, of: type, snapshot)
    var query = query
    query.condition = query.condition.typed { fields.shape(at: $0) }.paths { fields.counting($0) }
    query.sort = query.sort.map {
      SortField(path: fields.counting($0.path), isDescending: $0.isDescending)
    }
    self.objects = objects
    self.query = query
    self.type = type
    references = ReferenceReader(objects, fields.references)
    plan = DynamicQueryPlan(query, type, try IndexRuleEvidence(type, snapshot))
  }

  /// Calls `body` with the objects of the result in order, until it returns `false`.
  func execute(
    _ snapshot: borrowing Snapshot,
    _ body: (DynamicObject) throws -> Bool
  ) throws {
    if query.limit == 0 { return }
    if plan.plan.isSorted, query.sort.isEmpty {
      var found = 0
      return try visit(plan.plan, snapshot) { object, _ in
        found += 1
        if found > query.offset, try !body(object) { return false }
        return found < query.wanted
      }
    }
    for sequence in try sequences(snapshot).dropFirst(query.offset) {
      guard
        let stored = try ObjectReading.object(
          type: type.number, sequence: sequence, in: snapshot),
        let object = objects.object(stored)
      else { continue }
      if try !body(object) { return }
    }
  }

  /// Returns the sequence numbers of the result, including the skipped ones, in order.
  private func sequences(
    _ snapshot: borrowing Snapshot
  ) throws -> [UInt64] {
    do {
      return try sequences(plan.plan, snapshot)
    } catch is QueryPlan.TruncatedKey {
      return try sequences(plan.plan.unsorted, snapshot)
    }
  }

  private func sequences(
    _ plan: QueryPlan, _ snapshot: borrowing Snapshot
  ) throws -> [UInt64] {
    if plan.isSorted {
      var sequences: [UInt64] = []
      try visit(plan, snapshot) { object, _ in
        sequences.append(object.sequence)
        return sequences.count < query.wanted
      }
      return sequences
    }
    var rows = BoundedSorter<SortRow>(keeping: query.wanted) { $0.precedes($1, query.sort) }
    try visit(plan, snapshot) { object, expanded in
      rows.add(SortRow(object, expanded, query.sort))
      return true
    }
    return rows.sorted().map(\.sequence)
  }

  /// Calls `body` with every matching object in scan order, until it returns `false`. The second value
  /// has the objects that the paths of the query refer to.
  func visit(
    _ plan: QueryPlan, _ snapshot: borrowing Snapshot,
    _ body: (DynamicObject, _ expanded: CBORValue) throws -> Bool
  ) throws {
    try plan.visit(type: type.number, in: snapshot) { damage in
      objects.tell(damage)
      return true
    } _: { head, id, bytes in
      let stored = try StoredObject(head, id: id, bytes, in: snapshot)
      guard let object = objects.object(stored) else { return true }
      let expanded = try references.expanded(object.value, snapshot)
      return try query.condition.holds(for: expanded) ? body(object, expanded) : true
    }
  }

  // MARK: Explaining

  func explanation(_ count: Int) -> String {
    var filter: String? = "filter decoded objects: \(query.condition)"
    if case .all = query.condition { filter = nil }
    let lines = plan.plan.explanation(
      objects: "all \(count) objects of \(type.name)", filter: filter,
      order: query.sort.map(\.description), limit: query.limit.map { _ in query.wanted })
    return (lines + plan.notes).joined(separator: "\n")
  }
}

/// The sort values of an object.
private struct SortRow {
  let values: [ComparableValue]
  let sequence: UInt64

  init(_ object: DynamicObject, _ expanded: CBORValue, _ sort: [SortField]) {
    values = sort.map { ComparableValue($0.path.value(in: expanded)) }
    sequence = object.sequence
  }

  /// Returns whether a row comes first. Ties are in the order of insertion, reversed if the first
  /// key is descending, as in an index.
  func precedes(_ other: SortRow, _ sort: [SortField]) -> Bool {
    for (position, field) in sort.enumerated() {
      let order = values[position].sorts(before: other.values[position])
      if order != 0 { return field.isDescending ? order > 0 : order < 0 }
    }
    return sort.first?.isDescending ?? false
      ? sequence > other.sequence : sequence < other.sequence
  }
}
