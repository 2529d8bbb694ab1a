// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension Query {
  /// Changes the matching objects in one transaction.
  ///
  /// ```swift
  /// let raised = try store.objects(Car.self).where(\.year < 2000).update { $0.price += 100 }
  /// ```
  ///
  /// Other processes see all changes at once, and no other write takes place between the query and
  /// the changes. Unique indexes are checked after all of them. An object that cannot be decoded is an
  /// error; with ``skippingUnreadable()`` it keeps its state.
  ///
  /// - Parameter change: Changes an object. It must not change the object's id.
  /// - Returns: The number of matching objects.
  /// - Throws: ``ObjectError/Code/identityChanged`` if the id of an object is another after the
  ///   change; the errors of `fetch()`, of `ObjectStore.save(_:children:)` and of the closure. After an error nothing is
  ///   stored.
  /// - Complexity: O(*n*) memory in the number of matching objects.
  @discardableResult
  public func update(
    _ change: @escaping @Sendable (inout Object) throws -> Void
  ) throws -> Int {
    let query = self
    return try store.write { try $0.update(query, change) }
  }

  /// Changes the matching objects in one transaction without blocking a thread of the cooperative
  /// pool.
  ///
  /// - Parameter change: Changes an object. It must not change the object's id.
  /// - Returns: The number of matching objects.
  /// - Throws: The errors of the synchronous overload.
  @discardableResult
  public func update(
    _ change: @escaping @Sendable (inout Object) throws -> Void
  ) async throws -> Int {
    let query = self
    return try await store.write { try $0.update(query, change) }
  }

  /// Changes a property of the matching objects in one transaction, as `update(_:)` does.
  ///
  /// ```swift
  /// try store.objects(Car.self).where(\.year < 2000).update(\.price) { $0 += 100 }
  /// ```
  ///
  /// No object is decoded if the type declares its schema with `@Storable`, no index of the type
  /// contains the property, has a condition or contains a computed property, no property has
  /// observers, and the query has no limit. Fields that this program does not know are kept.
  ///
  /// - Parameters:
  ///   - path: The property.
  ///   - change: Changes the value of an object.
  /// - Returns: The number of matching objects.
  /// - Throws: The errors of `update(_:)`.
  @discardableResult
  public func update<Value: Sendable>(
    _ path: any (WritableKeyPath<Object, Value> & Sendable),
    _ change: @escaping @Sendable (inout Value) throws -> Void
  ) throws -> Int {
    let query = self
    return try store.write { try $0.update(query, path, change) }
  }

  /// Changes a property of the matching objects without blocking a thread of the cooperative pool.
  ///
  /// - Parameters:
  ///   - path: The property.
  ///   - change: Changes the value of an object.
  /// - Returns: The number of matching objects.
  /// - Throws: The errors of `update(_:)`.
  @discardableResult
  public func update<Value: Sendable>(
    _ path: any (WritableKeyPath<Object, Value> & Sendable),
    _ change: @escaping @Sendable (inout Value) throws -> Void
  ) async throws -> Int {
    let query = self
    return try await store.write { try $0.update(query, path, change) }
  }

  /// Sets a property of the matching objects in one transaction, as `update(_:_:)` does.
  ///
  /// ```swift
  /// try store.objects(Car.self).where(\.year < 2000).set(\.isClassic, to: true)
  /// ```
  ///
  /// - Parameters:
  ///   - path: The property.
  ///   - value: The value.
  /// - Returns: The number of matching objects.
  /// - Throws: The errors of `update(_:)`.
  @discardableResult
  public func set<Value: Sendable>(
    _ path: any (WritableKeyPath<Object, Value> & Sendable), to value: Value
  ) throws -> Int {
    try update(path) { $0 = value }
  }

  /// Sets a property of the matching objects without blocking a thread of the cooperative pool.
  ///
  /// - Parameters:
  ///   - path: The property.
  ///   - value: The value.
  /// - Returns: The number of matching objects.
  /// - Throws: The errors of `update(_:)`.
  @discardableResult
  public func set<Value: Sendable>(
    _ path: any (WritableKeyPath<Object, Value> & Sendable), to value: Value
  ) async throws -> Int {
    try await update(path) { $0 = value }
  }
}

extension ObjectTransaction {
  /// Changes the objects of a query.
  ///
  /// - Parameters:
  ///   - query: The query, which sees the writes of this transaction.
  ///   - change: Changes an object. It must not change the object's id.
  /// - Returns: The number of matching objects.
  /// - Throws: The errors of `Query.update(_:)`.
  @discardableResult
  public mutating func update<Object: Storable>(
    _ query: Query<Object>, _ change: (inout Object) throws -> Void
  ) throws -> Int {
    var objects = try fetch(query)
    for position in objects.indices {
      let id = ObjectTypeDescriptor<Object>.bytes(of: objects[position].id)
      try change(&objects[position])
      guard ObjectTypeDescriptor<Object>.bytes(of: objects[position].id) == id else {
        throw ObjectError(
          .identityChanged, type: Object.storedName,
          "The closure changed the id of an object. Delete the object and save it under the new id "
            + "instead.", ids: [String(decoding: id, as: UTF8.self)])
      }
    }
    try save(objects)
    return objects.count
  }
}
