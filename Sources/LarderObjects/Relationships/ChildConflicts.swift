// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

// CHILDREN THAT WERE CHANGED HERE AND ELSEWHERE
//
// A save stores the children that the program has changed. A plain save replaces what is stored: the last
// writer wins. A save with a version (`save(_:ifUnchangedSince:)`) throws instead of undoing the change of
// another writer:
//
//     loaded by the parent's      in conflict if the stored child is not in the state that was loaded
//     reference, then changed
//     read in any other way,      in conflict if the stored child was written after the parent was read
//     then changed                (`ObjectVersion.readVersion`), or is in a state that this process has
//                                 neither read (`ReadStates.swift`) nor written
//     never read                  stored: it is new, as far as the program is concerned
//     not changed                 not stored
//
// A value does not tell which of the states it comes from that this process has read. The first part of the
// second rule decides where another thread has read the newest one. It also refuses a change of this
// process after the read of the parent, as the version of the parent itself does.

/// A save with a version.
struct VersionedSave: Sendable {
  /// The commit version of the snapshot in which the parent was read, or `nil` if it must be new.
  let readVersion: UInt64?
}

/// The way in which a child is saved.
struct ChildSaving<Object: Storable> {
  /// The object that was loaded with its parent, changed or unchanged.
  let baseline: Object?
  let policy: ChildPolicy
  let versioned: VersionedSave?
}

/// The value of a transaction, and its commit version if it has written.
struct TransactionResult<Value: Sendable>: Sendable {
  let value: Value
  let commitVersion: UInt64?
  let forgotten: ForgottenReads
}

/// The objects that a transaction has deleted. That they were read is forgotten after its commit: after a rollback
/// they still exist.
struct ForgottenReads: Sendable {
  private var types: [any AnyObjectTypeDescriptor] = []
  private var objects: [(type: any AnyObjectTypeDescriptor, id: [UInt8])] = []

  /// Notes that all objects of a type were deleted.
  mutating func note(_ type: any AnyObjectTypeDescriptor) { types.append(type) }

  /// Notes that an object was deleted.
  mutating func note(_ type: any AnyObjectTypeDescriptor, _ id: [UInt8]) {
    objects.append((type, id))
  }

  fileprivate func forget() {
    for type in types { type.forgetReads() }
    for (type, id) in objects { type.forgetRead(id) }
  }
}

extension ObjectStore {
  /// Notes a transaction that was committed.
  func noteCommit<Value>(_ result: TransactionResult<Value>) {
    ownCommits.note(result.commitVersion)
    result.forgotten.forget()
  }
}

/// The commit versions of the last transactions of one store: what they wrote, no other has.
final class OwnCommits: Sendable {
  private static var count: Int { 1024 }

  private let versions = Mutex<ContiguousArray<UInt64>>([])

  /// Notes a transaction that was committed.
  func note(_ version: UInt64?) {
    guard let version else { return }
    versions.withLock { versions in
      if versions.isEmpty { versions = ContiguousArray(repeating: 0, count: Self.count) }
      versions[Int(truncatingIfNeeded: version) & (Self.count - 1)] = version
    }
  }

  func contains(_ version: UInt64) -> Bool {
    versions.withLock { versions in
      !versions.isEmpty && versions[Int(truncatingIfNeeded: version) & (Self.count - 1)] == version
    }
  }
}

extension ObjectTransaction {
  /// Returns whether a stored object is kept in place of a child: on request, or because the program has read
  /// the child and not changed it.
  ///
  /// - Throws: ``ObjectConflict`` if the save has a version, and the child was changed here and elsewhere.
  func keepsExisting<Object: Storable>(
    _ object: Object, _ kind: ObjectTypeDescriptor<Object>, _ write: ObjectWrite,
    _ record: ObjectTypeRecord, _ saving: ChildSaving<Object>?
  ) throws -> Bool {
    guard let saving else { return false }
    if saving.policy == .insertIfAbsent { return true }
    if saving.baseline != nil || kind.reads.isEmpty { return false }
    let id = write.id.withRawSpan { ReadState.hash($0) }
    if kind.wasRead(id, write.bytes, codec: write.codec, record) { return true }
    if let versioned = saving.versioned, kind.reads.contains(id) {
      try requireKnown(object, id, kind, record, versioned)
    }
    return false
  }

  /// Verifies before a changed child is stored that no other has changed it since it was read.
  private func requireKnown<Object: Storable>(
    _ object: Object, _ id: UInt64, _ kind: ObjectTypeDescriptor<Object>,
    _ record: ObjectTypeRecord, _ save: VersionedSave
  ) throws {
    let identity = ObjectIdentity(
      type: kind.name, id: ObjectTypeDescriptor<Object>.bytes(of: object.id))
    if overlay.hasChanged(identity) { return }
    guard let now = try stored(Object.self, id: object.id) else {
      // The program learns of the deletion now, and may store a new object.
      kind.reads.forget(id)
      throw ObjectConflict(attempted: object, stored: nil)
    }
    let encoded = try encodedAnew(now, kind)
    if encoded == (try kind.encode(object, ReferenceCollector())) { return }
    let isOlder = save.readVersion.map { now.commitVersion <= $0 } ?? true
    let isKnown =
      store.ownCommits.contains(now.commitVersion)
      || kind.wasRead(id, now.bytes, codec: now.codec, record)
      || kind.wasRead(id, encoded, codec: now.codec, record)
    guard isOlder, isKnown else {
      throw ObjectConflict(attempted: object, stored: try versioned(now))
    }
  }

  /// Verifies before a child is stored that was loaded with its parent and changed, that no other has
  /// changed it since it was loaded.
  ///
  /// - Parameter before: The loaded child, as this program encodes it.
  /// - Throws: ``ObjectConflict`` if the save has a version, and another has changed the child.
  func requireUnchanged<Object: Storable>(
    _ object: Object, since before: [UInt8], _ kind: ObjectTypeDescriptor<Object>,
    _ saving: ChildSaving<Object>
  ) throws {
    guard saving.versioned != nil, saving.policy == .overwrite else { return }
    let now = try stored(Object.self, id: object.id)
    if let now, try encodedAnew(now, kind) == before { return }
    throw ObjectConflict(attempted: object, stored: try now.map { try versioned($0) })
  }

  /// Returns a stored object as this program encodes it: another may have stored more fields, or with
  /// another layout.
  private func encodedAnew<Object: Storable>(
    _ stored: StoredObject, _ kind: ObjectTypeDescriptor<Object>
  ) throws -> [UInt8] {
    let object = try kind.decode(stored, ReferenceDecoder(context())).object
    return try kind.encode(object, ReferenceCollector())
  }
}
