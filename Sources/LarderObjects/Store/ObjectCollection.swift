// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
public import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// The objects of one type, as seen by this process. Keep it: looking up is fastest through it.
public struct ObjectCollection<Object: Storable>: Sendable {
  let store: ObjectStore
  @usableFromInline let kind: ObjectTypeDescriptor<Object>

  init(store: ObjectStore, kind: ObjectTypeDescriptor<Object>) {
    self.store = store
    self.kind = kind
  }

  /// The object of an id, or `nil`; never older than the last save any process was told of.
  @inlinable
  public func object(id: Object.ID) throws -> Object? {
    try object(text: ObjectTypeDescriptor<Object>.lookUpText(of: id))
  }

  // Compiled for the type where it is called from: a hit costs less than a call that does not know it.
  @inlinable @inline(__always)
  func object(text: String) throws -> Object? {
    if let object = kind.object(in: kind.tier.hit(text)) { return object }
    return try load(text)
  }

  private enum Found {
    case none
    case same(Object)
    case stored([UInt8], label: UInt64, hash: UInt64, SnapshotView)
  }

  @usableFromInline func load(_ text: String) throws -> Object? {
    let core = try store.storage.openCore("object")
    let id = Array(composed(text).utf8)
    let found: Found
    do {
      found = try core.withObjectSnapshot("object") { transaction, view in
        guard let state = try kind.state(transaction, view) else { return .none }
        let type = state.record.number
        let hash = view.generation.objectHash(type: type, id: id)
        return try ObjectReading.look(
          type: type, id: id, hash: hash, in: view.generation, transaction
        ) { head, _, object in
          view.generation.table.touch(hash: hash)
          // Exactly what was decoded before: its snapshot moves forward.
          if let object = kind.object(
            in: kind.tier.renew(
              text, label: head.label, seal: view.seal, table: view.generation.table))
          {
            return .same(object)
          }
          return .stored(object.copied(), label: head.label, hash: hash, view)
        } ?? .none
      }
    } catch let damage as DamagedObject {
      throw kind.damaged(damage)
    }
    switch found {
    case .none:
      kind.tier.remove(text)
      return nil
    case .same(let object): return object
    case .stored(let bytes, let label, let hash, let view):
      let decoded = try kind.decode(bytes, id: id, kind.newDecoder())
      guard kind.sharesInstances else { return decoded.object }
      kind.tier.file(
        decoded, forKey: text, seal: view.seal, label: label, expires: .max,
        cost: bytes.count + 64, storeHash: hash, table: view.generation.table)
      return decoded.object
    }
  }

  /// All objects, to ask for some of them.
  public var objects: Query<Object> { Query(store: store) }

  /// How many objects there are.
  ///
  /// - Complexity: O(log *n*).
  public func count() throws -> Int {
    try store.storage.openCore("count").withObjectSnapshot("count") { transaction, view in
      guard let state = try kind.state(transaction, view) else { return 0 }
      return Int(
        clamping: try ObjectReading.books(state.record.number, transaction).count)
    }
  }
}
