// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
internal import LarderCoding
public import LarderEngine
internal import Synchronization

/// Stores values of your types as they are, shared by all processes of the machine.
///
/// ```swift
/// let objects = try ObjectStore(at: "/var/lib/myapp/objects")
/// try objects.save(Car(id: "S", model: "S", year: 2022))
/// let car = try objects.object(Car.self, id: "S")
/// let recent = try objects.objects(Car.self).where(\.year >= 2020).sorted(by: \.model).fetch()
/// ```
///
/// What one process has saved when the call returns, the next read of any process sees. Several
/// stores may be open over one path, in one process or in many.
public final class ObjectStore: Sendable {
  /// The store below, for cache entries beside the objects.
  public let storage: SharedStore
  private let options: CacheOptions
  private let kinds = Mutex<[ObjectIdentifier: any AnyObjectTypeDescriptor]>([:])
  /// For deletions, which ask all types for rules.
  let catalog = CatalogCache()

  /// The directory of a store that is opened without a path: `$XDG_DATA_HOME/larder/objects`, else
  /// `~/.local/share/larder/objects`; the application support directory on Apple systems. All programs
  /// of the user share it: types are told apart by their stored names, which contain the module.
  public static var defaultPath: String { StoreDirectory.defaultObjectPath }

  /// Opens a store of objects, creating it if there is none.
  ///
  /// - Parameters:
  ///   - path: A directory; see ``/LarderEngine/SharedStore/init(at:_:)``. Without it,
  ///     ``defaultPath``.
  ///   - options: By default `.durable`: a save is on the disk when it returns.
  ///   - memory: Bounds of the decoded objects in memory, for each type.
  ///   - migrations: Applied before the store is returned; see ``migrate(_:dryRun:progress:)``.
  ///   - progress: Called after each step of a migration.
  public init(
    at path: String? = nil, _ options: StoreOptions = StoreOptions(durability: .durable),
    memory: CacheOptions = CacheOptions(), migrations: [ObjectMigration] = [],
    progress: (ObjectProgress) -> Void = { _ in }
  ) throws {
    storage = try SharedStore(at: path ?? Self.defaultPath, options)
    self.options = memory
    if !migrations.isEmpty { try migrate(migrations, progress: progress) }
  }

  /// Stores objects in a store that is open.
  public init(_ storage: SharedStore, memory: CacheOptions = CacheOptions()) {
    self.storage = storage
    self.options = memory
  }

  /// Closes the store; see ``/LarderEngine/SharedStore/close()``.
  public func close() { storage.close() }

  func kind<Object: Storable>(_ type: Object.Type) -> ObjectTypeDescriptor<Object> {
    // The next step is the error; a thread of the parent may have held the lock.
    if storage.isForkedChild { return ObjectTypeDescriptor<Object>(store: self, options: options) }
    return kinds.withLock { kinds in
      let key = ObjectIdentifier(type)
      if let kind = kinds[key] as? ObjectTypeDescriptor<Object> { return kind }
      let kind = ObjectTypeDescriptor<Object>(store: self, options: options)
      kinds[key] = kind
      return kind
    }
  }

  /// What is known of a stored type, if this process has used it with this store. A process that
  /// migrates knows the type in several versions.
  func kind(of record: ObjectTypeRecord) -> (any AnyObjectTypeDescriptor)? {
    kinds.withLock { kinds in
      let known = kinds.values.filter { $0.name == record.name }
      return known.first { $0.version == record.version } ?? known.max { $0.version < $1.version }
    }
  }

  // MARK: Reading

  /// The object of an id, or `nil`.
  ///
  /// It is never older than the last save any process was told of when the call began.
  ///
  /// - Throws: ``ObjectError/Code/unreadable`` when what is stored does not decode.
  /// - Complexity: O(log *n*); an object in memory that nobody has changed costs two loads.
  public func object<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> Object? {
    try collection(type).object(id: id)
  }

  /// Whether there is an object of an id.
  public func contains<Object: Storable>(
    _ type: Object.Type, id: Object.ID
  ) throws -> Bool {
    try object(type, id: id) != nil
  }

  /// All objects of a type, to ask for some of them.
  public func objects<Object: Storable>(_ type: Object.Type = Object.self) -> Query<Object> {
    Query(store: self)
  }

  /// The objects of one type: looking up ids is fastest through what this returns, kept.
  public func collection<Object: Storable>(
    _ type: Object.Type = Object.self
  ) -> ObjectCollection<Object> {
    ObjectCollection(store: self, kind: kind(type))
  }

  // MARK: Transactions

  /// Runs a transaction over any number of types, and cache entries: all of it or nothing.
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
  /// The closure runs on one thread, under the store's writer lock: keep it short.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout ObjectTransaction) throws -> R
  ) throws -> R {
    let store = self
    return try storage.write { try ObjectTransaction.run(body, in: &$0, of: store) }
  }

  /// Runs a transaction on the store's own thread, so that no thread of Swift's pool waits.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout ObjectTransaction) throws -> R
  ) async throws -> R {
    let store = self
    return try await storage.write { try ObjectTransaction.run(body, in: &$0, of: store) }
  }
}
