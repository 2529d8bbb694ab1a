// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

extension Query {
  /// The cached result if its stamps are unchanged and the store is open; otherwise `nil`.
  var remembered: [Object]? {
    store.storage.hasClosed || store.storage.isForkedChild ? nil : memo.current
  }

  func run<R>(
    _ operation: String, empty: R, canRepeat: () -> Bool = { true },
    _ body: (QueryExecution<Object>, borrowing Snapshot) throws -> R
  ) throws -> R {
    let kind = store.kind(Object.self)
    return try store.erasing(kind) {
      try run(kind, operation, empty: empty, canRepeat: canRepeat, body)
    }
  }

  private func run<R>(
    _ kind: ObjectTypeDescriptor<Object>, _ operation: String, empty: R, canRepeat: () -> Bool,
    _ body: (QueryExecution<Object>, borrowing Snapshot) throws -> R
  ) throws -> R {
    return try store.storage.openCore(operation).withSnapshot(operation, canRepeat: canRepeat) {
      snapshot in
      guard let state = try kind.state(snapshot) else { return try checked(empty, kind) }
      // The catalog decides: this process may not have decoded a reference of the type yet.
      guard !inclusions.isEmpty || kind.hasReferences || state.record.references != nil else {
        return try body(
          QueryExecution(
            kind: kind, query: self, record: state.record, view: snapshot.view, in: snapshot),
          snapshot)
      }
      // The same snapshot serves all objects that the query reads in addition to its own.
      let source = TrackedSnapshot(snapshot)
      defer { source.close() }
      source.note(state.record)
      let decoder = ReferenceDecoder(ReferenceLoader(store: store, source: source))
      return try body(
        QueryExecution(
          kind: kind, query: self, record: state.record, decoder, in: snapshot), snapshot)
    }
  }

  /// Returns the objects of one snapshot.
  ///
  /// The result includes every write that any process acknowledged before the call.
  ///
  /// - Returns: The objects in the query's order.
  /// - Throws: ``ObjectError/Code/unreadable`` if a matching object cannot be decoded: `count()` counts
  ///   it, and the result would lack it. ``skippingUnreadable()`` passes over such objects, and
  ///   ``fetchReadable()`` returns their errors with the others.
  ///   ``ObjectError/Code/notFound`` or ``ObjectError/Code/invalidCursor`` if the query
  ///   begins after a position that does not exist; ``ObjectError/Code/newerSchema``,
  ///   ``ObjectError/Code/schemaMismatch`` or ``ObjectError/Code/migrationInProgress`` if this
  ///   process cannot read the type; `StoreError` if the store cannot be read.
  /// - Complexity: As `explain()` reports. Repeating the same query value while no process changes
  ///   an object of its type costs two loads, unless the query filters by a closure, whose result
  ///   may depend on more than the objects.
  public func fetch() throws -> [Object] {
    if let known = remembered { return known }
    return try run("query", empty: []) { run, snapshot in
      let objects = try run.objects(snapshot)
      let uses =
        run.record.isBounded == true
        ? run.kind.noteUse(of: objects, run.record.number, snapshot.view) : []
      for inclusion in inclusions {
        _ = try inclusion.load(objects, snapshot, run.pass(overRelated:))
      }
      let context = run.decoder.context
      if context.source == nil, context.wasLoaded { return objects }
      guard run.kind.sharesInstances, !predicate.node.isOpaque else { return objects }
      // The library's own `contains` requests metadata of the collection.
      for sort in sorts where sort.isOpaque { return objects }
      memo.remember(
        .init(
          objects: objects, context: context, generation: snapshot.generation,
          slots: context.source?.slots ?? [.type(run.record.number, in: snapshot.generation)],
          commitVersion: snapshot.commitVersion, uses: uses))
      return objects
    }
  }

  /// Returns the objects of one snapshot without blocking a thread of the cooperative pool.
  ///
  /// Returns a cached result immediately.
  ///
  /// - Returns: The objects in the query's order.
  /// - Throws: The errors of the synchronous overload.
  public func fetch() async throws -> [Object] {
    if let known = remembered { return known }
    return try await BackgroundExecutor.shared.run { try self.fetch() }
  }

  /// Returns the objects with their positions, bypassing the query result cache.
  func found(_ operation: String) throws -> [FoundObject] {
    try run(operation, empty: []) { run, snapshot in
      let found = try run.foundWithChildren(snapshot)
      if run.record.isBounded == true {
        run.kind.noteUse(of: found.map { $0.object() }, run.record.number, snapshot.view)
      }
      return found
    }
  }

