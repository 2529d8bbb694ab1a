// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Every write has an asynchronous overload: a write waits for the writers of other processes, and a
// thread of the cooperative pool must not block. In asynchronous code the compiler selects the
// overload and requires `await`.

extension ObjectStore {
  /// Stores an object and its children without blocking a thread of the cooperative pool.
  ///
  /// - Parameters:
  ///   - object: The object.
  ///   - children: The policy for objects that are assigned to references.
  /// - Throws: The errors of the synchronous overload.
  public func save<Object: Storable>(
    _ object: Object, children: ChildPolicy = .overwrite
  ) async throws {
    try await write { transaction in try transaction.save(object, children: children) }
  }

  /// Stores objects and their children in one transaction without blocking a thread of the
  /// cooperative pool.
  ///
  /// - Parameters:
  ///   - objects: The objects.
  ///   - children: The policy for objects that are assigned to references.
  /// - Throws: The errors of the synchronous overload. After an error nothing is stored.
  public func save<Object: Storable>(
    _ objects: [Object], children: ChildPolicy = .overwrite
  ) async throws {
    guard !objects.isEmpty else { return }
    try await write { transaction in try transaction.save(objects, children: children) }
  }

  /// Deletes an object without blocking a thread of the cooperative pool. Applies the delete rules
  /// of relationships.
  ///
  /// - Returns: Whether there was one.
  /// - Throws: ``ObjectError/Code/deletionDenied`` when others refer to it and forbid it.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, id: Object.ID) async throws -> Bool {
    try await write { transaction in try transaction.delete(type, id: id) }
  }

  /// Deletes an object without blocking a thread of the cooperative pool. Applies the delete rules
  /// of relationships.
  ///
  /// - Parameter object: The object; only its id is used.
  /// - Returns: Whether the object existed.
  /// - Throws: The errors of `delete(_:id:)`.
  @discardableResult
  public func delete<Object: Storable>(_ object: Object) async throws -> Bool {
    try await delete(Object.self, id: object.id)
  }

  /// Deletes objects in one transaction without blocking a thread of the cooperative pool.
  ///
  /// - Parameter objects: The objects; only their ids are used.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of the synchronous overload. After an error nothing is deleted.
  @discardableResult
  public func delete<Object: Storable>(_ objects: [Object]) async throws -> Int {
    try await delete(Object.self, ids: objects.map(\.id))
  }

  /// Deletes the objects of several ids in one transaction without blocking a thread of the
  /// cooperative pool.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - ids: The ids of the objects.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of the synchronous overload. After an error nothing is deleted.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, ids: [Object.ID]) async throws -> Int {
    try await write { transaction in try transaction.delete(type, ids: ids) }
  }

  /// Deletes all objects of a type without blocking a thread of the cooperative pool.
  ///
  /// - Parameter type: The object type.
  /// - Throws: The errors of the synchronous overload.
  public func deleteAll<Object: Storable>(_ type: Object.Type) async throws {
    try await write { transaction in try transaction.deleteAll(type) }
  }

  /// Deletes all objects of all types in one transaction without blocking a thread of the
  /// cooperative pool.
  ///
  /// - Throws: The errors of the synchronous overload.
  public func reset() async throws {
    try await write { transaction in try transaction.reset() }
  }

  /// Replaces all objects of a type in one transaction without blocking a thread of the cooperative
  /// pool.
  ///
  /// - Parameter objects: The objects to store. The transaction deletes all others of the type.
  /// - Throws: The errors of the synchronous overload.
  public func merge<Object: Storable>(with objects: [Object]) async throws {
    try await merge(objects, into: .all)
  }

  /// Stores objects and deletes the other objects that match a predicate, in one transaction,
  /// without blocking a thread of the cooperative pool.
  ///
  /// - Parameters:
  ///   - objects: The objects to store.
  ///   - predicate: The predicate that selects the objects to replace.
  /// - Throws: The errors of the synchronous overload.
  public func merge<Object: Storable>(
    _ objects: [Object], into predicate: ObjectPredicate<Object>
  ) async throws {
    let query = self.objects(Object.self).where(predicate)
    try await write { transaction in try transaction.merge(objects, into: query) }
  }
}
