// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

// OPTIMISTIC LOCKING
//
// A program reads an object, lets a person edit it for minutes, and saves it. A lock cannot last for so
// long, and no save of another process may be lost. So the read returns the version of the
// object, and the save states it. A version is the commit version of the transaction that wrote the
// object, and a hash of its stored bytes: a store that lost its last commits in a crash counts on from
// an earlier commit version.

/// The version of a stored object: every save that changes the object gives it another.
public struct ObjectVersion: Hashable, Sendable, Codable {
  private let commitVersion: UInt64
  private let content: UInt64

  init(_ stored: StoredObject) {
    commitVersion = stored.commitVersion
    content = XXH64.hash(stored.bytes)
  }
}

/// An object and the version in which it was read.
public struct VersionedObject<Object: Storable>: Sendable {
  /// The object.
  public let object: Object
  /// The version of the object.
  public let version: ObjectVersion
}

/// The error for a save of an object that was changed in the meantime.
public struct ObjectConflict<Object: Storable>: Error, CustomStringConvertible {
  /// The object that was not saved.
  public let attempted: Object
  /// The stored object, or `nil` if there is none.
  public let stored: VersionedObject<Object>?

  /// A sentence with the type and the id.
  public var description: String {
    let id = ObjectTypeDescriptor<Object>.text(of: attempted.id)
    let state = stored == nil ? "no longer exists" : "was changed after it was read"
    return "\(Object.storedName) \"\(id)\" \(state), so it was not saved. Apply the change to the "
      + "stored object and save that with its version."
  }
}

extension ObjectSnapshot {
  /// Returns an object with its version.
  ///
  /// - Parameters:
  ///   - type: The type of the object.
  ///   - id: The id.
  /// - Returns: The object, or `nil` if there is none.
  /// - Throws: The errors of `object(_:id:)`.
  public func versionedObject<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> VersionedObject<Object>? {
    let collection = store.collection(type)
    return try reading(type) { snapshot in
      guard let record = try source.record(of: collection.kind, snapshot),
        let found = try collection.stored(
          ObjectTypeDescriptor<Object>.text(of: id), record.number, snapshot)
      else { return nil }
      let decoder = ReferenceDecoder(ReferenceLoader(store: store, source: source))
      let object = try collection.kind.decode(found.stored, decoder).object
      collection.kind.noteRead(object, found.stored)
      return VersionedObject(object: object, version: ObjectVersion(found.stored))
    }
  }
}

extension ObjectStore {
  /// Returns an object with its version, for a later `save(_:ifUnchangedSince:)`.
  ///
  /// ```swift
  /// if var car = try store.versionedObject(Car.self, id: "c1") { try edit(&car) }
  /// ```
  ///
  /// - Parameters:
  ///   - type: The type of the object.
  ///   - id: The id.
  /// - Returns: The object as the last acknowledged save of any process stored it, or `nil` if there
  ///   is none.
  /// - Throws: The errors of `object(_:id:)`.
  public func versionedObject<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> VersionedObject<Object>? {
    try read { try $0.versionedObject(type, id: id) }
  }

  /// Returns an object with its version without blocking a thread of the cooperative pool.
  ///
  /// - Parameters:
  ///   - type: The type of the object.
  ///   - id: The id.
  /// - Returns: The object, or `nil` if there is none.
  /// - Throws: The errors of the synchronous overload.
  public func versionedObject<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) async throws -> VersionedObject<Object>? {
    try await BackgroundExecutor.shared.run { try self.versionedObject(type, id: id) }
  }

  /// Stores an object if no process changed it since it was read.
  ///
  /// ```swift
  /// do {
  ///   try store.save(car, ifUnchangedSince: version)
  /// } catch let conflict as ObjectConflict<Car> {
  ///   print(conflict.stored?.object as Any)
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - object: The object.
  ///   - version: The version from the read, or `nil` if there must be no object of the id.
  ///   - children: The policy for objects that are assigned to references.
  /// - Returns: The version of the saved object, for the next save.
  /// - Throws: ``ObjectConflict`` if the stored object has another version; the errors of
  ///   `save(_:children:)`. After an error nothing is stored.
  @discardableResult
  public func save<Object: Storable>(
    _ object: Object, ifUnchangedSince version: ObjectVersion?, children: ChildPolicy = .overwrite
  ) throws -> ObjectVersion {
    try write { try $0.save(object, ifUnchangedSince: version, children: children) }
  }

  /// Stores an object if no process changed it since it was read, without blocking a thread of the
  /// cooperative pool.
  ///
  /// - Parameters:
  ///   - object: The object.
  ///   - version: The version from the read, or `nil` if there must be no object of the id.
  ///   - children: The policy for objects that are assigned to references.
  /// - Returns: The version of the saved object, for the next save.
  /// - Throws: The errors of the synchronous overload.
  @discardableResult
  public func save<Object: Storable>(
    _ object: Object, ifUnchangedSince version: ObjectVersion?, children: ChildPolicy = .overwrite
  ) async throws -> ObjectVersion {
    try await write { try $0.save(object, ifUnchangedSince: version, children: children) }
  }
}

extension ObjectTransaction {
  /// Returns an object with its version, with the writes of this transaction.
  ///
  /// - Parameters:
  ///   - type: The type of the object.
  ///   - id: The id.
  /// - Returns: The object, or `nil` if there is none.
  /// - Throws: The errors of `object(_:id:)`.
  public func versionedObject<Object: Storable>(
    _ type: Object.Type = Object.self, id: Object.ID
  ) throws -> VersionedObject<Object>? {
    try stored(type, id: id).map {
      VersionedObject(object: try decoded($0), version: ObjectVersion($0))
    }
  }

  /// Stores an object if it was not changed since it was read.
  ///
  /// - Parameters:
  ///   - object: The object.
  ///   - version: The version from the read, or `nil` if there must be no object of the id.
  ///   - children: The policy for objects that are assigned to references.
  /// - Returns: The version of the saved object.
  /// - Throws: ``ObjectConflict`` if the stored object has another version; the errors of
  ///   `save(_:children:)`.
  @discardableResult
  public mutating func save<Object: Storable>(
    _ object: Object, ifUnchangedSince version: ObjectVersion?, children: ChildPolicy = .overwrite
  ) throws -> ObjectVersion {
    let before = try stored(Object.self, id: object.id)
    guard before.map(ObjectVersion.init) == version else {
      throw ObjectConflict(
        attempted: object,
        stored: try before.map {
          VersionedObject(object: try decoded($0), version: ObjectVersion($0))
        })
    }
    try save(object, children: children, isVersioned: true)
    guard let saved = try stored(Object.self, id: object.id) else {
      throw ObjectError(
        .notFound, type: Object.storedName, "The budget of the type evicted the object.",
        ids: [ObjectTypeDescriptor<Object>.text(of: object.id)])
    }
    return ObjectVersion(saved)
  }
}
