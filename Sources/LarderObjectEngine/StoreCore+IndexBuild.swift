// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderSystem

extension StoreCore {
  private func indexBuildHash(_ type: String) -> UInt64 {
    XXH64.hash(Array("larder index build \(type)".utf8))
  }

  /// Acquires the lock under which one process builds the indexes of a type, without waiting.
  ///
  /// The lock only saves the work of building the same entries twice: each step is a transaction
  /// that checks where the build is. The kernel releases the lock when its holder exits.
  ///
  /// - Parameter type: The stored name of the type.
  /// - Returns: Whether this process holds the lock now.
  package func tryLockIndexBuild(of type: String) throws -> Bool {
    do {
      return try leases.tryLock(hash: indexBuildHash(type))
    } catch {
      throw StoreError(wrapping: error, during: "build an index", path: directory.path)
    }
  }

  /// Releases the lock of ``tryLockIndexBuild(of:)``.
  package func unlockIndexBuild(of type: String) { leases.unlock(hash: indexBuildHash(type)) }
}

extension StoreTransaction {
  /// Replaces the keys that a stored object has in some indexes.
  ///
  /// An object that was saved after it was read keeps the keys it was saved with: they contain
  /// those of these indexes, or the notes for them (`UnindexedNotes.swift`).
  ///
  /// - Parameters:
  ///   - keys: The keys in `indexes`.
  ///   - indexes: The identifiers of the indexes.
  ///   - notes: The notes for these indexes, which the object loses.
  ///   - stored: The object, as it was read in this generation.
  ///   - type: The identifier of the type.
  /// - Throws: ``ObjectTooLarge``; nothing of the object is changed then.
  package mutating func setIndexKeys(
    _ keys: [ObjectIndexKey], in indexes: Set<UInt32>, settling notes: [ObjectIndexKey],
    of stored: StoredObject, type: UInt32
  ) throws {
    guard case .found(let header, _, let old) = try old(type, stored.sequence),
      header.commitVersion == stored.commitVersion
    else { return }
    let write = ObjectWrite(
      id: stored.id, bytes: stored.bytes, codec: stored.codec, version: stored.version,
      keys: old.filter { !indexes.contains($0.index) && !notes.contains($0) } + keys,
      uniqueIndexes: [])
    _ = try save(write, type: type, since: stored.created)
  }

  /// Stores an object whose keys in some indexes a program makes later. An object that is stored
  /// already, with the same fields, keeps the keys it has in them.
  ///
  /// - Parameters:
  ///   - write: The object, with its keys in all other indexes.
  ///   - deferred: The identifiers of the indexes; see ``markIncomplete(_:of:after:)``.
  ///   - type: The identifier of the type.
  ///   - keepsExisting: Whether a stored object of the identifier is kept.
  /// - Throws: ``UniqueKeyConflict`` and ``ObjectTooLarge``; nothing of the object is changed then.
  package mutating func save(
    _ write: ObjectWrite, deferring deferred: Set<UInt32>, type: UInt32, keepsExisting: Bool
  ) throws -> SaveOutcome {
    try save(write, type: type, keepsExisting: keepsExisting) { stored, keys, write in
      guard !deferred.isEmpty, stored.equals(write.bytes) else { return }
      write.keys.removeAll { deferred.contains($0.index) }
      write.keys += keys.filter { deferred.contains($0.index) }
    }
  }

  /// Leaves the keys of objects after a sequence to the build of their indexes.
  ///
  /// - Parameters:
  ///   - indexes: The identifiers of the indexes.
  ///   - record: The record of the type, as it is stored.
  ///   - sequence: All objects up to this one have the keys that they had before.
  package mutating func markIncomplete(
    _ indexes: Set<UInt32>, of record: ObjectTypeRecord, after sequence: UInt64
  ) throws {
    guard !indexes.isEmpty else { return }
    var record = record
    for position in record.indexes.indices
    where indexes.contains(record.indexes[position].number) {
      record.indexes[position].builtTo = min(record.indexes[position].builtTo ?? .max, sequence)
      record.indexes[position].deferrals = (record.indexes[position].deferrals ?? 0) &+ 1
    }
    try putObjectType(record)
  }
}
