// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
public import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// The objects of one type in one store. Keep the value: a look-up through it skips the search for
/// the type.
///
/// Safe to use from several threads.
public struct ObjectCollection<Object: Storable>: Sendable {
  @usableFromInline let store: ObjectStore
  @usableFromInline let kind: ObjectTypeDescriptor<Object>

  init(store: ObjectStore, kind: ObjectTypeDescriptor<Object>) {
    self.store = store
    self.kind = kind
  }

  /// Returns the object of an id. The result includes every save that any process acknowledged
  /// before the call.
  ///
  /// - Parameter id: The id of the object.
  /// - Returns: The object, or `nil` if it does not exist.
  /// - Throws: ``ObjectError/Code/unreadable`` if the stored object cannot be decoded;
  ///   ``ObjectError/Code/newerSchema``, ``ObjectError/Code/schemaMismatch`` or
  ///   ``ObjectError/Code/migrationInProgress`` if this process cannot read the type; `StoreError`
  ///   if the store cannot be read.
  /// - Complexity: O(log *n*). A hit in memory costs two atomic loads.
  @inlinable
  public func object(id: Object.ID) throws -> Object? {
    try object(text: ObjectTypeDescriptor<Object>.lookUpText(of: id))
  }

  // Inlined so that the caller specialises it: a memory hit costs less than an unspecialised call.
  @inlinable @inline(__always)
  func object(text: String) throws -> Object? {
    if let object = kind.object(in: kind.tier.validValue(text)) { return object }
    return try load(text)
  }

  private enum Found {
    case none
    case same(Object)
    case stored([UInt8], StoredObjectMetadata, ObjectTypeRecord, hash: UInt64, SnapshotView)
  }

  @usableFromInline func load(_ text: String) throws -> Object? {
    try store.erasing(kind) { try loadStored(text) }
  }

  private func loadStored(_ text: String) throws -> Object? {
    let core = try store.storage.openCore("object")
    let id = Array(composed(text).utf8)
    let found: Found
    do {
      found = try core.withSnapshot("object") { snapshot in
        guard let state = try kind.state(snapshot) else { return .none }
        let type = state.record.number
        let hash = snapshot.generation.objectHash(type: type, id: id)
        return try ObjectReading.withObject(
          type: type, id: id, hash: hash, in: snapshot
        ) { head, _, object in
          snapshot.generation.table.touchExactly(hash: hash)
          // The stored version is the cached one: revalidate the cached object for this snapshot.
          if let object = kind.object(
            in: kind.tier.revalidate(
              text, commitVersion: head.commitVersion, readVersion: snapshot.readVersion,
              table: snapshot.generation.table)?.value)
          {
            return .same(object)
          }
          return .stored(object.copied(), head, state.record, hash: hash, snapshot.view)
        } ?? .none
      }
    } catch let damage as DamagedObject {
      throw kind.damaged(damage)
    }
    switch found {
    case .none:
      kind.tier.remove(text)
      kind.forgetRead(id)
      return nil
    case .same(let object): return object
    case .stored(let bytes, let head, let record, let hash, let view):
      let decoded = try id.withRawSpan {
        try kind.decode(bytes, head, id: $0, record, kind.newDecoder(), ObjectBox())
      }
      let object = ObjectTypeDescriptor<Object>.object(of: decoded)
      id.withRawSpan { id in
        bytes.withRawSpan {
          kind.noteRead(object, id: id, $0, ownLayout: kind.ownLayout(record))
        }
      }
      guard kind.sharesInstances else { return object }
      kind.tier.insert(
        decoded, forKey: text,
        from: TierOrigin(
          readVersion: view.readVersion, commitVersion: head.commitVersion, storeHash: hash,
          table: view.generation.table),
        expires: .max, cost: bytes.count + 64)
      return object
    }
  }

  /// A query for all objects of the type.
  @inlinable
  public var objects: Query<Object> { Query(store: store, ObjectBox()) }

  /// Returns the number of objects.
  ///
  /// - Returns: The count in the newest snapshot.
  /// - Throws: ``ObjectError/Code/newerSchema``, ``ObjectError/Code/schemaMismatch`` or
  ///   ``ObjectError/Code/migrationInProgress`` if this process cannot read the type; `StoreError`
  ///   if the store cannot be read.
  /// - Complexity: O(log *n*).
  public func count() throws -> Int {
    try store.erasing(kind) {
      try store.storage.openCore("count").withSnapshot("count") { snapshot in
        guard let state = try kind.state(snapshot) else { return 0 }
        return Int(
          clamping: try ObjectReading.books(state.record.number, snapshot).count)
      }
    }
  }
}
