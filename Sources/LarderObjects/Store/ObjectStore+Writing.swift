// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension ObjectStore {
  /// Stores an object, replacing the stored object with the same id. The object is committed when
  /// the call returns; every later read of any process returns it.
  ///
  /// The same transaction stores the objects that are assigned to its references, to any depth.
  /// Objects that were only loaded are not stored. If an id occurs more than once among them, the
  /// object nearest to `object` is stored.
  ///
  /// - Parameters:
  ///   - object: The object.
  ///   - children: The policy for objects that are assigned to references.
  /// - Throws: ``ObjectError/Code/uniqueViolation`` if another object has the same key in a unique
  ///   index; ``ObjectError/Code/unencodable`` if the object cannot be encoded;
  ///   ``ObjectError/Code/notLoaded`` if a reference was assigned while its objects could not be
  ///   loaded; ``ObjectError/Code/tooLarge`` if the object exceeds the budget of its type;
  ///   `StoreError` with the code `valueTooLarge` if it does not fit into the budget of the store;
  ///   ``ObjectError/Code/invalidSchema``, ``ObjectError/Code/newerSchema``,
  ///   ``ObjectError/Code/schemaMismatch`` or ``ObjectError/Code/migrationInProgress`` if the
  ///   declared type cannot be written; `StoreError` if the commit fails.
  public func save<Object: Storable>(
    _ object: Object, children: ChildPolicy = .overwrite
  ) throws {
    try write { transaction in try transaction.save(object, children: children) }
  }

  /// Stores objects and their children in one transaction.
  ///
  /// - Parameters:
  ///   - objects: The objects.
  ///   - children: The policy for objects that are assigned to references.
  /// - Throws: The errors of `save(_:children:)`. After an error nothing is stored.
  public func save<Object: Storable>(
    _ objects: [Object], children: ChildPolicy = .overwrite
  ) throws {
    guard !objects.isEmpty else { return }
    try write { transaction in try transaction.save(objects, children: children) }
  }

  /// Deletes an object and applies the delete rules of relationships, in one transaction.
  ///
  /// - Returns: Whether there was one.
  /// - Throws: ``ObjectError/Code/deletionDenied`` when others refer to it and forbid it.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool {
    try write { transaction in try transaction.delete(type, id: id) }
  }

  /// Deletes an object and applies the delete rules of relationships, in one transaction.
  ///
  /// - Parameter object: The object; only its id is used.
  /// - Returns: Whether the object existed.
  /// - Throws: The errors of `delete(_:id:)`.
  @discardableResult
  public func delete<Object: Storable>(_ object: Object) throws -> Bool {
    try delete(Object.self, id: object.id)
  }

  /// Deletes objects in one transaction. References among them do not deny the deletion.
  ///
  /// - Parameter objects: The objects; only their ids are used.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of `delete(_:id:)`. After an error nothing is deleted.
  @discardableResult
  public func delete<Object: Storable>(_ objects: [Object]) throws -> Int {
    try delete(Object.self, ids: objects.map(\.id))
  }

  /// Deletes the objects of several ids in one transaction. References among them do not deny the
  /// deletion.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - ids: The ids of the objects.
  /// - Returns: The number of objects that existed.
  /// - Throws: The errors of `delete(_:id:)`. After an error nothing is deleted.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, ids: [Object.ID]) throws -> Int {
    try write { transaction in try transaction.delete(type, ids: ids) }
  }

  /// Deletes all objects of a type.
  ///
  /// The objects are invisible to all processes when the call returns; a later sweep frees their
  /// space. If a delete rule concerns the type, the call deletes the objects one by one.
  ///
  /// - Parameter type: The object type.
  /// - Throws: The errors of `delete(_:id:)`.
  /// - Complexity: O(1) in the number of objects, or O(*n* log *n*) if a delete rule concerns the
  ///   type.
  public func deleteAll<Object: Storable>(_ type: Object.Type) throws {
    try write { transaction in try transaction.deleteAll(type) }
  }

  /// Deletes all objects of all types in one transaction. Cache entries in the same store remain.
  ///
  /// The type records with their versions and the names of applied migrations remain, so an older
  /// program still gets ``ObjectError/Code/newerSchema``. Delete rules do not apply, because no
  /// referring object remains.
  ///
  /// - Throws: `StoreError` if the commit fails.
  public func reset() throws {
    try write { transaction in try transaction.reset() }
  }

  /// Replaces all objects of a type in one transaction.
  ///
  /// - Parameter objects: The objects to store. The transaction deletes all others of the type.
  /// - Throws: The errors of `save(_:children:)` and `delete(_:id:)`.
  public func merge<Object: Storable>(with objects: [Object]) throws {
    try merge(objects, into: .all)
  }

  /// Stores objects and deletes the other objects that match a predicate, in one transaction.
  ///
  /// - Parameters:
  ///   - objects: The objects to store.
  ///   - predicate: The predicate that selects the objects to replace.
  /// - Throws: The errors of `save(_:children:)` and `delete(_:id:)`. After an error nothing is
  ///   changed.
  public func merge<Object: Storable>(
    _ objects: [Object], into predicate: ObjectPredicate<Object>
  ) throws {
    let query = self.objects(Object.self).where(predicate)
    try write { transaction in try transaction.merge(objects, into: query) }
  }
}

extension ObjectTransaction {
  /// Stores objects and deletes the others that a query returns.
  mutating func merge<Object: Storable>(_ objects: [Object], into query: Query<Object>) throws {
    let kept = Set(objects.map { ObjectTypeDescriptor<Object>.bytes(of: $0.id) })
    let removed = try ids(of: query).filter {
      !kept.contains(ObjectTypeDescriptor<Object>.bytes(of: $0))
    }
    // Deletes before it saves, so that the unique keys of deleted objects are free.
    try delete(Object.self, ids: removed)
    try save(objects)
  }
}
