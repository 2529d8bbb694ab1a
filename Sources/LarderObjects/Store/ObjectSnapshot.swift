// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// A consistent view of all types of a store, valid inside the closure of
/// ``ObjectStore/read(atMost:_:)``.
///
/// It is not copyable and cannot leave the closure. Use it on the thread that runs the closure.
/// Every read throws ``ObjectError/Code/snapshotExpired`` after the time limit of the snapshot.
public struct ObjectSnapshot: ~Copyable {
  let store: ObjectStore
  let source: TrackedSnapshot
  let deadline: UInt64

  /// Returns the object of an id in the snapshot.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - id: The id of the object.
  /// - Returns: The object, or `nil` if it does not exist.
  /// - Throws: ``ObjectError/Code/unreadable`` if the stored object cannot be decoded;
  ///   ``ObjectError/Code/snapshotExpired`` after the time limit; ``ObjectError/Code/newerSchema``,
  ///   ``ObjectError/Code/schemaMismatch`` or ``ObjectError/Code/migrationInProgress`` if this
  ///   process cannot read the type.
  /// - Complexity: O(log *n*).
  public func object<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> Object? {
    let collection = store.collection(type)
    return try reading(type) { snapshot in
      try collection.found(
        ObjectTypeDescriptor<Object>.text(of: id), snapshot, source)?.object()
    }
  }

  /// Returns whether an object exists in the snapshot.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - id: The id of the object.
  /// - Returns: `true` if the object exists.
  /// - Throws: The errors of ``object(_:id:)``.
  /// - Complexity: O(log *n*).
  public func contains<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool {
    try object(type, id: id) != nil
  }

  /// Returns the objects that match a query, with the references that the query includes.
  ///
  /// - Parameter query: The query.
  /// - Returns: The objects in the query's order.
  /// - Throws: ``ObjectError/Code/snapshotExpired`` after the time limit;
  ///   ``ObjectError/Code/invalidCursor`` or ``ObjectError/Code/notFound`` if the query begins at
  ///   an invalid position; the errors of ``object(_:id:)`` if the type cannot be read.
  /// - Complexity: See `Query.explain()`.
  public func fetch<Object: Storable>(_ query: Query<Object>) throws -> [Object] {
    if Mutant.snapshotMoves.isActive { return try query.fetch() }
    return try run(query, empty: []) { run, snapshot in
      let objects: [Object] = try run.foundWithChildren(snapshot).map { $0.object() }
      if run.record.isBounded == true {
        run.kind.noteUse(of: objects, run.record.number, snapshot.view)
      }
      return objects
    }
  }

  /// Returns the first object that matches a query.
  ///
  /// - Parameter query: The query.
  /// - Returns: The object, or `nil` if no object matches.
  /// - Throws: The errors of ``fetch(_:)``.
  public func first<Object: Storable>(_ query: Query<Object>) throws -> Object? {
    try fetch(query.limit(1)).first
  }

  /// Returns the number of objects that match a query.
  ///
  /// - Parameter query: The query.
  /// - Returns: The count in the snapshot.
  /// - Throws: The errors of ``fetch(_:)``.
  public func count<Object: Storable>(_ query: Query<Object>) throws -> Int {
    try run(query, empty: 0) { run, snapshot in try run.count(snapshot) }
  }

  /// Returns the number of objects of a type.
  ///
  /// - Parameter type: The object type.
  /// - Returns: The count in the snapshot.
  /// - Throws: The errors of ``fetch(_:)``.
  /// - Complexity: O(log *n*).
  public func count<Object: Storable>(_ type: Object.Type) throws -> Int {
    try count(store.objects(type))
  }

  private func run<Object: Storable, R>(
    _ query: Query<Object>, empty: R,
    _ body: (QueryExecution<Object>, borrowing Snapshot) throws -> R
  ) throws -> R {
    let kind = store.kind(Object.self)
    return try reading(Object.self) { snapshot in
      guard let record = try source.record(of: kind, snapshot) else {
        return try query.checked(empty, kind)
      }
      let decoder = ReferenceDecoder(ReferenceLoader(store: store, source: source))
      return try body(
        QueryExecution(kind: kind, query: query, record: record, decoder, in: snapshot), snapshot)
    }
  }

  func reading<Object: Storable, R>(
    _ type: Object.Type, _ body: (borrowing Snapshot) throws -> R
  ) throws -> R {
    guard Clocks.monotonicNanoseconds() < deadline else {
      throw ObjectError(
        .snapshotExpired, type: Object.storedName,
        "The snapshot exceeded its limit `atMost`; pinned snapshots make the files grow. "
          + "Read less in one closure, or pass a longer limit.")
    }
    guard let result = try source.withSnapshot(body) else {
      throw ObjectError(
        .snapshotExpired, type: Object.storedName,
        "The snapshot has ended, or another thread created it. Use the snapshot only inside the "
          + "closure of read(atMost:_:), on its thread.")
    }
    return result
  }
}

extension ObjectStore {
  /// Reads any number of objects and types in one snapshot. Other processes can write during the
  /// read.
  ///
  /// ```swift
  /// let (account, payments) = try store.read { snapshot in
  ///   let account = try snapshot.object(Account.self, id: "ada")
  ///   return (account, try snapshot.fetch(store.objects(Payment.self).where(\.to == "ada")))
  /// }
  /// ```
  ///
  /// References that the closure follows on its thread load from the same snapshot. References that
  /// are followed after the closure load the newest objects.
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
    return try core.withSnapshot("read") { snapshot in
      let source = TrackedSnapshot(snapshot)
      defer { source.close() }
      return try body(
        ObjectSnapshot(
          store: self, source: source,
          deadline: Clocks.monotonicNanoseconds() &+ limit.clampedNanoseconds))
    }
  }
}
