// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
internal import LarderCoding
public import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

/// A store of values of your types, shared by all processes of the machine.
///
/// ```swift
/// let objects = try ObjectStore(at: "/var/lib/myapp/objects")
/// try objects.save(Car(id: "S", model: "S", year: 2022))
/// let car = try objects.object(Car.self, id: "S")
/// let recent = try objects.objects(Car.self).where(\.year >= 2020).sorted(by: \.model).fetch()
/// ```
///
/// After a save returns, the next read of any process returns the saved object. Several stores can
/// be open on one path, in one process or in several. All methods are thread-safe.
public final class ObjectStore: Sendable {
  /// The underlying store, for cache entries in the same files.
  public let storage: SharedStore
  private let options: CacheOptions
  private let kinds = Mutex<[ObjectIdentifier: any AnyObjectTypeDescriptor]>([:])
  /// Whether objects that do not fit a declaration are erased.
  let erasesOnSchemaChange: Bool
  /// The cached catalog; a deletion reads the delete rules of all types.
  let catalog = CatalogCache<[ObjectTypeRecord]>()
  /// The types whose objects the migrations of this program move to another one.
  let movedTypes = Mutex<Set<String>>([])
  /// The last commits of this store; see `ChildConflicts.swift`.
  let ownCommits = OwnCommits()
  /// An encoder that is not in use, for the next transaction.
  let spareEncoder = Mutex<ReferenceEncoder?>(nil)

  /// The directory of a store that is opened without a path.
  ///
  /// `$XDG_DATA_HOME/larder/objects`, or `~/.local/share/larder/objects` if the variable is not
  /// set; on Apple systems, the application support directory. All programs of the user share it.
  /// Stored names contain the module, so types of different programs do not collide.
  public static var defaultPath: String { StoreDirectory.defaultObjectPath }

  /// Opens a store of objects and creates it if it does not exist.
  ///
  /// - Parameters:
  ///   - path: A directory; see ``/LarderEngine/SharedStore/init(at:_:)``. Without it,
  ///     ``defaultPath``.
  ///   - options: If they set no durability, `.durable`: a save is on the disk when it returns.
  ///   - memory: Bounds of the decoded objects in memory, for each type.
  ///   - migrations: Applied before the store is returned; see ``migrate(_:dryRun:progress:)``.
  ///   - progress: Called after each step of a migration.
  public init(
    at path: String? = nil, _ options: StoreOptions = StoreOptions(),
    memory: CacheOptions = CacheOptions(), migrations: [ObjectMigration] = [],
    progress: (ObjectProgress) -> Void = { _ in }
  ) throws {
    storage = try SharedStore(at: path ?? Self.defaultPath, options.defaulting(to: .durable))
    erasesOnSchemaChange = options.erasesOnSchemaChange
    self.options = memory
    storage.core.maintain { $0.sweepDroppedObjects() }
    if !migrations.isEmpty { try migrate(migrations, progress: progress) }
  }

  /// Creates an object store over an open store.
  ///
  /// - Parameters:
  ///   - storage: The open store. ``close()`` closes it.
  ///   - memory: The limits of the decoded objects in memory, for each type.
  public init(_ storage: SharedStore, memory: CacheOptions = CacheOptions()) {
    self.storage = storage
    erasesOnSchemaChange = storage.core.options.erasesOnSchemaChange
    self.options = memory
    storage.core.maintain { $0.sweepDroppedObjects() }
  }

  /// Closes the store; see ``/LarderEngine/SharedStore/close()``.
  public func close() { storage.close() }

  func kind<Object: Storable>(_ type: Object.Type) -> ObjectTypeDescriptor<Object> {
    // The next operation throws in a forked child. Do not lock: a thread of the parent may have
    // held the lock.
    if storage.isForkedChild {
      return ObjectTypeDescriptor<Object>(store: self, options: options, isUsable: false)
    }
    return kinds.withLock { kinds in
      let key = ObjectIdentifier(type)
      if let kind = kinds[key] as? ObjectTypeDescriptor<Object> { return kind }
      let kind = ObjectTypeDescriptor<Object>(store: self, options: options)
      kinds[key] = kind
      return kind
    }
  }

