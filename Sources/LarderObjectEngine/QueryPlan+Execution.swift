// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

extension QueryPlan {
  /// An error of an index scan that found a truncated key, after which the scan order is not the
  /// key order.
  package struct TruncatedKey: Error {}

  /// Calls `body` with every object of the plan, in scan order, until it returns `false`. An object
  /// with several keys in the ranges is visited once.
  ///
  /// - Parameters:
  ///   - damaged: Called for an object that is damaged; returns whether to continue.
  ///   - cached: Called with the sequence number of each index entry before the object is read;
  ///     returns whether to continue, or `nil` to read the object.
  ///   - admits: Called before an object of a table scan is verified, as by
  ///     ``ObjectReading/scan(type:_:in:damaged:admits:_:)``.
  /// - Throws: ``TruncatedKey`` if the order of the keys does not follow from the index; the errors
  ///   of the closures.
  package func visit(
    type: UInt32, in snapshot: borrowing Snapshot,
    damaged: (DamagedObject) throws -> Bool,
    cached: (_ sequence: UInt64) throws -> Bool? = { _ in nil },
    admits: ((_ codec: UInt16, _ object: RawSpan) -> Bool)? = nil,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> Bool
  ) throws {
    if let sequences {
      for sequence in sequences {
        guard try visit(sequence, type, snapshot, damaged, cached, body) else { return }
      }
      return
    }
    guard let scan else {
      return try ObjectReading.scan(
        type: type, .insertion(from: first ?? 1), in: snapshot, damaged: damaged, admits: admits,
        body)
    }
    var seen: Set<UInt64> = []
    try visitEntries(of: scan, in: snapshot) { sequence in
      if scan.mayRepeat, !seen.insert(sequence).inserted { return true }
      return try visit(sequence, type, snapshot, damaged, cached, body)
    }
  }

  private func visit(
    _ sequence: UInt64, _ type: UInt32, _ snapshot: borrowing Snapshot,
    _ damaged: (DamagedObject) throws -> Bool, _ cached: (UInt64) throws -> Bool?,
    _ body: (StoredObjectMetadata, RawSpan, RawSpan) throws -> Bool
  ) throws -> Bool {
    if let shouldContinue = try cached(sequence) { return shouldContinue }
    do {
      return try ObjectReading.withObject(
        type: type, sequence: sequence, in: snapshot, body) ?? true
    } catch let damage as DamagedObject {
      return try damaged(damage)
    }
  }

  /// Counts the entries of an exact scan, up to a limit, without reading objects.
  ///
  /// - Returns: The count, or `nil` if objects must be read to count the matching ones.
  package func exactCount(
    upTo limit: Int, in snapshot: borrowing Snapshot
  ) throws -> Int? {
    guard let scan, scan.isExact, !scan.isMultiple || scan.ranges.count == 1 else { return nil }
    var count = 0
    guard limit > 0 else { return 0 }
    try ObjectReading.scanIndex(scan.number, scan.ranges, in: snapshot) { _, _ in
      count += 1
      return count < limit
    }
    return count
  }

  private func visitEntries(
    of scan: IndexScan, in snapshot: borrowing Snapshot,
    _ body: (_ sequence: UInt64) throws -> Bool
  ) throws {
    let ordersByKey = isSorted && hasSort
    guard isBackwards else {
      return try ObjectReading.scanIndex(scan.number, scan.ranges, in: snapshot) { key, sequence in
        if ordersByKey, key.byteCount > IndexKeyRange.limit { throw TruncatedKey() }
        return try body(sequence)
      }
    }
    var shouldContinue = true
    for range in scan.ranges.reversed() where shouldContinue {
      try ObjectReading.scanIndex(
        scan.number, from: range.lower, below: range.upper, backwards: true, in: snapshot
      ) { key, sequence in
        if ordersByKey, key.byteCount > IndexKeyRange.limit { throw TruncatedKey() }
        shouldContinue = try body(sequence)
        return shouldContinue
      }
    }
  }

  // MARK: Explaining

  /// Returns a description of the plan, one line per step.
  ///
  /// - Parameters:
  ///   - objects: The objects of a table scan, for example "all objects of Car".
  ///   - search: The description of a full-text search, which the plan begins with.
  ///   - filter: The residual filter, or `nil` if every object of the scan matches.
  ///   - order: The descriptions of the sort keys.
  ///   - hasPosition: Whether the query begins after a position.
  ///   - limit: The number of objects to find, or `nil`.
  package func explanation(
    objects: String, search: String? = nil, filter: String?, order: [String],
    hasPosition: Bool = false, limit: Int?
  ) -> [String] {
    var lines: [String] = []
    if let scan {
      let extent =
        scan.isWhole
        ? "completely" : scan.ranges.count == 1 ? "in one range" : "in \(scan.ranges.count) ranges"
      lines.append(
        "scan index \"\(scan.name)\" \(extent)"
          + (scan.fixed > 0 ? ", \(scan.fixed) of \(scan.properties) properties fixed" : "")
          + (isBackwards ? ", backwards" : ""))
    } else {
      lines.append(search ?? "scan \(objects)")
    }
    if let filter { lines.append(filter) }
    if hasPosition {
      lines.append(
        canBegin && search == nil ? "start after the position" : "skip objects before the position")
    }
    let keys = hasSort ? order.joined(separator: ", ") : "insertion"
    if !isSorted {
      lines.append(
        "sort by \(keys) in memory" + (limit.map { ", keeping the first \($0)" } ?? ""))
      return lines
    }
    if hasSort { lines.append("index order: \(keys)") }
    if let limit { lines.append("stop after \(limit)") }
    return lines
  }
}

/// A collection of rows that keeps the first ones of an order, in bounded memory.
package struct BoundedSorter<Row> {
  private var rows: [Row] = []
  private let limit: Int
  /// The number of rows at which those after the limit are dropped.
  private let bound: Int
  private let precedes: (Row, Row) -> Bool

  /// Creates an empty collection.
  ///
  /// - Parameters:
  ///   - limit: The number of rows to keep.
  ///   - precedes: Returns whether a row is before another in the order.
  package init(keeping limit: Int, by precedes: @escaping (Row, Row) -> Bool) {
    self.limit = limit
    bound = limit < 1 << 20 ? max(2 * limit, 64) : .max
    self.precedes = precedes
  }

  package mutating func add(_ row: Row) {
    rows.append(row)
    if rows.count >= bound { trim() }
  }

  /// Returns the first rows in order.
  package mutating func sorted() -> [Row] {
    trim()
    return rows
  }

  private mutating func trim() {
    // Generic code moves rows slowly, so only their positions are sorted.
    var order = Array(rows.indices)
    order.sort { precedes(rows[$0], rows[$1]) }
    rows = order.prefix(limit).map { rows[$0] }
  }
}
