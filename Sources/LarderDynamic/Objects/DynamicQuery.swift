// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine
internal import LarderLMDB

// ANSWERING A QUERY
//
// Without a sort, objects are handed on as they are found. With one that no index gives, only the sort's
// values and the object's number are kept of each: all of them, or, with a limit, a heap of as many as
// are wanted, whose first is the one to go. The objects are read again in the end, in the same snapshot.
// So memory is bounded by the limit, and by nothing that is stored.

/// A question for stored objects, without their type.
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

  /// How many are looked for, with those that are skipped.
  fileprivate var wanted: Int? {
    limit.map { $0.addingReportingOverflow(offset) }.flatMap { $0.overflow ? nil : $0.partialValue }
  }
}

extension DynamicObjects {
  /// Gives every object that fits, in order.
  ///
  /// - Parameter body: `false` ends it.
  package func query(
    _ query: DynamicQuery, of type: ObjectTypeRecord,
    _ body: (DynamicObject) throws -> Bool
  ) throws {
    var answered = 0
    try reading("query", hasAnswered: { answered > 0 }) { snapshot in
      let run = try DynamicQueryExecution(self, query, type, snapshot)
      try run.answer(snapshot) { object in
        answered += 1
        return try body(object)
      }
    }
  }

  /// How many objects fit.
  package func count(_ query: DynamicQuery, of type: ObjectTypeRecord) throws -> Int {
    try reading("count", hasAnswered: { false }) { snapshot in
      if case .all = query.condition {
        let all = Int(clamping: try ObjectReading.books(type.number, snapshot).count)
        return max(0, min(all, query.wanted ?? .max) - query.offset)
      }
      var unsorted = query
      unsorted.sort = []
      let run = try DynamicQueryExecution(self, unsorted, type, snapshot)
      var count = 0
      try run.visit(snapshot) { _ in
        count += 1
        return query.wanted.map { count < $0 } ?? true
      }
      return max(0, min(count, query.wanted ?? .max) - query.offset)
    }
  }

  /// What a query would walk, and why.
  package func explain(_ query: DynamicQuery, of type: ObjectTypeRecord) throws -> String {
    try reading("explain", hasAnswered: { false }) { snapshot in
      let run = try DynamicQueryExecution(self, query, type, snapshot)
      let count = Int(clamping: try ObjectReading.books(type.number, snapshot).count)
      return run.explanation(count)
    }
  }
}

/// A query being answered in one snapshot.
struct DynamicQueryExecution {
  let objects: DynamicObjects
  let query: DynamicQuery
  let type: ObjectTypeRecord
  let plan: DynamicQueryPlan

  init(
    _ objects: DynamicObjects, _ query: DynamicQuery, _ type: ObjectTypeRecord,
    _ snapshot: borrowing Snapshot
  ) throws {
    self.objects = objects
    self.query = query
    self.type = type
    plan = DynamicQueryPlan(query, type, try IndexRuleEvidence(type, snapshot))
  }

  /// An index key was cut: behind that, its order is not the values'.
  private struct TruncatedKey: Error {}

  func answer(
    _ snapshot: borrowing Snapshot,
    _ body: (DynamicObject) throws -> Bool
  ) throws {
    if query.wanted == 0 || query.limit == 0 { return }
    if plan.isSorted, query.sort.isEmpty {
      var found = 0
      return try visit(snapshot) { object in
        found += 1
        if found > query.offset, try !body(object) { return false }
        return query.wanted.map { found < $0 } ?? true
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

  /// The numbers of those wanted, in the order of the sort.
  private func sequences(
    _ snapshot: borrowing Snapshot
  ) throws -> [UInt64] {
    if plan.isSorted {
      var sequences: [UInt64] = []
      do {
        try visit(snapshot, refusesCutKeys: true) { object in
          sequences.append(object.sequence)
          return query.wanted.map { sequences.count < $0 } ?? true
        }
        return sequences
      } catch is TruncatedKey {
        // Sorted as if there were no index.
      }
    }
    var rows = BoundedSorter(query.sort, keeping: query.wanted)
    try visit(snapshot) { object in
      rows.add(object)
      return true
    }
    return rows.sequences()
  }

  /// Gives every object that fits, in the order of the walk.
  func visit(
    _ snapshot: borrowing Snapshot,
    refusesCutKeys: Bool = false, _ body: (DynamicObject) throws -> Bool
  ) throws {
    func take(_ stored: StoredObject) throws -> Bool {
      guard let object = objects.object(stored), query.condition.holds(for: object.value) else {
        return true
      }
      return try body(object)
    }
    guard let walk = plan.walk else {
      return try ObjectReading.scan(type: type.number, in: snapshot) { found in
        switch found {
        case .success(let stored): return try take(stored)
        case .failure(let damage):
          objects.tell(damage)
          return true
        }
      }
    }
    // An object with several keys in the ranges is taken once.
    var seen: Set<UInt64> = []
    // Elements that are the same as far as a key is kept stand in one range, too.
    let mayRepeat =
      walk.rule.isMultiple
      && !(walk.ranges.count == 1 && walk.ranges[0].isEquality && walk.ranges[0].lower.count < 440)
    var goesOn = true
    for range in plan.backwards ? walk.ranges.reversed() : walk.ranges where goesOn {
      try ObjectReading.scanIndex(
        walk.rule.number, from: range.lower, below: range.upper, backwards: plan.backwards,
        in: snapshot
      ) { key, sequence in
        if refusesCutKeys, key.byteCount >= 448 { throw TruncatedKey() }
        if mayRepeat, !seen.insert(sequence).inserted { return true }
        do {
          guard
            let stored = try ObjectReading.object(
              type: type.number, sequence: sequence, in: snapshot)
          else { return true }
          goesOn = try take(stored)
        } catch let damage as DamagedObject {
          objects.tell(damage)
        }
        return goesOn
      }
    }
  }

  // MARK: Explaining

  func explanation(_ count: Int) -> String {
    var lines: [String] = []
    if let walk = plan.walk {
      var line = "walk the index \"\(walk.rule.name)\""
      if walk.isWhole {
        line += " from end to end"
      } else {
        line += walk.ranges.count == 1 ? " in one range" : " in \(walk.ranges.count) ranges"
        if walk.fixed > 0 {
          line += ", \(walk.fixed) of \(walk.rule.fields.count) properties fixed"
        }
      }
      if plan.backwards { line += ", backwards" }
      lines.append(line)
    } else {
      lines.append("scan all \(count) objects in the order of insertion")
    }
    if case .all = query.condition {} else { lines.append("judge each object: \(query.condition)") }
    if !plan.isSorted {
      let keys =
        query.sort.isEmpty
        ? "the order of insertion" : query.sort.map(\.description).joined(separator: ", ")
      lines.append(
        query.wanted.map { "sort by \(keys), keeping the first \($0) in memory" }
          ?? "sort by \(keys), keeping the sort's values of all that fit in memory")
    } else if query.wanted != nil {
      lines.append("stop after \(query.wanted!)")
    }
    return (lines + plan.notes).joined(separator: "\n")
  }
}