  /// Returns the descriptor of a stored type, or `nil` if this process has not used the type with
  /// this store. Prefers the record's version, because a migrating process has descriptors of
  /// several versions.
  func kind(of record: ObjectTypeRecord) -> (any AnyObjectTypeDescriptor)? {
    kinds.withLock { kinds in
      let known = kinds.values.filter { $0.name == record.name }
      return known.first { $0.version == record.version } ?? known.max { $0.version < $1.version }
    }
  }

  // MARK: Reading

  /// Returns the object of an id. The result includes every save that any process acknowledged
  /// before the call.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - id: The id of the object.
  /// - Returns: The object, or `nil` if it does not exist.
  /// - Throws: ``ObjectError/Code/unreadable`` if the stored object cannot be decoded;
  ///   ``ObjectError/Code/newerSchema``, ``ObjectError/Code/schemaMismatch`` or
  ///   ``ObjectError/Code/migrationInProgress`` if this process cannot read the type; `StoreError`
  ///   if the store cannot be read.
  /// - Complexity: O(log *n*). A hit in memory costs two atomic loads.
  public func object<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> Object? {
    try collection(type).object(id: id)
  }

  /// Returns whether an object exists.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - id: The id of the object.
  /// - Returns: `true` if the object exists.
  /// - Throws: The errors of ``object(_:id:)``.
  /// - Complexity: O(log *n*).
  public func contains<Object: Storable>(
    _ type: Object.Type, id: Object.ID
  ) throws -> Bool {
    try object(type, id: id) != nil
  }

  /// Returns a query for all objects of a type.
  ///
  /// - Parameter type: The object type.
  /// - Returns: A query that reads nothing until it runs.
  @inlinable
  public func objects<Object: Storable>(_ type: Object.Type = Object.self) -> Query<Object> {
    Query(store: self, ObjectBox())
  }

  /// Returns the objects of one type. Keep the result: a look-up through it skips the search for
  /// the type.
  ///
  /// - Parameter type: The object type.
  /// - Returns: The collection.
  public func collection<Object: Storable>(
    _ type: Object.Type = Object.self
  ) -> ObjectCollection<Object> {
    ObjectCollection(store: self, kind: kind(type))
  }

  // MARK: Transactions

  /// Runs a transaction over any number of types and cache entries. The transaction commits
  /// completely or not at all.
  ///
  /// ```swift
  /// try objects.write { transaction in
  ///   guard var account = try transaction.object(Account.self, id: id) else { return }
  ///   account.balance -= 10
  ///   try transaction.save(account)
  ///   try transaction.save(Payment(from: id, amount: 10))
  /// }
  /// ```
  ///
  /// The closure runs on one thread under the store's writer lock, so keep it short. Other
  /// processes see the changes when the call returns, and nothing of them before the commit.
  ///
  /// - Parameter body: The closure. An error of the closure rolls the transaction back.
  /// - Returns: The result of the closure.
  /// - Throws: The errors of the closure; ``ObjectError/Code/transactionFailed`` if the closure
  ///   caught the error of a partial write; `StoreError` if the commit fails.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout ObjectTransaction) throws -> R
  ) throws -> R {
    let store = self
    let erasures = TransactionErasures(of: store)
    let result = try storage.write {
      try ObjectTransaction.run(body, in: &$0, of: store, erasures)
    }
    erasures?.report(to: store)
    noteCommit(result)
    return result.value
  }

  /// Runs a transaction on the store's own thread, without blocking a thread of the cooperative
  /// pool.
  ///
  /// - Parameter body: The closure. An error of the closure rolls the transaction back.
  /// - Returns: The result of the closure.
  /// - Throws: The errors of the synchronous overload.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout ObjectTransaction) throws -> R
  ) async throws -> R {
    let store = self
    let erasures = TransactionErasures(of: store)
    let result = try await storage.write {
      try ObjectTransaction.run(body, in: &$0, of: store, erasures)
    }
    erasures?.report(to: store)
    noteCommit(result)
    return result.value
  }
}
