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
  private let kinds = Mutex<[ObjectIdentifier: any Sendable]>([:])

  /// Opens a store of objects, creating it if there is none.
  ///
  /// - Parameters:
  ///   - path: A directory; see ``LarderEngine/SharedStore/init(at:_:)``.
  ///   - options: By default `.durable`: a save is on the disk when it returns.
  ///   - memory: Bounds of the decoded objects in memory, for each type.
  ///   - migrations: Applied before the store is returned; see ``migrate(_:dryRun:progress:)``.
  public init(
    at path: String, _ options: StoreOptions = StoreOptions(durability: .durable),
    memory: CacheOptions = CacheOptions(), migrations: [ObjectMigration] = [],
    progress: (ObjectProgress) -> Void = { _ in }
  ) throws {
    storage = try SharedStore(at: path, options)
    self.options = memory
    if !migrations.isEmpty { try migrate(migrations, progress: progress) }
  }

  /// Stores objects in a store that is open.
  public init(_ storage: SharedStore, memory: CacheOptions = CacheOptions()) {
    self.storage = storage
    self.options = memory
  }

  /// Closes the store; see ``LarderEngine/SharedStore/close()``.
  public func close() { storage.close() }

  func kind<Object: Storable>(_ type: Object.Type) -> Kind<Object> {
    kinds.withLock { kinds in
      let key = ObjectIdentifier(type)
      if let kind = kinds[key] as? Kind<Object> { return kind }
      let kind = Kind<Object>(core: storage.core, options: options)
      kinds[key] = kind
      return kind
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

  // MARK: Writing

  /// Stores an object, replacing the one of its id; it is committed when the call returns.
  public func save<Object: Storable>(_ object: Object) throws {
    try write { transaction in try transaction.save(object) }
  }

  /// Stores objects, all of them or, after an error, none.
  public func save<Object: Storable>(_ objects: [Object]) throws {
    guard !objects.isEmpty else { return }
    try write { transaction in
      for object in objects { try transaction.save(object) }
    }
  }

  /// Stores an object without blocking a thread of Swift's pool.
  public func save<Object: Storable>(_ object: Object) async throws {
    try await write { transaction in try transaction.save(object) }
  }

  /// Stores objects without blocking a thread of Swift's pool.
  public func save<Object: Storable>(_ objects: [Object]) async throws {
    guard !objects.isEmpty else { return }
    try await write { transaction in
      for object in objects { try transaction.save(object) }
    }
  }

  /// Deletes an object.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool {
    try write { transaction in try transaction.delete(type, id: id) }
  }

  /// Deletes an object.
  @discardableResult
  public func delete<Object: Storable>(_ object: Object) throws -> Bool {
    try delete(Object.self, id: object.id)
  }

  /// Deletes objects, all of them or, after an error, none.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, ids: [Object.ID]) throws -> Int {
    try write { transaction in
      try ids.reduce(0) { try $0 + (transaction.delete(type, id: $1) ? 1 : 0) }
    }
  }

  /// Deletes everything of a type, at once; the room is given back by and by.
  public func deleteAll<Object: Storable>(_ type: Object.Type) throws {
    try write { transaction in try transaction.deleteAll(type) }
  }

  /// Makes the stored objects of a type exactly these: others are deleted, in one transaction.
  public func merge<Object: Storable>(with objects: [Object]) throws {
    try merge(objects, into: .all)
  }

  /// Stores objects and deletes those others that fit a predicate, in one transaction.
  public func merge<Object: Storable>(
    _ objects: [Object], into predicate: Predicate<Object>
  ) throws {
    let query = self.objects(Object.self).where(predicate)
    try write { transaction in
      let kept = Set(objects.map { "\($0.id)" })
      for object in try transaction.fetch(query) where !kept.contains("\(object.id)") {
        try transaction.delete(Object.self, id: object.id)
      }
      for object in objects { try transaction.save(object) }
    }
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
