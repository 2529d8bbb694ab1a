// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension ObjectStore {
  /// Stores an object, replacing the one of its id; it is committed when the call returns.
  ///
  /// Objects that were assigned to its references are stored with it, in the same transaction, to any
  /// depth; those that were merely loaded are not. Where one id occurs more than once among them, the
  /// object nearest to the one saved is stored.
  public func save<Object: Storable>(
    _ object: Object, children: ChildPolicy = .overwrite
  ) throws {
    try write { transaction in try transaction.save(object, children: children) }
  }

  /// Stores objects and their children, all of them or, after an error, none.
  public func save<Object: Storable>(
    _ objects: [Object], children: ChildPolicy = .overwrite
  ) throws {
    guard !objects.isEmpty else { return }
    try write { transaction in try transaction.save(objects, children: children) }
  }

  /// Deletes an object, and what the rules of its relationships delete with it.
  ///
  /// - Returns: Whether there was one.
  /// - Throws: ``ObjectError/Code/deletionDenied`` when others refer to it and forbid it.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool {
    try write { transaction in try transaction.delete(type, id: id) }
  }

  /// Deletes an object, and what the rules of its relationships delete with it.
  @discardableResult
  public func delete<Object: Storable>(_ object: Object) throws -> Bool {
    try delete(Object.self, id: object.id)
  }

  /// Deletes objects, all of them or, after an error, none. References among them forbid nothing.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete<Object: Storable>(_ objects: [Object]) throws -> Int {
    try delete(Object.self, ids: objects.map(\.id))
  }

  /// Deletes the objects of ids, all of them or, after an error, none. References among them forbid
  /// nothing.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func delete<Object: Storable>(_ type: Object.Type, ids: [Object.ID]) throws -> Int {
    try write { transaction in try transaction.delete(type, ids: ids) }
  }

  /// Deletes everything of a type; at once, the room being given back by and by, unless rules of
  /// relationships have to be looked after.
  public func deleteAll<Object: Storable>(_ type: Object.Type) throws {
    try write { transaction in try transaction.deleteAll(type) }
  }

  /// Deletes everything of all types, in one transaction; entries of caches in the same store stay.
  ///
  /// The types stay declared, with their versions, and so do the names of migrations that were applied:
  /// an older program is refused as before.
  public func reset() throws {
    try write { transaction in try transaction.reset() }
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
    try write { transaction in try transaction.merge(objects, into: query) }
  }
}

extension ObjectTransaction {
  /// Stores objects and deletes the others that a query finds.
  mutating func merge<Object: Storable>(_ objects: [Object], into query: Query<Object>) throws {
    let kept = Set(objects.map { ObjectTypeDescriptor<Object>.bytes(of: $0.id) })
    let gone = try fetch(query).map(\.id).filter {
      !kept.contains(ObjectTypeDescriptor<Object>.bytes(of: $0))
    }
    // First, so that their keys of unique indexes are free.
    try delete(Object.self, ids: gone)
    try save(objects)
  }
}
