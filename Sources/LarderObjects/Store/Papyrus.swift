// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE SPELLINGS OF PAPYRUS
//
// Each is one line over Larder's own form, so that a program that used Papyrus compiles; the article
// "From Papyrus" lists them. Writes have two forms each, as Larder's own: in asynchronous code the
// compiler chooses the one that suspends.

extension Query {
  /// The objects, in the spelling of Papyrus; see `fetch()`.
  public func execute() throws -> [Object] { try fetch() }

  /// The objects, in the spelling of Papyrus; see `fetch()`.
  public func execute() async throws -> [Object] { try await fetch() }

  /// Sorts by a comparator, in the spelling of Papyrus, instead of any order before.
  ///
  /// Every object is decoded, no index is used for the order, and there are no pages. Prefer
  /// `sorted(by:)`.
  ///
  /// - Parameter precedes: Whether the first object comes before the second; a strict weak order.
  /// - Returns: The sorted query.
  public func sort(_ precedes: @escaping @Sendable (Object, Object) -> Bool) -> Query {
    sorted(comparing: precedes)
  }

  /// Observes the result, in the spelling of Papyrus; see ``observe()``. This is no cursor over the
  /// objects: each element is the whole result, and the stream does not end.
  ///
  /// Nothing is buffered: a reader that comes late receives the newest state, once.
  public func stream() -> AsyncThrowingStream<[Object], any Error> { observe().stream() }
}

extension ObjectQuery {
  /// Observes the object, in the spelling of Papyrus: its present state first, then the latest after
  /// each change by any process. Fails with ``ObjectError/Code/notFound`` when there is none, or when
  /// it is deleted. ``observe()`` continues then.
  ///
  /// Nothing is buffered: a reader that comes late receives the newest state, once.
  public func stream() -> AsyncThrowingStream<Object, any Error> { present.stream() }
}

extension ObjectStore {
  /// All objects of a type, in the spelling of Papyrus.
  public func objects<Object: Storable>(type: Object.Type) -> Query<Object> { objects(type) }

  /// Stores objects, all of them or, after an error, none.
  public func save<Object: Storable>(objects: [Object]) throws { try save(objects) }

  /// Stores objects, all of them or, after an error, none.
  public func save<Object: Storable>(objects: [Object]) async throws { try await save(objects) }

  /// Deletes objects, all of them or, after an error, none.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete<Object: Storable>(objects: [Object]) throws -> Int { try delete(objects) }

  /// Deletes objects, all of them or, after an error, none.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete<Object: Storable>(objects: [Object]) async throws -> Int {
    try await delete(objects)
  }

  /// Deletes the object of an id.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public func delete<Object: Storable>(id: Object.ID, of type: Object.Type) throws -> Bool {
    try delete(type, id: id)
  }

  /// Deletes the object of an id.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public func delete<Object: Storable>(id: Object.ID, of type: Object.Type) async throws -> Bool {
    try await delete(type, id: id)
  }

  /// Deletes the object that a query names.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public func delete<Object: Storable>(_ query: ObjectQuery<Object>) throws -> Bool {
    try delete(Object.self, id: query.id)
  }

  /// Deletes the object that a query names.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public func delete<Object: Storable>(_ query: ObjectQuery<Object>) async throws -> Bool {
    try await delete(Object.self, id: query.id)
  }

  /// Stores objects and deletes those others for which a closure holds, in one transaction.
  public func merge<Object: Storable>(
    objects: [Object], into holds: @escaping @Sendable (Object) -> Bool
  ) throws {
    try merge(objects, into: Predicate(holds))
  }

  /// Stores objects and deletes those others for which a closure holds, in one transaction.
  public func merge<Object: Storable>(
    objects: [Object], into holds: @escaping @Sendable (Object) -> Bool
  ) async throws {
    try await merge(objects, into: Predicate(holds))
  }
}
