// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Every write has a twin that suspends: a write waits for the writers of other processes, which a
// thread of Swift's pool must not do. In asynchronous code the compiler chooses it, and asks for `await`.

extension ObjectStore {
  /// Stores an object and its children without blocking a thread of Swift's pool.
  public func save<Object: Storable>(
    _ object: Object, children: ChildPolicy = .overwrite
  ) async throws {
    try await write { transaction in try transaction.save(object, children: children) }
  }

  /// Stores objects and their children without blocking a thread of Swift's pool.
  public func save<Object: Storable>(
    _ objects: [Object], children: ChildPolicy = .overwrite
  ) async throws {
    guard !objects.isEmpty else { return }
    try await write { transaction in try transaction.save(objects, children: children) }
  }

  /// Deletes an object without blocking a thread of Swift's pool.
  ///
  /// - Returns: Whether there was one.
  /// - Throws: ``ObjectError/Code/deletionDenied`` when others refer to it and forbid it.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, id: Object.ID) async throws -> Bool {
    try await write { transaction in try transaction.delete(type, id: id) }
  }

  /// Deletes an object without blocking a thread of Swift's pool.
  @discardableResult
  public func delete<Object: Storable>(_ object: Object) async throws -> Bool {
    try await delete(Object.self, id: object.id)
  }

  /// Deletes objects, all of them or, after an error, none, without blocking a thread of Swift's pool.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete<Object: Storable>(_ objects: [Object]) async throws -> Int {
    try await delete(Object.self, ids: objects.map(\.id))
  }

  /// Deletes the objects of ids, all of them or, after an error, none, without blocking a thread of
  /// Swift's pool.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, ids: [Object.ID]) async throws -> Int {
    try await write { transaction in try transaction.delete(type, ids: ids) }
  }

  /// Deletes everything of a type without blocking a thread of Swift's pool.
  public func deleteAll<Object: Storable>(_ type: Object.Type) async throws {
    try await write { transaction in try transaction.deleteAll(type) }
  }

  /// Deletes everything of all types, in one transaction, without blocking a thread of Swift's pool.
  public func reset() async throws {
    try await write { transaction in try transaction.reset() }
  }

  /// Makes the stored objects of a type exactly these without blocking a thread of Swift's pool.
  public func merge<Object: Storable>(with objects: [Object]) async throws {
    try await merge(objects, into: .all)
  }

  /// Stores objects and deletes those others that fit a predicate, in one transaction, without
  /// blocking a thread of Swift's pool.
  public func merge<Object: Storable>(
    _ objects: [Object], into predicate: Predicate<Object>
  ) async throws {
    let query = self.objects(Object.self).where(predicate)
    try await write { transaction in try transaction.merge(objects, into: query) }
  }
}
