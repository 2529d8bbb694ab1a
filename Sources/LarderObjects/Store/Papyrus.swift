// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// PAPYRUS SPELLINGS
//
// Each member forwards to Larder's own member in one line, so that a program that used Papyrus
// compiles. The article "From Papyrus" lists them. Writes have a synchronous and an asynchronous
// form, like Larder's own: in asynchronous code the compiler selects the asynchronous one.

extension Query {
  /// Returns the objects, in the spelling of Papyrus; see `fetch()`.
  ///
  /// - Returns: The objects in the query's order.
  /// - Throws: The errors of `fetch()`.
  public func execute() throws -> [Object] { try fetch() }

  /// Returns the objects without blocking a thread of the cooperative pool; see `fetch()`.
  ///
  /// - Returns: The objects in the query's order.
  /// - Throws: The errors of `fetch()`.
  public func execute() async throws -> [Object] { try await fetch() }

  /// Sorts by a comparator, in the spelling of Papyrus. Replaces an earlier order.
  ///
  /// The query decodes every object, uses no index for the order, and cannot create page cursors.
  /// Prefer `sorted(by:)`.
  ///
  /// - Parameter precedes: A strict weak order: a closure that returns whether its first argument
  ///   comes before its second.
  /// - Returns: The sorted query.
  public func sort(_ precedes: @escaping @Sendable (Object, Object) -> Bool) -> Query {
    sorted(comparing: [{ precedes($0, $1) ? -1 : precedes($1, $0) ? 1 : 0 }])
  }

  /// Observes the result, in the spelling of Papyrus; see ``observe()``.
  ///
  /// Each element is the complete result, not a single object, and the stream does not end. The
  /// stream coalesces: a slow consumer receives only the newest result.
  ///
  /// - Returns: A stream that finishes with an error if the store is closed.
  public func stream() -> AsyncThrowingStream<[Object], any Error> { observe().stream() }
}

extension ObjectQuery {
  /// Observes the object, in the spelling of Papyrus: its current state, then the newest state
  /// after each change by any process.
  ///
  /// The stream coalesces: a slow consumer receives only the newest state. To continue after a
  /// deletion, use ``observe()``.
  ///
  /// - Returns: A stream that fails with ``ObjectError/Code/notFound`` if the object does not exist
  ///   or when it is deleted.
  public func stream() -> AsyncThrowingStream<Object, any Error> { present.stream() }
}

extension ObjectStore {
  /// Returns a query for all objects of a type, in the spelling of Papyrus.
  ///
  /// - Parameter type: The object type.
  /// - Returns: The query.
  @inlinable
  public func objects<Object: Storable>(type: Object.Type) -> Query<Object> { objects(type) }

  /// Stores objects in one transaction; see `save(_:children:)`.
  ///
  /// - Parameter objects: The objects.
  /// - Throws: The errors of `save(_:children:)`. After an error nothing is stored.
  public func save<Object: Storable>(objects: [Object]) throws { try save(objects) }

  /// Stores objects in one transaction without blocking a thread of the cooperative pool.
  ///
  /// - Parameter objects: The objects.
  /// - Throws: The errors of the synchronous overload.
  public func save<Object: Storable>(objects: [Object]) async throws { try await save(objects) }

  /// Deletes objects in one transaction; see `delete(_:)`.
  ///
  /// - Parameter objects: The objects; only their ids are used.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of `delete(_:id:)`. After an error nothing is deleted.
  @discardableResult
  public func delete<Object: Storable>(objects: [Object]) throws -> Int { try delete(objects) }

  /// Deletes objects in one transaction without blocking a thread of the cooperative pool.
  ///
  /// - Parameter objects: The objects; only their ids are used.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of the synchronous overload.
  @discardableResult
  public func delete<Object: Storable>(objects: [Object]) async throws -> Int {
    try await delete(objects)
  }

  /// Deletes the object of an id; see `delete(_:id:)`.
  ///
  /// - Parameters:
  ///   - id: The id of the object.
  ///   - type: The object type.
  /// - Returns: Whether the object existed.
  /// - Throws: The errors of `delete(_:id:)`.
  @discardableResult
  public func delete<Object: Storable>(id: Object.ID, of type: Object.Type) throws -> Bool {
    try delete(type, id: id)
  }

  /// Deletes the object of an id without blocking a thread of the cooperative pool.
  ///
  /// - Parameters:
  ///   - id: The id of the object.
  ///   - type: The object type.
  /// - Returns: Whether the object existed.
  /// - Throws: The errors of the synchronous overload.
  @discardableResult
  public func delete<Object: Storable>(id: Object.ID, of type: Object.Type) async throws -> Bool {
    try await delete(type, id: id)
  }

  /// Deletes the object of an object query.
  ///
  /// - Parameter query: The query for one object.
  /// - Returns: Whether the object existed.
  /// - Throws: The errors of `delete(_:id:)`.
  @discardableResult
  public func delete<Object: Storable>(_ query: ObjectQuery<Object>) throws -> Bool {
    try delete(Object.self, id: query.id)
  }

  /// Deletes the object of an object query without blocking a thread of the cooperative pool.
  ///
  /// - Parameter query: The query for one object.
  /// - Returns: Whether the object existed.
  /// - Throws: The errors of the synchronous overload.
  @discardableResult
  public func delete<Object: Storable>(_ query: ObjectQuery<Object>) async throws -> Bool {
    try await delete(Object.self, id: query.id)
  }

  /// Deletes the objects of several object queries in one transaction.
  ///
  /// - Parameter queries: The queries, each for one object.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of `delete(_:ids:)`. After an error nothing is deleted.
  @discardableResult
  public func delete<Object: Storable>(objects queries: [ObjectQuery<Object>]) throws -> Int {
    try delete(Object.self, ids: queries.map(\.id))
  }

  /// Deletes the objects of several object queries in one transaction without blocking a thread of
  /// the cooperative pool.
  ///
  /// - Parameter queries: The queries, each for one object.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of the synchronous overload.
  @discardableResult
  public func delete<Object: Storable>(objects queries: [ObjectQuery<Object>]) async throws -> Int {
    try await delete(Object.self, ids: queries.map(\.id))
  }

  /// Stores objects and deletes the other objects that match a closure, in one transaction.
  ///
  /// - Parameters:
  ///   - objects: The objects to store.
  ///   - holds: A closure that returns whether a stored object belongs to the replaced set.
  /// - Throws: The errors of `merge(_:into:)`.
  public func merge<Object: Storable>(
    objects: [Object], into holds: @escaping @Sendable (Object) -> Bool
  ) throws {
    try merge(objects, into: ObjectPredicate(holds))
  }

  /// Stores objects and deletes the other objects that match a closure, in one transaction, without
  /// blocking a thread of the cooperative pool.
  ///
  /// - Parameters:
  ///   - objects: The objects to store.
  ///   - holds: A closure that returns whether a stored object belongs to the replaced set.
  /// - Throws: The errors of the synchronous overload.
  public func merge<Object: Storable>(
    objects: [Object], into holds: @escaping @Sendable (Object) -> Bool
  ) async throws {
    try await merge(objects, into: ObjectPredicate(holds))
  }
}
