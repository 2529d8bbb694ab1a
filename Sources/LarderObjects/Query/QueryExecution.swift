// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// The execution of a query in one snapshot.
struct QueryExecution<Object: Storable> {
  let kind: ObjectTypeDescriptor<Object>
  let query: Query<Object>
  let record: ObjectTypeRecord
  private(set) var plan: QueryPlan
  /// The decoder whose context all found objects share.
  let decoder: ReferenceDecoder

  /// The snapshot, if the query shares decoded objects with the memory tier: for small results of
  /// an index scan without references. `nil` in a transaction, because its uncommitted objects are
  /// private.
  let memory: SnapshotView?

  init(
    kind: ObjectTypeDescriptor<Object>, query: Query<Object>, record: ObjectTypeRecord,
    _ decoder: ReferenceDecoder? = nil, view: SnapshotView? = nil
  ) {
    self.decoder = decoder ?? kind.newDecoder()
    self.kind = kind
    self.query = query
    self.record = record
    plan = QueryPlan(query, kind, record)
    let isSelective = plan.walk.map { $0.isOneKey || query.maximum ?? .max <= 100 } ?? false
    memory = isSelective && plan.walk?.isExact == true && !kind.hasReferences ? view : nil
  }

  /// An error of an index scan that found a truncated key, after which the scan order is not the
  /// key order.
  struct TruncatedKey: Error {}

  /// The same query with a sort in memory.
  private var unsorted: QueryExecution {
    var run = self
    run.plan = plan.unsorted
    return run
  }

  /// A matching object.
  struct Found: Sendable {
    let object: Object
    let sequence: UInt64
    /// The commit version of the transaction that wrote the object.
    let commitVersion: UInt64
    /// A hash of the states of the children that the object shows; only with a source.
    var related = 0
    /// The hash of the stored object; only with a source.
    var content: UInt64 = 0
  }

  func objects(
    _ snapshot: borrowing Snapshot
  ) throws -> [Object] {
    guard plan.isSorted, query.skipped == 0, query.maximum != 0 else {
      return try found(snapshot).map { $0.object }
    }
    let maximum = query.maximum ?? .max
    // Collects the objects in scan order; without a sort, only the objects must be kept.
    func collect() throws -> [Object] {
      var objects: [Object] = []
      try visit(snapshot) { next in
        objects.append(next.object)
        return objects.count < maximum
      }
      return objects
    }
    do {
      return try collect()
    } catch is TruncatedKey {
      return try unsorted.found(snapshot).map { $0.object }
    }
  }

  /// Returns the objects in order, without the skipped ones and within the limit.
  func found(
    _ snapshot: borrowing Snapshot
  ) throws -> [Found] {
    do {
      return try foundOnce(snapshot)
    } catch is TruncatedKey {
      return try unsorted.found(snapshot)
    }
  }