  /// A function that reports an error to the store's `onError`.
  package var report: @Sendable (any Error) -> Void {
    let store = store
    return { store.storage.core.report($0) }
  }

  /// The query limited to one object. A limit of zero remains zero.
  private var atMostOne: Query { limit(Swift.min(maximum ?? 1, 1)) }

  /// Returns the first object.
  ///
  /// - Returns: The first object in the query's order, or `nil` if no object matches.
  /// - Throws: The errors of `fetch()`.
  public func first() throws -> Object? { try atMostOne.fetch().first }

  /// Returns the number of matching objects, decoded or not: that of the objects which `fetch()` returns
  /// if it throws no error.
  ///
  /// An object whose bytes are damaged is in no other result, but a count that reads no objects counts it
  /// until it is replaced, deleted or repaired.
  ///
  /// - Returns: The count in one snapshot, within the query's limit and offset.
  /// - Throws: The errors of `fetch()`; ``ObjectError/Code/unreadable`` only for an object that must be
  ///   decoded to decide whether it matches.
  /// - Complexity: O(log *n*) without a predicate; O(*k*) in the matching index entries if an index
  ///   covers the predicate; otherwise as `explain()` reports.
  public func count() throws -> Int {
    if let known = remembered { return known.count }
    return try run("count", empty: 0) { run, snapshot in
      try run.count(snapshot)
    }
  }

  /// Returns the number of matching objects without blocking a thread of the cooperative pool.
  ///
  /// - Returns: The count in one snapshot, within the query's limit and offset.
  /// - Throws: The errors of the synchronous overload.
  public func count() async throws -> Int {
    if let known = remembered { return known.count }
    return try await BackgroundExecutor.shared.run { try self.count() }
  }

  /// Returns whether at least one object matches.
  ///
  /// - Returns: `true` if an object matches.
  /// - Throws: The errors of `fetch()`.
  public func exists() throws -> Bool { try atMostOne.count() > 0 }

  /// Deletes the matching objects in one transaction and applies the delete rules of relationships.
  ///
  /// - Returns: The number of deleted objects.
  /// - Throws: ``ObjectError/Code/deletionDenied`` if another object refers to one of them with the
  ///   rule `deny`; the errors of `fetch()` and of `ObjectStore.delete(_:id:)`. After an error
  ///   nothing is deleted.
  @discardableResult
  public func delete() throws -> Int {
    let query = self
    return try store.write { transaction in
      try transaction.delete(Object.self, ids: transaction.ids(of: query))
    }
  }

  /// Deletes the matching objects in one transaction without blocking a thread of the cooperative
  /// pool.
  ///
  /// - Returns: The number of deleted objects.
  /// - Throws: The errors of the synchronous overload.
  @discardableResult
  public func delete() async throws -> Int {
    let query = self
    return try await store.write { transaction in
      try transaction.delete(Object.self, ids: transaction.ids(of: query))
    }
  }

  // MARK: Explaining

  /// Returns a description of the query plan: the index it scans, the residual filter and the sort.
  ///
  /// If the plan would use an incomplete index, the last line shows the progress of its build,
  /// `index "year" is being built, 40 %`, or the reason why it is not built.
  ///
  /// - Returns: One line per step of the plan.
  /// - Throws: The errors of `fetch()`.
  public func explain() throws -> String {
    let kind = store.kind(Object.self)
    return try run("explain", empty: "Nothing of \(kind.name) is stored.") { run, snapshot in
      var lines = run.plan.explanation(
        objects: "all objects of \(kind.name)", search: run.searchText, filter: run.filterText,
        order: sorts.map(\.text), hasPosition: start != nil, limit: maximum.map { _ in wanted })
      for related in predicate.node.allLeaves.compactMap(\.related) {
        let search = try RelatedSearch(
          self, run.kind, run.record, run.decoder.context, snapshot)
        if let line = try related.explanation(search, snapshot) { lines.append(line) }
      }
      if let build = try kind.explainBuild(for: self, run.record, snapshot) {
        lines.append(build)
      }
      return lines.joined(separator: "\n")
    }
  }

  /// Returns a description of the query plan without blocking a thread of the cooperative pool.
  ///
  /// - Returns: One line per step of the plan.
  /// - Throws: The errors of the synchronous overload.
  public func explain() async throws -> String {
    try await BackgroundExecutor.shared.run { try self.explain() }
  }
}
