// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

extension Query {
  /// The last result, if nothing has changed, and the store is open.
  private var remembered: [Object]? {
    store.storage.hasClosed || store.storage.isForkedChild ? nil : memo.current
  }

  private func run<R>(
    _ operation: String, empty: R,
    _ body: (QueryExecution<Object>, borrowing ReadTransaction, SnapshotView) throws -> R
  ) throws -> R {
    let kind = store.kind(Object.self)
    return try store.storage.openCore(operation).withObjectSnapshot(operation) {
      transaction, view in
      guard let state = try kind.state(transaction, view) else { return empty }
      // What the catalog says counts: this process may not have met a reference of the type yet.
      guard !inclusions.isEmpty || kind.hasReferences || state.record.references != nil else {
        return try body(
          QueryExecution(kind: kind, query: self, record: state.record, view: view), transaction,
          view)
      }
      // What is read besides the objects is read in the same snapshot.
      let source = TrackedSnapshot(transaction, view)
      defer { source.close() }
      source.note(state.record)
      let decoder = ReferenceDecoder(ReferenceLoader(store: store, source: source))
      return try body(
        QueryExecution(kind: kind, query: self, record: state.record, decoder), transaction, view)
    }
  }

  /// The objects, as one snapshot has them.
  ///
  /// Objects that do not decode are left out and reported to the store's `onError`.
  ///
  /// - Complexity: As `explain()` says. A kept query whose type nobody has changed costs two
  ///   loads, unless it filters by a closure, whose answer may change without the objects.
  public func fetch() throws -> [Object] {
    if let known = remembered { return known }
    return try run("query", empty: []) { run, transaction, view in
      let objects = try run.objects(view.generation, transaction)
      let uses =
        run.record.isBounded == true
        ? run.kind.noteUse(of: objects, run.record.number, view) : []
      for inclusion in inclusions { _ = try inclusion.load(objects, view.generation, transaction) }
      let context = run.decoder.context
      if context.source == nil, context.wasLoaded { return objects }
      guard run.kind.sharesInstances, !predicate.node.isOpaque else { return objects }
      if sorts.contains(where: \.isOpaque) { return objects }
      memo.remember(
        .init(
          objects: objects, context: context, generation: view.generation,
          slots: context.source?.slots ?? [.type(run.record.number, in: view.generation)],
          commitVersion: view.commitVersion, uses: uses))
      return objects
    }
  }

  /// The objects, as one snapshot has them, read without blocking a thread of Swift's pool.
  ///
  /// A result that is remembered is returned at once. Objects that do not decode are left out and
  /// reported to the store's `onError`.
  public func fetch() async throws -> [Object] {
    if let known = remembered { return known }
    return try await BackgroundExecutor.shared.run { try self.fetch() }
  }

  /// The objects with their places, past what is remembered.
  func found(_ operation: String) throws -> [QueryExecution<Object>.Found] {
    try run(operation, empty: []) { run, transaction, view in
      let found = try run.foundWithChildren(view.generation, transaction)
      if run.record.isBounded == true {
        run.kind.noteUse(of: found.map(\.object), run.record.number, view)
      }
      return found
    }
  }

  /// Tells the store's `onError` of an error.
  package var report: @Sendable (any Error) -> Void {
    let store = store
    return { store.storage.core.report($0) }
  }

  /// The query, of which one object is enough; a limit of zero stays.
  private var atMostOne: Query { limit(Swift.min(maximum ?? 1, 1)) }

  /// The first object, or `nil`.
  public func first() throws -> Object? { try atMostOne.fetch().first }

  /// How many objects there are.
  public func count() throws -> Int {
    if let known = remembered { return known.count }
    return try run("count", empty: 0) { run, transaction, view in
      try run.count(view.generation, transaction)
    }
  }

  /// How many objects there are, counted without blocking a thread of Swift's pool.
  public func count() async throws -> Int {
    if let known = remembered { return known.count }
    return try await BackgroundExecutor.shared.run { try self.count() }
  }

  /// Whether there is any.
  public func exists() throws -> Bool { try atMostOne.count() > 0 }

