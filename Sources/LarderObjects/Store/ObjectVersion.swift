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
// an earlier commit version. The commit version of the snapshot of the read is no part of the object's
// identity: it tells which of its children were changed after the read (`ChildConflicts.swift`).

/// The version of a stored object: every save that changes the object gives it another.
///
/// A version can be encoded, sent to a client, and used in another process. Two versions are equal if
/// they are of one state of the object, also if they were read at different times.
public struct ObjectVersion: Hashable, Sendable, Codable {
  private let commitVersion: UInt64
  private let content: UInt64
  /// The commit version of the snapshot in which the object was read.
  let readVersion: UInt64

  init(_ stored: StoredObject, readVersion: UInt64) {
    commitVersion = stored.commitVersion
    content = XXH64.hash(stored.bytes)
    self.readVersion = readVersion
  }

  /// Returns whether two versions are of one state of an object.
  ///
  /// - Parameters:
  ///   - left: A version.
  ///   - right: Another version.
  /// - Returns: `true` if the object was the same, whenever it was read.
  public static func == (left: ObjectVersion, right: ObjectVersion) -> Bool {
    left.commitVersion == right.commitVersion && left.content == right.content
  }

  /// Feeds the state of the object to a hasher.
  ///
  /// - Parameter hasher: The hasher.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(commitVersion)
    hasher.combine(content)
  }
}

/// An object and the version in which it was read.
public struct VersionedObject<Object: Storable>: Sendable {
  /// The object.
  public let object: Object
  /// The version of the object.
  public let version: ObjectVersion
}

/// The error for a save of an object, or of a child of it, that was changed in the meantime.
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
      return VersionedObject(
        object: object,
        version: ObjectVersion(found.stored, readVersion: snapshot.commitVersion))
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

  /// Stores an object if no process changed it, or a child that is stored with it, since it was read.
  ///
  /// A child that was read and not changed is not stored, and in no conflict. One that was changed is
  /// in conflict if its stored state was written after the object was read, or if this process has
  /// read the child and not the state that is stored now. A child that this process has not read is
  /// stored as a new one.
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
  /// - Throws: ``ObjectConflict`` of the object if it has another version, or of the child's type if a
  ///   child is in conflict: read the object again, and apply the change to what is stored now; the
  ///   errors of `save(_:children:)`. After an error nothing is stored.
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
    try stored(type, id: id).map { try versioned($0) }
  }

  /// Stores an object if it was not changed since it was read.
  ///
  /// - Parameters:
  ///   - object: The object.
  ///   - version: The version from the read, or `nil` if there must be no object of the id.
  ///   - children: The policy for objects that are assigned to references.
  /// - Returns: The version of the saved object.
  /// - Throws: ``ObjectConflict`` if the stored object has another version, or if a child was changed
  ///   here and elsewhere; the errors of `save(_:children:)`.
  @discardableResult
  public mutating func save<Object: Storable>(
    _ object: Object, ifUnchangedSince version: ObjectVersion?, children: ChildPolicy = .overwrite
  ) throws -> ObjectVersion {
    let before = try stored(Object.self, id: object.id)
    guard before.map({ ObjectVersion($0, readVersion: readVersion) }) == version else {
      throw ObjectConflict(attempted: object, stored: try before.map { try versioned($0) })
    }
    try save(object, children: children, VersionedSave(readVersion: version?.readVersion))
    guard let saved = try stored(Object.self, id: object.id) else {
      throw ObjectError(
        .notFound, type: Object.storedName, "The budget of the type evicted the object.",
        ids: [ObjectTypeDescriptor<Object>.text(of: object.id)])
    }
    return ObjectVersion(saved, readVersion: entries.commitVersion)
  }

  /// Returns a stored object with its version.
  func versioned<Object: Storable>(_ stored: StoredObject) throws -> VersionedObject<Object> {
    VersionedObject(
      object: try decoded(stored), version: ObjectVersion(stored, readVersion: readVersion))
  }

  /// The commit version of what this transaction reads: its own once it has written, because another
  /// transaction may get that version if this one is rolled back.
  private var readVersion: UInt64 {
    hasWritten ? entries.commitVersion : entries.commitVersion &- 1
  }
}