  private func foundOnce(
    _ snapshot: borrowing Snapshot
  ) throws -> [Found] {
    let wanted = query.wanted
    if wanted == 0 { return [] }
    var found: [Found] = []
    let mustSort = !plan.isSorted
    // With a limit, the buffer holds at most twice the wanted number before it drops the rest.
    let bound = wanted < 1 << 20 ? max(2 * wanted, 64) : Int.max
    try visit(snapshot) { next in
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
    return found.dropFirst(query.skipped).prefix(max(wanted - query.skipped, 0)).map { $0 }
  }

  /// Returns the objects with their inclusions and a hash of the states of all children.
  func foundWithChildren(
    _ snapshot: borrowing Snapshot
  ) throws -> [Found] {
    var found = try found(snapshot)
    for inclusion in query.inclusions {
      let states = try inclusion.load(found.map(\.object), snapshot)
      for (position, state) in states.enumerated() {
        var hasher = Hasher()
        hasher.combine(found[position].related)
        hasher.combine(state)
        found[position].related = hasher.finalize()
      }
    }
    return found
  }

  /// Counts the matching objects, without decoding them if the index covers the predicate.
  func count(
    _ snapshot: borrowing Snapshot
  ) throws -> Int {
    do {
      return try countOnce(snapshot)
    } catch is TruncatedKey {
      return try unsorted.countOnce(snapshot)
    }
  }

  private func countOnce(
    _ snapshot: borrowing Snapshot
  ) throws -> Int {
    var count = 0
    let wanted = query.wanted
    if query.start != nil {
      try visit(snapshot) { _ in
        count += 1
        return count < wanted
      }
    } else if case .all = query.predicate.node {
      count = Int(clamping: try ObjectReading.books(record.number, snapshot).count)
    } else if let walk = plan.walk, walk.isExact, !walk.isMultiple || walk.ranges.count == 1 {
      for range in walk.ranges where count < wanted {
        try ObjectReading.scanIndex(
          walk.number, from: range.lower, below: range.upper, in: snapshot
        ) { _, _ in
          count += 1
          return count < wanted
        }
      }
    } else {
      func add() -> Bool {
        count += 1
        return count < wanted
      }
      try visit(snapshot, undecoded: { _, _ in add() }) { _ in add() }
    }
    return max(min(count, wanted) - query.skipped, 0)
  }

  /// Calls `body` with every matching object in scan order, until it returns `false`.
  ///
  /// - Parameters:
  ///   - undecoded: Called first for an object that matches without decoding; returns `nil` if the
  ///     object must be decoded.
  func visit(
    _ snapshot: borrowing Snapshot,
    undecoded: ((StoredObjectMetadata, RawSpan) -> Bool?)? = nil,
    _ body: (Found) throws -> Bool
  ) throws {
    var needsFilter = plan.walk?.isExact != true
    if case .all = query.predicate.node { needsFilter = false }
    let filter = needsFilter ? StoredFieldFilter(query.predicate, kind, record) : nil
    let position = try query.start.map { start in
      try query.position(start, kind, record, snapshot)
    }
    // A search for the position needs the objects.
    let undecoded = position == nil ? undecoded : nil
    func take(_ head: StoredObjectMetadata, _ id: RawSpan, _ bytes: RawSpan) throws -> Bool {
      let isPlain = head.codec == CodecIdentifier.cbor.rawValue
      let matches = needsFilter ? (isPlain ? filter?.holds(for: bytes) : nil) : true
      if matches == false { return true }
      if isPlain, matches == true, let undecoded,
        let shouldContinue = undecoded(head, bytes)
      {
        return shouldContinue
      }
      let trail = decoder.context.source?.begin()
      defer { if let trail { _ = decoder.context.source?.end(trail) } }
      guard let object = decoded(head, id, bytes) else { return true }
      if matches == nil, !query.predicate.holds(for: object) { return true }
      if let position, !position.admits(object, head.sequence) { return true }
      var found = Found(object: object, sequence: head.sequence, commitVersion: head.commitVersion)
      if trail != nil {
        // Access the children that the query sorts by now, while their states are recorded for this
        // object.
        for sort in query.sorts { _ = sort.compare(object, object) }
        found.related = decoder.context.source?.end([]) ?? 0
        found.content = XXH64.hash(bytes)
      }
      return try body(found)
    }
    func report(_ damage: DamagedObject) -> Bool {
      kind.core.report(kind.damaged(damage))
      return true
    }
    guard let walk = plan.walk else {
      let first = query.sorts.isEmpty ? position.map { $0.sequence &+ 1 } : nil
      return try ObjectReading.scan(
        type: record.number, from: first, in: snapshot, damaged: report, take)
    }
    // An object with several keys in the ranges is visited once.
    var seen: Set<UInt64> = []
    var shouldContinue = true
    let ranges = plan.isSorted ? position?.clip(walk, plan.backwards) ?? walk.ranges : walk.ranges
    let ordersByKey = plan.isSorted && !query.sorts.isEmpty
    // Without a residual filter, an object in memory is sufficient.
    let shared = undecoded == nil && position == nil && !needsFilter ? memory : nil
    for range in plan.backwards ? ranges.reversed() : ranges where shouldContinue {
      try ObjectReading.scanIndex(
        walk.number, from: range.lower, below: range.upper, backwards: plan.backwards,
        in: snapshot
      ) { key, sequence in
        if ordersByKey, key.byteCount > KeyRange.limit { throw TruncatedKey() }
        if walk.mayRepeat, !seen.insert(sequence).inserted { return true }
        if let shared, let known = kind.remembered(sequence, record.number, shared) {
          shouldContinue = try body(
            Found(object: known.object, sequence: sequence, commitVersion: known.commitVersion))
          return shouldContinue
        }
        do {
          shouldContinue =
            try ObjectReading.withObject(
              type: record.number, sequence: sequence, in: snapshot, take) ?? true
        } catch let damage as DamagedObject {
          shouldContinue = report(damage)
        }
        return shouldContinue
      }
    }
  }

  /// Returns the object: the cached one if it was decoded from these bytes, otherwise a newly
  /// decoded one.
  private func decoded(_ head: StoredObjectMetadata, _ id: RawSpan, _ bytes: RawSpan) -> Object? {
    let text = memory == nil ? nil : id.text()
    if let memory, let text,
      let found = kind.tier.revalidate(
        text, commitVersion: head.commitVersion, readVersion: memory.readVersion,
        table: memory.generation.table),
      let known = kind.object(in: found)
    {
      if found.sequence == head.sequence, found.type == record.number {
        kind.noteSpot(of: text, head.sequence)
      } else if found.context == nil {
        // A look-up by id inserted the object.
        let placed = ObjectTypeDescriptor<Object>.Decoded(
          object: known, context: nil, type: record.number, sequence: head.sequence)
        kind.insert(placed, text, id.copied(), head, cost: bytes.byteCount + 64, memory)
      }
      return known
    }
    let id = id.copied()
    let bytes = bytes.copied()
    do {
      let decoded = try kind.decode(
        bytes, id: id, decoder, type: record.number, sequence: head.sequence)
      if let memory, let text, decoded.context == nil {
        kind.insert(decoded, text, id, head, cost: bytes.count + 64, memory)
      }
      return decoded.object
    } catch {
      kind.core.report(error)
      return nil
    }
  }

  /// Returns whether an object comes first in the requested order. Ties are in the order of
  /// insertion, reversed if the first key is descending.
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