  /// Deletes the objects, in one transaction.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete() throws -> Int {
    let query = self
    return try store.write { transaction in
      try transaction.delete(Object.self, ids: transaction.fetch(query).map(\.id))
    }
  }

  /// Deletes the objects, in one transaction, without blocking a thread of Swift's pool.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete() async throws -> Int {
    let query = self
    return try await store.write { transaction in
      try transaction.delete(Object.self, ids: transaction.fetch(query).map(\.id))
    }
  }

  // MARK: Values

  /// The values of a property, in order.
  public func values<Value: Sendable>(of path: Path<Object, Value>) throws -> [Value] {
    let property = PropertyPath(path)
    if let known = remembered { return known.map { property.value(of: $0) } }
    let values: [Value]? = try run("values", empty: []) { run, transaction, view in
      try run.fieldValues(of: property, view.generation, transaction)
    }
    return try values ?? fetch().map { property.value(of: $0) }
  }

  /// Whether an index leads to the object that comes first in an order.
  private func isWalked() throws -> Bool {
    try run("plan", empty: false) { run, _, _ in run.plan.walk != nil && run.plan.isSorted }
  }

  /// The values of a property, each once, in the order of their first object.
  public func distinct<Value: Hashable & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> [Value] {
    var seen: Set<Value> = []
    return try values(of: path).filter { seen.insert($0).inserted }
  }

  /// How many objects there are for each value of a property.
  public func counts<Value: Hashable & Sendable>(
    by path: Path<Object, Value>
  ) throws -> [Value: Int] {
    try values(of: path).reduce(into: [:]) { $0[$1, default: 0] += 1 }
  }

  /// The value of a property that comes first in a sort by it; `nil`: there are no objects.
  public func min<Value: Comparable & Sendable>(_ path: Path<Object, Value>) throws -> Value? {
    if sorts.isEmpty, maximum == nil, skipped == 0 {
      let first = sorted(by: path).limit(1)
      if try first.isWalked() { return try first.values(of: path).first }
    }
    return try values(of: path).min { SortOrdering.of($0, $1) < 0 }
  }

  /// The value of a property that comes last in a sort by it; `nil`: there are no objects.
  public func max<Value: Comparable & Sendable>(_ path: Path<Object, Value>) throws -> Value? {
    if sorts.isEmpty, maximum == nil, skipped == 0 {
      let last = sorted(by: path, .descending).limit(1)
      if try last.isWalked() { return try last.values(of: path).first }
    }
    return try values(of: path).max { SortOrdering.of($0, $1) < 0 }
  }

  /// The sum of a property.
  ///
  /// Of integers it is exact: parts of it may be larger than the type holds. Other types are added with
  /// their own `+`, in the query's order.
  ///
  /// - Throws: ``ObjectError/Code/overflow`` when the sum of integers does not fit their type.
  public func sum<Value: AdditiveArithmetic & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> Value {
    let values = try values(of: path)
    func exact<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Value? {
      IntegerSum.of(values as! [Integer]).map { $0 as! Value }
    }
    guard let type = Value.self as? any FixedWidthInteger.Type else {
      return values.reduce(.zero, +)
    }
    guard let sum = exact(type) else {
      throw ObjectError(
        .overflow, type: Object.storedName,
        "The sum of \(values.count) values of \(PropertyPath(path).name) does not fit \(type). Sum a "
          + "part of them, or as a wider type.")
    }
    return sum
  }

  // MARK: Explaining

  /// How the query is answered: which index it walks, and what is judged or sorted afterwards.
  ///
  /// If it would walk an index that is not complete yet, the last line shows how far its build is:
  /// `index "year" is being built, 40 %`; or why it is not built.
  public func explain() throws -> String {
    let kind = store.kind(Object.self)
    return try run("explain", empty: "Nothing of \(kind.name) is stored.") { run, transaction, _ in
      let plan = run.plan
      var lines: [String] = []
      if let walk = plan.walk {
        let what = walk.ranges.count == 1 ? "one range" : "\(walk.ranges.count) ranges"
        lines.append(
          "walk the index \"\(walk.name)\" in \(what)"
            + (walk.fixed > 0 ? ", \(walk.fixed) properties fixed" : "")
            + (plan.backwards ? ", backwards" : ""))
        if !walk.isExact { lines.append("judge each object: \(predicate)") }
      } else {
        lines.append("scan all objects of \(kind.name)")
        if case .all = predicate.node {} else { lines.append("judge each object: \(predicate)") }
      }
      if !sorts.isEmpty {
        let keys = sorts.map(\.text).joined(separator: ", ")
        lines.append(
          plan.isSorted ? "in the order asked for: \(keys)" : "sort by \(keys) in memory")
      } else if !plan.isSorted {
        lines.append("sort by insertion in memory")
      }
      if start != nil {
        let isDirect = plan.isSorted && (plan.walk == nil || !sorts.isEmpty)
        lines.append(isDirect ? "begin at a position" : "leave out what is before a position")
      }
      if let maximum { lines.append("stop after \(maximum)") }
      if let build = try kind.explainBuild(for: self, run.record, transaction) {
        lines.append(build)
      }
      return lines.joined(separator: "\n")
    }
  }

  /// How the query is answered, found out without blocking a thread of Swift's pool.
  public func explain() async throws -> String {
    try await BackgroundExecutor.shared.run { try self.explain() }
  }
}
