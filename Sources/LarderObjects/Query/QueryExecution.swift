// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// The execution of a query in one snapshot.
struct QueryExecution<Object: Storable> {
  let kind: ObjectTypeDescriptor<Object>
  let query: Query<Object>
  let record: ObjectTypeRecord
  var plan: QueryPlan
  /// The decoder whose context all found objects share.
  let decoder: ReferenceDecoder
  private let box: ObjectBox<Object>
  private let ownLayout: Int?
  /// Whether a caller gets the objects, so that their states are noted; see `ReadStates.swift`.
  private var returnsObjects = false
  /// Whether evaluating the predicate may load objects of other types.
  private let followsReferences: Bool

  /// The objects in memory, if the query shares decoded objects with the memory tier: for small
  /// results of an index scan without references. `nil` in a transaction, because its uncommitted
  /// objects are private.
  let memory: ObjectMemory?

  init(
    kind: ObjectTypeDescriptor<Object>, query: Query<Object>, record: ObjectTypeRecord,
    _ decoder: ReferenceDecoder? = nil, view: SnapshotView? = nil, in snapshot: borrowing Snapshot
  ) throws {
    try query.predicate.validate(kind.name)
    box = query.box
    self.decoder = decoder ?? kind.newDecoder()
    self.kind = kind
    self.query =
      query.predicate.node.hasRelated
      ? try query.resolved(
        RelatedSearch(query, kind, record, self.decoder.context, snapshot), snapshot) : query
    followsReferences = self.query.predicate.node.hasRelated
    self.record = record
    ownLayout = kind.ownLayout(record)
    plan = QueryPlan(self.query, kind, record)
    let isSelective = plan.scan.map { $0.isOneKey || query.maximum ?? .max <= 100 } ?? false
    memory =
      isSelective && plan.scan?.isExact == true && !kind.hasReferences && kind.sharesInstances
      ? view.map { kind.memory(record.number, $0) } : nil
  }

  /// Whether objects of the scan may not match the predicate.
  var needsFilter: Bool {
    if case .all = query.predicate.node { return false }
    return plan.scan?.isExact != true
  }

  /// The description of the residual filter, or `nil` if the scan contains only matching objects.
  var filterText: String? {
    guard needsFilter else { return nil }
    let form =
      StoredFieldFilter(query.predicate, kind, record).map {
        $0.isComplete ? "stored fields" : "stored fields, then decoded objects"
      } ?? "decoded objects"
    return "filter \(form): \(query.predicate)"
  }

  /// Calls `body`, and again with a sort in memory if the index does not have the requested order.
  private func ordered<R>(_ body: (QueryExecution) throws -> R) throws -> R {
    do {
      return try body(self)
    } catch is QueryPlan.TruncatedKey {
      var run = self
      run.plan = plan.unsorted
      return try body(run)
    }
  }

  /// The execution of a query whose objects a caller gets.
  private var returning: QueryExecution {
    var run = self
    run.returnsObjects = true
    return run
  }

  /// Returns the objects in order, without the skipped ones and within the limit.
  ///
  /// - Parameter returns: Whether a caller gets the objects.
  func objects(
    _ snapshot: borrowing Snapshot, returns: Bool = true
  ) throws -> [Object] {
    try (returns ? returning : self).ordered { run in
      var objects: [Object] = []
      guard run.plan.isSorted, query.skipped == 0, query.maximum != 0 else {
        box.append(try run.foundOnce(snapshot).map { $0.decoded }, &objects)
        return objects
      }
      // In scan order, only the objects must be kept, and a batch of decoded ones.
      let maximum = query.maximum ?? .max
      let size = 64
      var batch: [DecodedObject] = []
      batch.reserveCapacity(min(maximum, size))
      var reads = ReadBatch(kind)
      var count = 0
      try run.visit(snapshot) { next in
        reads.add(next)
        if batch.count == size {
          box.append(batch, &objects)
          batch.removeAll(keepingCapacity: true)
        }
        batch.append(next.decoded)
        count += 1
        return count < maximum
      }
      reads.note()
      box.append(batch, &objects)
      return objects
    }
  }

