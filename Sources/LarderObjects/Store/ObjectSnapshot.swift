// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// One state of the whole store, over all types: what ``ObjectStore/read(atMost:_:)`` lends.
///
/// It cannot be copied or kept: it exists while the closure runs.
public struct ObjectSnapshot: ~Copyable {
  let store: ObjectStore
  let source: TrackedSnapshot
  let view: SnapshotView
  let deadline: UInt64

  /// The object of an id, or `nil`.
  ///
  /// - Throws: ``ObjectError/Code/unreadable`` when what is stored does not decode.
  public func object<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> Object? {
    let collection = store.collection(type)
    return try reading(type) { transaction in
      try collection.found(
        ObjectTypeDescriptor<Object>.text(of: id), view.generation, transaction, source)?.object
    }
  }

  /// Whether there is an object of an id.
  public func contains<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool {
    try object(type, id: id) != nil
  }

  /// The objects a query wants, with what it includes.
  public func fetch<Object: Storable>(_ query: Query<Object>) throws -> [Object] {
    if Mutant.snapshotMoves.isActive { return try query.fetch() }
    return try run(query, empty: []) { run, transaction in
      let objects = try run.foundWithChildren(view.generation, transaction).map(\.object)
      if run.record.isBounded == true { run.kind.noteUse(of: objects, run.record.number, view) }
      return objects
    }
  }

  /// The first object a query wants, or `nil`.
  public func first<Object: Storable>(_ query: Query<Object>) throws -> Object? {
    try fetch(query.limit(1)).first
  }

  /// How many objects a query wants.
  public func count<Object: Storable>(_ query: Query<Object>) throws -> Int {
    try run(query, empty: 0) { run, transaction in try run.count(view.generation, transaction) }
  }

  /// How many objects of a type there are.
  public func count<Object: Storable>(_ type: Object.Type) throws -> Int {
    try count(store.objects(type))
  }

  private func run<Object: Storable, R>(
    _ query: Query<Object>, empty: R,
    _ body: (QueryExecution<Object>, borrowing ReadTransaction) throws -> R
  ) throws -> R {
    let kind = store.kind(Object.self)
    return try reading(Object.self) { transaction in
      guard let record = try source.record(of: kind, transaction) else { return empty }
      let decoder = ReferenceDecoder(ReferenceLoader(store: store, source: source))
      return try body(
        QueryExecution(kind: kind, query: query, record: record, decoder), transaction)
    }
  }

  private func reading<Object: Storable, R>(
    _ type: Object.Type, _ body: (borrowing ReadTransaction) throws -> R
  ) throws -> R {
    guard Clocks.monotonicNanoseconds() < deadline else {
      throw ObjectError(
        .snapshotExpired, type: Object.storedName,
        "The snapshot was held for longer than `atMost` allows, while the files grow by what others "
          + "write. Read less at once, or allow more.")
    }
    guard let result = try source.lent.withTransaction({ try body($0) }) else {
      throw ObjectError(
        .snapshotExpired, type: Object.storedName,
        "The snapshot is over, or this is not the thread it was taken on. Use it inside of the "
          + "closure of read.")
    }
    return result
  }
}

extension ObjectStore {
  /// Reads any number of objects and types in one state of the store, while others write on.
  ///
  /// ```swift
  /// let (account, payments) = try store.read { snapshot in
  ///   let account = try snapshot.object(Account.self, id: "ada")
  ///   return (account, try snapshot.fetch(store.objects(Payment.self).where(\.to == "ada")))
  /// }
  /// ```
  ///
  /// References that are followed inside, on the closure's thread, load from that same state; those
  /// that are followed later load the newest.
  ///
  /// While it runs, room that others free is not used again, so the files grow by what they write.
  /// So it is bounded: a read that begins later than `atMost` after the closure throws
  /// ``ObjectError/Code/snapshotExpired``. The closure may run again, when another process has
  /// replaced the store's files meanwhile: let it do nothing but read. Let it use the snapshot and not
  /// the store: that fails with ``/LarderEngine/StoreError/Code/generationReplacedDuringRead``
  /// once the files have
  /// been replaced, and each read through the store takes one of the 63 readers of the process. The
  /// same holds in every closure that is called while the store is being read, as a query's filter:
  /// when the readers are used up, ``/LarderEngine/StoreError/Code/tooManyReaders``.
  ///
  /// - Parameters:
  ///   - limit: How long after its beginning reads may begin.
  ///   - body: The closure that reads the snapshot.
  public func read<R>(
    atMost limit: Duration = .seconds(10), _ body: (borrowing ObjectSnapshot) throws -> R
  ) throws -> R {
    let core = try storage.openCore("read")
    return try core.withObjectSnapshot("read") { transaction, view in
      let source = TrackedSnapshot(transaction, view)
      defer { source.close() }
      let (seconds, attoseconds) = limit.components
      let nanoseconds = max(seconds, 0).multipliedReportingOverflow(by: 1_000_000_000)
      let allowed =
        nanoseconds.overflow
        ? Int64.max / 2 : nanoseconds.partialValue / 2 + max(attoseconds, 0) / 2_000_000_000
      return try body(
        ObjectSnapshot(
          store: self, source: source, view: view,
          deadline: Clocks.monotonicNanoseconds() &+ UInt64(allowed) &* 2))
    }
  }
}
