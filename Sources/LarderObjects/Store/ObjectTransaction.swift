// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

/// A write transaction over objects of any number of types.
///
/// Unique indexes and the delete rule `deny` are checked when the closure ends, so objects can
/// exchange their unique keys, and an object can be deleted before its referrers. If two objects
/// have one key then, or an object denies a deletion, the transaction throws
/// ``ObjectError/Code/uniqueViolation`` or ``ObjectError/Code/deletionDenied`` and stores nothing.
/// The operations inside the closure do not throw these errors.
///
/// An operation that throws before its first write changes nothing, and the closure may catch the
/// error and continue. An operation that throws after a partial write (the second of several
/// objects, or a child of the object, cannot be encoded) fails the transaction: the next writing
/// operation, or the end of the closure, throws ``ObjectError/Code/transactionFailed``, and the
/// transaction stores nothing.
///
/// Use the transaction only inside the closure of `ObjectStore.write(_:)`. Other processes see
/// nothing of it before the commit.
public struct ObjectTransaction: ~Copyable {
  /// The underlying transaction, for cache entries in the same commit.
  public var entries: StoreTransaction
  let store: ObjectStore
  /// The types that the transaction has erased, if the store erases any.
  let erasures: TransactionErasures?
  /// The uncommitted writes, for references that are followed before the commit.
  let overlay = TransactionOverlay()
  /// The deleted objects that count as read until the commit.
  var forgotten = ForgottenReads()
  /// The number of writes so far.
  private var writes = 0
  /// The deleted objects whose deletion another object denied at that time.
  var denied: Set<ObjectIdentity> = []
  /// Whether the transaction builds an index: what it stores is compared with the keys so far.
  var isBuildingIndex = false
  /// The error that prevents the commit.
  private var failure: ObjectError?
  /// An encoder that can be reused because its last object had no references.
  var spare: ReferenceEncoder?
  /// The type of the last save.
  var prepared: PreparedType?
  /// The cached type records, valid while no record changes.
  private var catalog: (types: [ObjectTypeRecord], changes: Int)?

  private init(
    entries: consuming StoreTransaction, store: ObjectStore, _ erasures: TransactionErasures?
  ) {
    self.entries = entries
    self.store = store
    self.erasures = erasures
    spare = store.spareEncoder.withLock { encoder in
      defer { encoder = nil }
      return encoder
    }
  }

  static func run<R: Sendable>(
    _ body: (inout ObjectTransaction) throws -> R, in entries: inout StoreTransaction,
    of store: ObjectStore, _ erasures: TransactionErasures?
  ) throws -> TransactionResult<R> {
    // A transaction may run again after a failure.
    erasures?.reset()
    var transaction = ObjectTransaction(entries: entries, store: store, erasures)
    var result = Result { try body(&transaction) }
    if case .success = result {
      do {
        if let failure = transaction.failure { throw failure }
        try transaction.checkConstraints()
      } catch {
        result = .failure(error)
      }
    }
    transaction.overlay.close()
    if let spare = transaction.spare { store.spareEncoder.withLock { $0 = spare } }
    let version = transaction.hasWritten ? transaction.entries.commitVersion : nil
    entries = transaction.entries
    return TransactionResult(
      value: try result.get(), commitVersion: version, forgotten: transaction.forgotten)
  }

  /// Runs a writing operation. An error after a partial write fails the transaction.
  mutating func operation<R>(
    on type: String, _ body: (inout ObjectTransaction) throws -> R
  ) throws -> R {
    if let failure { throw failure }
    let before = writes
    do {
      return try body(&self)
    } catch {
      if writes != before {
        failure = ObjectError(
          .transactionFailed, type: type,
          "An operation failed after a partial write (\(error)), and the closure caught the error. "
            + "The transaction stores nothing. Rethrow the error from the closure.")
      }
      throw error
    }
  }

  /// Counts a write of the transaction.
  mutating func noteWrite() { writes += 1 }

  /// Whether the transaction has written anything.
  var hasWritten: Bool { writes > 0 }

  /// Returns the loader for references that this transaction decodes.
  func context() -> ReferenceLoader { ReferenceLoader(store: store, overlay: overlay) }