  /// Calls `body` with the objects in order, without the skipped ones and within the limit, until it
  /// returns `false`. Only a sort, or a scan in another order than that of insertion, holds all.
  func eachObject(
    _ snapshot: borrowing Snapshot, _ body: (Object) throws -> Bool
  ) throws {
    // The order of an index is known to be that of the values only at its end.
    guard plan.isSorted, query.sorts.isEmpty else {
      for object in try objects(snapshot) {
        guard try body(object) else { return }
      }
      return
    }
    var (skipped, left) = (query.skipped, query.maximum ?? .max)
    if left == 0 { return }
    var reads = ReadBatch(kind)
    defer { reads.note() }
    try returning.visit(snapshot) { next in
      if skipped > 0 {
        skipped -= 1
        return true
      }
      left -= 1
      reads.add(next)
      return try body(next.object()) && left > 0
    }
  }

  /// Returns the objects in order, without the skipped ones and within the limit.
  func found(
    _ snapshot: borrowing Snapshot
  ) throws -> [FoundObject] {
    try returning.ordered { try $0.foundOnce(snapshot) }
  }

  private func foundOnce(
    _ snapshot: borrowing Snapshot
  ) throws -> [FoundObject] {
    let wanted = query.wanted
    if wanted == 0 { return [] }
    var found: [FoundObject] = []
    if plan.isSorted {
      try visit(snapshot) { next in
        found.append(next)
        return found.count < wanted
      }
    } else if query.sorts.isEmpty, wanted == .max {
      // All objects in the order of insertion, after a scan in another order.
      try visit(snapshot) { next in
        found.append(next)
        return true
      }
      found.sort { $0.sequence < $1.sequence }
    } else {
      var sorter = BoundedSorter<FoundObject>(keeping: wanted, by: precedes)
      try visit(snapshot) { next in
        sorter.add(next)
        return true
      }
      found = sorter.sorted()
    }
    if query.skipped != 0 { found.removeFirst(min(query.skipped, found.count)) }
    var reads = ReadBatch(kind)
    for next in found { reads.add(next) }
    reads.note()
    return found
  }

