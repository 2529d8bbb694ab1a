// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

extension QueryExecution {
  /// Whether the query reads no more of an object than its own fields.
  private var needsOnlyFields: Bool {
    // A type with a budget needs the ids, to record the use of the objects.
    query.start == nil && record.references == nil && record.isBounded != true
  }

  /// Reads a row of each matching object, in the query's order, without decoding the objects.
  ///
  /// - Returns: The rows, or `nil` if the query needs the objects: to sort them, or because the type
  ///   does not declare the fields.
  func rows<Row>(
    _ reader: RowReader<Object, Row>, _ snapshot: borrowing Snapshot
  ) throws -> [Row]? {
    guard needsOnlyFields, query.sorts.isEmpty || plan.isSorted,
      let stored = reader.stored?(record.layouts)
    else {
      return nil
    }
    let wanted = query.wanted
    if wanted == 0 { return [] }
    guard plan.isSorted else { return try sortedRows(stored, reader.decoded, snapshot) }
    var rows: [Row] = []
    do {
      try visit(snapshot) { _, bytes in
        guard let row = stored(bytes) else { return nil }
        rows.append(row)
        return rows.count < wanted
      } _: { found in
        rows.append(reader.decoded(found.object))
        return rows.count < wanted
      }
    } catch is QueryPlan.TruncatedKey {
      return nil
    }
    return query.skipped == 0 ? rows : Array(rows.dropFirst(query.skipped))
  }

  /// Reads the rows of a scan in another order, and sorts them in the order of insertion.
  private func sortedRows<Row>(
    _ stored: @escaping @Sendable (RawSpan) -> Row?, _ decoded: @Sendable (Object) -> Row,
    _ snapshot: borrowing Snapshot
  ) throws -> [Row] {
    var found: [(sequence: UInt64, row: Row)] = []
    try visit(snapshot) { head, bytes in
      guard let row = stored(bytes) else { return nil }
      found.append((head.sequence, row))
      return true
    } _: { object in
      found.append((object.sequence, decoded(object.object)))
      return true
    }
    found.sort { $0.sequence < $1.sequence }
    let count = max(query.wanted - query.skipped, 0)
    return found.dropFirst(query.skipped).prefix(count).map { $0.row }
  }

  /// Combines the rows of all matching objects, in any order, without decoding the objects.
  ///
  /// - Returns: The result, or `nil` if the query has an order that matters, or needs the objects.
  func reduced<Row, Result>(
    _ reader: RowReader<Object, Row>, _ initial: Result, _ snapshot: borrowing Snapshot,
    _ add: (inout Result, Row) -> Void
  ) throws -> Result? {
    guard needsOnlyFields, query.maximum == nil, query.skipped == 0,
      let stored = reader.stored?(record.layouts)
    else { return nil }
    var result = initial
    // The order of the keys does not matter.
    var run = self
    run.plan = plan.unsorted
    try withoutActuallyEscaping(add) { add in
      try run.visit(snapshot) { _, bytes in
        guard let row = stored(bytes) else { return nil }
        add(&result, row)
        return true
      } _: { found in
        add(&result, reader.decoded(found.object))
        return true
      }
    }
    return result
  }
}
