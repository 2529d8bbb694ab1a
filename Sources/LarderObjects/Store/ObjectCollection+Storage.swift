// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
public import LarderStorage

extension ObjectCollection where Object.ID: Sendable {
  /// Returns the objects as a storage by id, for compositions.
  ///
  /// ```swift
  /// let cars = objects.collection(Car.self).asStorage().combined(with: CarService())
  /// ```
  ///
  /// A set value is saved as by `save(_:children:)`, and must have the key's id. An update is a transaction among all processes; an object pulled up from a storage behind
  /// is stored only if no process saved or deleted its id meanwhile.
  public func asStorage() -> Storage<Object.ID, Object> {
    let (store, collection) = (store, self)
    let locks = SharedStripedLocks.of(ObjectIdentifier(store.storage.core))
    var result = StorageOperations<Object.ID, Object>(
      read: StorageOperation { try collection.object(id: $0) },
      write: .blocking { item in
        try Self.check(item.value, item.key)
        try Self.write(store, locks) { transaction in try transaction.save(item.value) }
      })
    result.remove = .blocking { id in
      try Self.write(store, locks) { transaction in _ = try transaction.delete(Object.self, id: id)
      }
    }
    result.removeAll = .blocking { _ in
      try Self.write(store, locks) { transaction in try transaction.deleteAll(Object.self) }
    }
    result.keys = .blocking { _ in try collection.objects.fetch().map(\.id) }
    result.update = .blocking { change in
      _ = try store.storage.openCore("update")
      return try locks.take(0) {
        try Self.write(store, nil) { transaction in
          let known = try change.known {
            try transaction.object(Object.self, id: change.key).map { StorageEntry($0) }
          }
          var entry = known
          try change.change(&entry)
          guard let entry else {
            if known != nil { _ = try transaction.delete(Object.self, id: change.key) }
            return nil
          }
          if entry.expires != nil {
            throw StorageError(
              .unsupported, during: "update", "Objects do not expire. Leave `expires` empty.")
          }
          try Self.check(entry.value, change.key)
          try transaction.save(entry.value)
          return entry
        }
      }
    }
    result.fill = .blocking { id in
      let version = try collection.observedVersion(of: id)
      return ConditionalFill(
        commit: .blocking { entry in
          try Self.check(entry.value, id)
          return try Self.write(store, locks) { transaction in
            guard try version.isCurrent(in: transaction.entries) else { return false }
            try transaction.save(entry.value)
            return true
          }
        })
    }
    return Storage(storageName: Object.storedName, operations: result.ordered(by: locks))
  }

  /// A version of an object, used to verify later that no process has saved or deleted the object.
  private struct ObservedVersion: Sendable {
    /// The type identifier, or `nil` if no object of the type was ever stored.
    let type: UInt32?
    var exists: Bool
    let slot: StampSlot
    let view: SnapshotView

    /// Returns whether the object is unchanged. Call it under the writer lock, so that no other
    /// process can stamp the slot.
    func isCurrent(in entries: borrowing StoreTransaction) throws -> Bool {
      guard !exists, entries.generation === view.generation,
        entries.generation.isCurrent(slot, since: view.commitVersion)
      else { return false }
      // `deleteAll` assigns a new type identifier.
      return try entries.objectType(named: Object.storedName)?.number == type
    }
  }

  private func observedVersion(of id: Object.ID) throws -> ObservedVersion {
    let core = try store.storage.openCore("object")
    var version = try core.withSnapshot("object") { snapshot in
      let type = try kind.state(snapshot)?.record.number
      let slot = type.map {
        StampSlot(
          hash: snapshot.generation.objectHash(
            type: $0, id: ObjectTypeDescriptor<Object>.bytes(of: id))
        )
      }
      return ObservedVersion(
        type: type, exists: false, slot: slot ?? .catalog(in: snapshot.generation),
        view: snapshot.view)
    }
    // This read follows the snapshot: a later save is either visible here or has stamped the slot.
    version.exists = try object(id: id) != nil
    return version
  }

  /// Runs a write transaction. Inside another storage's update it acquires the store's key lock
  /// first, so that the wait-for graph detects a deadlock.
  private static func write<Result: Sendable>(
    _ store: ObjectStore, _ locks: StripedLock?,
    _ body: @escaping @Sendable (inout ObjectTransaction) throws -> Result
  ) throws -> Result {
    if let locks, StripedLock.isInsideAny {
      return try locks.take(0) { try write(store, nil, body) }
    }
    // The closure of an update runs under the store's writer lock and cannot wait for it.
    if store.storage.core.isInsideTransaction { throw StorageError.recursiveUpdate }
    return try store.write(body)
  }

  private static func check(_ object: Object, _ id: Object.ID) throws {
    guard
      ObjectTypeDescriptor<Object>.bytes(of: object.id)
        != ObjectTypeDescriptor<Object>.bytes(of: id)
    else { return }
    throw StorageError(
      .unsupported, during: "set",
      "The object with id \(object.id) cannot be stored under the key \(id). Use the object's id."
    )
  }
}