  /// Returns the objects with their inclusions and a hash of the states of all children.
  func foundWithChildren(
    _ snapshot: borrowing Snapshot
  ) throws -> [FoundObject] {
    var found = try found(snapshot)
    for inclusion in query.inclusions {
      let states = try inclusion.load(
        found.map { $0.object() }, snapshot, pass(overRelated:))
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
    try ordered { try $0.countOnce(snapshot) }
  }

  private func countOnce(
    _ snapshot: borrowing Snapshot
  ) throws -> Int {
    var count = 0
    let wanted = query.wanted
    if query.start != nil || query.skipsUnreadable {
      try visit(snapshot) { _ in
        count += 1
        return count < wanted
      }
    } else if !needsFilter, let hits = try textHits(snapshot) {
      count = hits.count
    } else if query.search == nil, case .all = query.predicate.node {
      count = Int(clamping: try ObjectReading.books(record.number, snapshot).count)
    } else if let exact = try plan.exactCount(upTo: wanted, in: snapshot) {
      count = exact
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
    _ body: (FoundObject) throws -> Bool
  ) throws {
    let needsFilter = needsFilter
    let filter = needsFilter ? StoredFieldFilter(query.predicate, kind, record) : nil
    let position = try query.start.map { start in
      try query.position(start, kind, record, snapshot)
    }
    // A generic value would request its metadata for each object.
    let admits = position.map { position in
      { (found: FoundObject) in position.admits(found.object(), found.sequence) }
    }
    // A search for the position needs the objects.
    let undecoded = position == nil ? undecoded : nil
    func take(
      _ head: StoredObjectMetadata, _ id: RawSpan, _ bytes: RawSpan, matches: Bool?
    ) throws -> Bool {
      guard let found = try found(head, id, bytes, matches: matches),
        admits?(found) ?? true
      else { return true }
      return try body(found)
    }
    func report(_ damage: DamagedObject) -> Bool {
      pass(over: kind.damaged(damage), damage.sequence)
      return true
    }
    var plan = plan
    if plan.sequences == nil { plan.sequences = try textHits(snapshot)?.map(\.sequence) }
    if let position { plan.begin(after: position.sequence, keys: position.keys) }
    // Without a residual filter, an object in memory is sufficient.
    let shared = undecoded == nil && position == nil && !needsFilter ? memory : nil
    func cached(_ sequence: UInt64) throws -> Bool? {
      try shared?.object(sequence).map(body)
    }
    let scan = FilteredScan(
      plan: plan, type: record.number, needsFilter: needsFilter, holds: filter?.holds)
    try scan.visit(
      snapshot, damaged: report, cached: cached, undecoded: undecoded, take)
  }

  /// Decodes an object.
  ///
  /// - Parameter matches: Whether the object matches, or `nil` if its fields do not decide.
  /// - Returns: The object, or `nil` if it does not match, or cannot be decoded and the query passes over
  ///   such objects.
  private func found(
    _ head: StoredObjectMetadata, _ id: RawSpan, _ bytes: RawSpan, matches: Bool?
  ) throws -> FoundObject? {
    let trail = decoder.context.source?.begin()
    defer { if let trail { _ = decoder.context.source?.end(trail) } }
    guard let decoded = try decoded(head, id, bytes) else { return nil }
    if matches == nil {
      let holds = query.predicate.holds(for: ObjectTypeDescriptor<Object>.object(of: decoded))
      if followsReferences {
        try requireLoaded()
      } else {
        // A closure sees a property without its objects; see `HasOne`.
        _ = decoder.context.takeFailure()
      }
      if !holds { return nil }
    }
    var found = FoundObject(
      decoded: decoded, sequence: head.sequence, commitVersion: head.commitVersion)
    if returnsObjects, !isUncommitted(id) {
      found.state = kind.readState(id: id, bytes, ownLayout: ownLayout)
    }
    if kind.hasReferences, !query.sorts.isEmpty {
      let object: Object = found.object()
      // Access the children that the query sorts by now: their states are recorded for this object, and one that
      // cannot be decoded must not be sorted as nil.
      for sort in query.sorts { _ = sort.compare(object, object) }
      try requireLoaded()
    }
    if trail != nil, let map = record.map(of: bytes, head) {
      found.related = decoder.context.source?.end([]) ?? 0
      found.content = XXH64.hash(map)
    }
    return found
  }

  /// Returns whether the transaction that runs the query has written an object.
  private func isUncommitted(_ id: RawSpan) -> Bool {
    guard let overlay = decoder.context.overlay else { return false }
    return overlay.hasChanged(ObjectIdentity(type: kind.name, id: id.copied()))
  }

  /// Returns the object: the cached one if it was decoded from these bytes, otherwise a newly
  /// decoded one; `nil` if it cannot be decoded and the query passes over such objects.
  func decoded(
    _ head: StoredObjectMetadata, _ id: RawSpan, _ bytes: RawSpan
  ) throws -> DecodedObject? {
    let text = memory == nil ? nil : id.text()
    let cost = bytes.byteCount + 64
    if let memory, let text, let known = memory.object(text, id, head, cost: cost) { return known }
    do {
      let decoded = try kind.decode(bytes.copied(), head, id: id, record, decoder, box)
      if returnsObjects, let memory, let text, decoded.context == nil {
        memory.insert(decoded, text, id, head, cost: cost)
      }
      return decoded
    } catch {
      guard query.skipsUnreadable else { throw error }
      pass(over: error, head.sequence)
      return nil
    }
  }

  /// Tells of an object that the query passes over.
  func pass(over error: any Error, _ sequence: UInt64) {
    if let unreadable = query.unreadable, let error = error as? ObjectError {
      unreadable.add(error, sequence)
    } else {
      kind.core.report(error)
    }
  }

  /// Tells of a related object that the query passes over.
  ///
  /// - Throws: The error, unless the query passes over objects that cannot be decoded.
  func pass(overRelated error: any Error) throws {
    guard query.skipsUnreadable, let error = error as? ObjectError, error.code == .unreadable else {
      throw error
    }
    if let unreadable = query.unreadable {
      unreadable.add(related: error)
    } else {
      kind.core.report(error)
    }
  }

  /// Verifies that the last condition or sort could load the objects that it followed references to.
  private func requireLoaded() throws {
    if let failure = decoder.context.takeFailure() { try pass(overRelated: failure) }
  }

  /// Returns whether an object comes first in the requested order. Ties are in the order of
  /// insertion, reversed if the first key is descending.
  private func precedes(
    _ left: FoundObject, _ right: FoundObject
  ) -> Bool {
    for sort in query.sorts {
      let order = sort.compare(left.object(), right.object())
      if order != 0 { return sort.direction == .ascending ? order < 0 : order > 0 }
    }
    return query.sorts.first?.direction == .descending
      ? left.sequence > right.sequence : left.sequence < right.sequence
  }
}