  /// Returns the records of all types of the store.
  mutating func types() throws -> [ObjectTypeRecord] {
    let changes = entries.objects.typeChanges
    if let catalog, catalog.changes == changes { return catalog.types }
    let types: [ObjectTypeRecord]
    if changes == 0, let known = store.catalog.value(in: entries.generation) {
      types = known
    } else {
      types = try entries.withSnapshot { try ObjectReading.types($0) }
      if changes == 0 {
        store.catalog.remember(types, before: entries.commitVersion, in: entries.generation)
      }
    }
    catalog = (types, changes)
    return types
  }

  /// Returns the object of an id, including the uncommitted writes of this transaction. References
  /// load the same state.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - id: The id of the object.
  /// - Returns: The object, or `nil` if it does not exist.
  /// - Throws: ``ObjectError/Code/unreadable`` if the stored object cannot be decoded;
  ///   ``ObjectError/Code/newerSchema``, ``ObjectError/Code/schemaMismatch`` or
  ///   ``ObjectError/Code/migrationInProgress`` if this process cannot read the type.
  /// - Complexity: O(log *n*).
  public func object<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> Object? {
    try stored(type, id: id).map { try decoded($0) }
  }

  /// Returns the stored form of an object, or `nil` if it does not exist.
  func stored<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> StoredObject? {
    let kind = store.kind(type)
    guard let record = try kind.readable(entries.objectType(named: kind.name)) else { return nil }
    do {
      return try entries.object(
        type: record.number, id: ObjectTypeDescriptor<Object>.bytes(of: id))
    } catch let damage as DamagedObject {
      throw kind.damaged(damage)
    }
  }

  func decoded<Object: Storable>(_ stored: StoredObject) throws -> Object {
    let kind = store.kind(Object.self)
    let object = try kind.decode(stored, ReferenceDecoder(context())).object
    if !overlay.hasChanged(ObjectIdentity(type: kind.name, id: stored.id)) {
      kind.noteRead(object, stored)
    }
    return object
  }

  /// Stores an object and the objects that are assigned to its references, to any depth.
  ///
  /// Replaces stored objects with the same ids. If an id occurs more than once, the object nearest
  /// to `object` is stored.
  ///
  /// - Parameters:
  ///   - object: The object.
  ///   - children: The policy for objects that are assigned to references.
  /// - Throws: ``ObjectError/Code/transactionFailed`` if an earlier operation failed after a partial
  ///   write; the errors of `ObjectStore.save(_:children:)`, without
  ///   ``ObjectError/Code/uniqueViolation``, which the end of the transaction throws.
  public mutating func save<Object: Storable>(
    _ object: Object, children: ChildPolicy = .overwrite
  ) throws {
    try save(object, children: children, nil)
  }

  /// Stores an object with its children.
  ///
  /// - Parameter versioned: The versioned save, in which a change of a child elsewhere is an error.
  mutating func save<Object: Storable>(
    _ object: Object, children: ChildPolicy, _ versioned: VersionedSave?
  ) throws {
    try operation(on: Object.storedName) { transaction in
      let kind = transaction.store.kind(Object.self)
      try transaction.saveChildren(
        transaction.store(object, kind), of: [object], children, versioned)
    }
  }

  /// Stores objects as `save(_:children:)` does. The objects have precedence over children with the
  /// same id.
  ///
  /// - Parameters:
  ///   - objects: The objects.
  ///   - children: The policy for objects that are assigned to references.
  /// - Throws: The errors of `save(_:children:)`.
  public mutating func save<Object: Storable>(
    _ objects: [Object], children: ChildPolicy = .overwrite
  ) throws {
    try operation(on: Object.storedName) { try $0.storeAll(objects, children) }
  }

  /// Deletes an object and applies the delete rules of relationships.
  ///
  /// - Returns: Whether there was one.
  /// - Throws: ``ObjectError/Code/transactionFailed`` if an earlier operation failed after a partial
  ///   write. The end of the transaction throws ``ObjectError/Code/deletionDenied`` if others still
  ///   refer to the object and forbid its deletion.
  @discardableResult
  public mutating func delete<Object: Storable>(
    _ type: Object.Type, id: Object.ID
  ) throws -> Bool {
    try delete(type, ids: [id]) > 0
  }

  /// Deletes several objects. References among them do not deny the deletion.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - ids: The ids of the objects.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of ``delete(_:id:)``.
  @discardableResult
  public mutating func delete<Object: Storable>(
    _ type: Object.Type, ids: [Object.ID]
  ) throws -> Int {
    let kind = store.kind(type)
    return try operation(on: kind.name) { transaction in
      _ = try kind.prepare(&transaction.entries)
      return try transaction.remove(
        ids.map { ObjectIdentity(type: kind.name, id: ObjectTypeDescriptor<Object>.bytes(of: $0)) })
    }
  }

