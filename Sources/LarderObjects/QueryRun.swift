// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB

/// A query being answered in one snapshot.
struct QueryRun<Object: Storable> {
  let kind: Kind<Object>
  let query: Query<Object>
  let record: ObjectTypeRecord
  let plan: QueryPlan<Object>
  /// What the references of all objects found load from.
  let decoder: LinkDecoder

  init(
    kind: Kind<Object>, query: Query<Object>, record: ObjectTypeRecord,
    _ decoder: LinkDecoder? = nil
  ) {
    self.decoder = decoder ?? kind.newDecoder()
    self.kind = kind
    self.query = query
    self.record = record
    plan = QueryPlan(query, kind, record)
  }

  /// An object that fits.
  struct Found: Sendable {
    let object: Object
    let sequence: UInt64
    /// The label of the transaction that wrote it.
    let label: UInt64
    /// What tells the states of the children it shows from others; with a source only.
    var related = 0
  }

  func objects(
    _ generation: Generation, _ transaction: borrowing ReadTransaction
  ) throws -> [Object] {
    try found(generation, transaction).map(\.object)
  }

  /// The objects, in order, without the skipped ones, at most as many as wanted.
  func found(
    _ generation: Generation, _ transaction: borrowing ReadTransaction
  ) throws -> [Found] {
    let wanted = query.maximum.map { $0 + query.skipped } ?? Int.max
    if wanted == 0 { return [] }
    var found: [Found] = []
    let mustSort = plan.walk != nil ? !plan.isSorted : !query.sorts.isEmpty
    // With a limit, twice as many as wanted are kept at most before the rest goes.
    let bound = wanted < 1 << 20 ? max(2 * wanted, 64) : Int.max
    try visit(generation, transaction) { next in
      found.append(next)
      if mustSort {
        if found.count >= bound {
          found.sort(by: precedes)
          found.removeLast(found.count - wanted)
        }
        return true
      }
      return found.count < wanted
    }
    if mustSort { found.sort(by: precedes) }
    return found.dropFirst(query.skipped).prefix(wanted - query.skipped).map { $0 }
  }

  /// The objects with what is included, and what tells the states of all their children from others.
  func foundWithChildren(
    _ generation: Generation, _ transaction: borrowing ReadTransaction
  ) throws -> [Found] {
    var found = try found(generation, transaction)
    for inclusion in query.inclusions {
      let states = try inclusion.load(found.map(\.object), generation, transaction)
      for (position, state) in states.enumerated() {
        var hasher = Hasher()
        hasher.combine(found[position].related)
        hasher.combine(state)
        found[position].related = hasher.finalize()
      }
    }
    return found
  }

  /// How many objects fit; without decoding them where the index says it all.
  func count(
    _ generation: Generation, _ transaction: borrowing ReadTransaction
  ) throws -> Int {
    var count = 0
    let wanted = query.maximum.map { $0 + query.skipped } ?? Int.max
    if query.start != nil {
      try visit(generation, transaction) { _ in
        count += 1
        return count < wanted
      }
    } else if case .all = query.predicate.node {
      count = Int(clamping: try ObjectReading.books(record.number, transaction).count)
    } else if let walk = plan.walk, walk.isExact, !walk.isMultiple || walk.ranges.count == 1 {
      for range in walk.ranges where count < wanted {
        try ObjectReading.scanIndex(
          walk.number, from: range.lower, below: range.upper, in: generation, transaction
        ) { _, _ in
          count += 1
          return count < wanted
        }
      }
    } else {
      try visit(generation, transaction) { _ in
        count += 1
        return count < wanted
      }
    }
    return max(min(count, wanted) - query.skipped, 0)
  }

  /// Calls `body` with every object that fits, in the walk's order; `false` ends it.
  func visit(
    _ generation: Generation, _ transaction: borrowing ReadTransaction,
    _ body: (Found) throws -> Bool
  ) throws {
    let judge = plan.walk?.isExact != true
    let position = try query.start.map { start in
      try query.position(start, kind, record, generation, transaction)
    }
    func take(_ stored: StoredObject) throws -> Bool {
      let object: Object
      let trail = decoder.context.source?.begin()
      defer { if let trail { _ = decoder.context.source?.end(trail) } }
      do {
        object = try kind.decode(stored, decoder).object
      } catch {
        kind.core.report(error)
        return true
      }
      if let position, !position.admits(object, stored.sequence) { return true }
      if judge, !query.predicate.holds(for: object) { return true }
      var found = Found(object: object, sequence: stored.sequence, label: stored.label)
      if trail != nil {
        // Children that are sorted by are looked at now, while it is known whose they are.
        for sort in query.sorts { _ = sort.compare(object, object) }
        found.related = decoder.context.source?.end([]) ?? 0
      }
      return try body(found)
    }
    guard let walk = plan.walk else {
      let first = query.sorts.isEmpty ? position.map { $0.sequence &+ 1 } : nil
      return try ObjectReading.scan(
        type: record.number, from: first, in: generation, transaction
      ) { found in
        switch found {
        case .success(let stored): return try take(stored)
        case .failure(let damage):
          kind.core.report(kind.damaged(damage))
          return true
        }
      }
    }
    // An object with several keys in the ranges is taken once.
    var seen: Set<UInt64> = []
    var goesOn = true
    let ranges = plan.isSorted ? position?.clip(walk, plan.backwards) ?? walk.ranges : walk.ranges
    for range in plan.backwards ? ranges.reversed() : ranges where goesOn {
      try ObjectReading.scanIndex(
        walk.number, from: range.lower, below: range.upper, backwards: plan.backwards,
        in: generation, transaction
      ) { _, sequence in
        if walk.mayRepeat, !seen.insert(sequence).inserted { return true }
        do {
          guard
            let stored = try ObjectReading.object(
              type: record.number, sequence: sequence, in: generation, transaction)
          else { return true }
          goesOn = try take(stored)
        } catch let damage as DamagedObject {
          kind.core.report(kind.damaged(damage))
        }
        return goesOn
      }
    }
  }

  /// The order asked for; ties in the order of insertion, turned round with the first key.
  private func precedes(
    _ left: Found, _ right: Found
  ) -> Bool {
    for sort in query.sorts {
      let order = sort.compare(left.object, right.object)
      if order != 0 { return sort.direction == .ascending ? order < 0 : order > 0 }
    }
    return query.sorts.first?.direction == .descending
      ? left.sequence > right.sequence : left.sequence < right.sequence
  }
}
