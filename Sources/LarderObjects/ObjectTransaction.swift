// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

/// A transaction over objects of any number of types.
public struct ObjectTransaction: ~Copyable {
  /// The transaction below, for cache entries in the same commit.
  public var entries: StoreTransaction
  let store: ObjectStore

  static func run<R>(
    _ body: (inout ObjectTransaction) throws -> R, in entries: inout StoreTransaction,
    of store: ObjectStore
  ) throws -> R {
    var transaction = ObjectTransaction(entries: entries, store: store)
    let result = Result { try body(&transaction) }
    entries = transaction.entries
    return try result.get()
  }

  /// The object of an id as this transaction sees it: with its own writes.
  public func object<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> Object? {
    let kind = store.kind(type)
    guard let record = try entries.objectType(named: kind.name) else { return nil }
    try kind.requireReadable(record)
    do {
      let stored = try entries.object(
        type: record.number, id: Kind<Object>.bytes(of: id))
      return try stored.map(kind.decode)
    } catch let damage as DamagedObject {
      throw kind.damaged(damage)
    }
  }

  /// Stores an object, replacing the one of its id.
  ///
  /// - Throws: ``ObjectError/Code/keyTaken`` when a unique index forbids it; let it end the
  ///   transaction.
  public mutating func save<Object: Storable>(_ object: Object) throws {
    let kind = store.kind(Object.self)
    let record = try kind.prepare(&entries)
    let write = try kind.write(object, record)
    try kind.requireSameSchema(write.bytes, record, &entries)
    do {
      _ = try entries.save(write, type: record.number)
    } catch let error as ObjectKeyTaken {
      throw kind.taken(error, record)
    }
  }

  /// Deletes an object.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public mutating func delete<Object: Storable>(
    _ type: Object.Type, id: Object.ID
  ) throws -> Bool {
    let record = try store.kind(type).prepare(&entries)
    return try entries.delete(type: record.number, id: Kind<Object>.bytes(of: id))
  }

  /// Deletes everything of a type.
  public mutating func deleteAll<Object: Storable>(_ type: Object.Type) throws {
    let kind = store.kind(type)
    var record = try kind.prepare(&entries)
    let budget = try entries.objectBooks(record.number).budget
    try entries.dropObjectNumber(record.number, isIndex: false)
    record.number = try entries.newObjectNumber()
    for position in record.indexes.indices {
      try entries.dropObjectNumber(record.indexes[position].number, isIndex: true)
      record.indexes[position].number = try entries.newObjectNumber()
      record.indexes[position].builtTo = nil
    }
    try entries.changeObjectBooks(record.number) { $0.budget = budget }
    try entries.putObjectType(record)
  }

  /// The objects a query wants, as this transaction sees them.
  public func fetch<Object: Storable>(_ query: Query<Object>) throws -> [Object] {
    let kind = store.kind(Object.self)
    guard let record = try entries.objectType(named: kind.name) else { return [] }
    try kind.requireReadable(record)
    let run = QueryRun(kind: kind, query: query, record: record)
    return try entries.withReading { try run.objects(entries.generation, $0) }
  }
}