  /// Deletes all objects of a type. Deletes them one by one if a delete rule concerns the type.
  ///
  /// - Parameter type: The object type.
  /// - Throws: The errors of ``delete(_:id:)``.
  /// - Complexity: O(1) in the number of objects, or O(*n* log *n*) if a delete rule concerns the
  ///   type.
  public mutating func deleteAll<Object: Storable>(_ type: Object.Type) throws {
    let kind = store.kind(type)
    try operation(on: kind.name) { transaction in
      var record = try kind.prepare(&transaction.entries)
      if DeletionPlan.hasRules(about: kind.name, among: try transaction.types()) {
        try transaction.remove(transaction.allIDs(of: record))
        record = try kind.prepare(&transaction.entries)
      }
      try transaction.clear(record)
    }
  }

  /// Deletes all objects of all types without applying delete rules, because no referring object
  /// remains. The type records with their versions, indexes and budgets remain.
  ///
  /// - Throws: ``ObjectError/Code/transactionFailed`` if an earlier operation failed after a
  ///   partial write; `StoreError` if a write fails.
  public mutating func reset() throws {
    try operation(on: "all types") { transaction in
      // A type that a migration has only reserved has no objects.
      for record in try transaction.types() where record.version > 0 && record.movedTo == nil {
        try transaction.clear(record)
      }
    }
  }

  private mutating func clear(_ type: ObjectTypeRecord) throws {
    noteWrite()
    var record = type
    let old = try entries.objectBooks(record.number)
    try entries.dropObjectNumber(record.number, isIndex: false)
    record.number = try entries.newObjectNumber()
    for position in record.indexes.indices {
      try entries.dropObjectNumber(record.indexes[position].number, isIndex: true)
      record.indexes[position].number = try entries.newNumber(for: record.indexes[position])
      record.indexes[position].builtTo = nil
      record.indexes[position].isBehind = nil
      record.indexes[position].isViolated = nil
      record.indexes[position].lacksObjects = nil
    }
    try entries.setObjectBudget(record.number, bytes: old.budget, objects: old.mostObjects)
    try entries.putObjectType(record)
    overlay.clear(record.name)
    if let kind = store.kind(of: record) { forgotten.note(kind) }
  }

  private func allIDs(of record: ObjectTypeRecord) throws -> [ObjectIdentity] {
    var references: [ObjectIdentity] = []
    try entries.withSnapshot { snapshot in
      try ObjectReading.scan(type: record.number, in: snapshot) { found in
        if case .success(let stored) = found {
          references.append(ObjectIdentity(type: record.name, id: stored.id))
        }
        return true
      }
    }
    return references
  }

  /// Returns the objects that match a query, including the uncommitted writes of this transaction.
  ///
  /// - Parameter query: The query.
  /// - Returns: The objects in the query's order.
  /// - Throws: The errors of `Query.fetch()`.
  /// - Complexity: See `Query.explain()`.
  public mutating func fetch<Object: Storable>(_ query: Query<Object>) throws -> [Object] {
    try fetch(query, returns: true)
  }

  /// Returns the ids of the objects that match a query.
  mutating func ids<Object: Storable>(of query: Query<Object>) throws -> [Object.ID] {
    try fetch(query, returns: false).map(\.id)
  }

  /// Returns the objects that match a query.
  ///
  /// - Parameter returns: Whether a caller gets the objects.
  private mutating func fetch<Object: Storable>(
    _ query: Query<Object>, returns: Bool
  ) throws -> [Object] {
    let kind = store.kind(Object.self)
    guard let record = try kind.readable(entries.objectType(named: kind.name)) else {
      return try query.checked([], kind)
    }
    if query.search != nil { try entries.mergePostings() }
    let decoder = ReferenceDecoder(context())
    return try entries.withSnapshot { snapshot in
      let run = try QueryExecution(
        kind: kind, query: query, record: record, decoder, in: snapshot)
      let objects = try run.objects(snapshot, returns: returns)
      for inclusion in query.inclusions {
        _ = try inclusion.load(objects, snapshot, run.pass(overRelated:))
      }
      return objects
    }
  }
}
