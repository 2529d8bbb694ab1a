// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// The error for an object whose id belongs to another object.
package struct ObjectIDConflict: Error, Sendable {
  package let id: [UInt8]
  /// The sequence of the other object.
  package let holder: UInt64
}

extension StoreTransaction {
  // MARK: Catalog

  package func migration(named name: String) throws -> ObjectMigrationRecord? {
    try withSnapshot { try ObjectReading.migration(named: name, $0) }
  }

  /// Stores the state of a migration.
  package mutating func putMigration(_ record: ObjectMigrationRecord) throws {
    try transaction.put(
      record.encoded(), forKey: ObjectMigrationRecord.key(record.name), in: .main)
    if let target = record.target { objects[target.number].layouts = nil }
    objects.typeChanges += 1
    force()
    try fault(throwing: .migrationNoted)
  }

  /// Removes the record of a migration that was not applied.
  package mutating func removeMigration(named name: String) throws {
    try transaction.remove(key: ObjectMigrationRecord.key(name), in: .main)
    force()
  }

  /// Marks a migration as applied, permanently.
  package mutating func finishMigration(_ record: ObjectMigrationRecord) throws {
    let known = try withSnapshot { try ObjectReading.migrations($0) }
    var record = record
    record.order = (known.map(\.order).max() ?? 0) + 1
    record.applied = now
    record.target = nil
    try putMigration(record)
  }

  /// Removes a type's record. The caller has dropped its identifiers.
  package mutating func removeObjectType(named name: String) throws {
    try transaction.remove(key: ObjectTypeRecord.key(name), in: .main)
    objects.removeType(named: name)
    objects.typeChanges += 1
    raisesFloor = true
    touchObjectType(0)
  }

  /// Drops a type's identifier and the identifiers of its indexes, with all their records.
  package mutating func dropObjects(of record: ObjectTypeRecord) throws {
    try dropObjectNumber(record.number, isIndex: false)
    for index in record.indexes { try dropObjectNumber(index.number, isIndex: true) }
  }

  // MARK: Watching

  /// Adds an object that was replaced or deleted to the change log, if the type has one.
  mutating func logObjectChange(_ type: UInt32, _ sequence: UInt64) throws {
    let books = try objectBooks(type)
    guard books.watch != 0, sequence <= books.watchedTo, !Mutant.changesUnnoticed.isActive else {
      return
    }
    try transaction.put([], forKey: Self.note(books.watch, sequence), in: generation.indexes)
  }

  private static func note(_ watch: UInt32, _ sequence: UInt64) -> [UInt8] {
    ObjectFormat.indexEntry(ObjectIndexKey(index: watch, bytes: []), sequence: sequence)
  }

  /// Returns the first sequences of a change log.
  package func notedChanges(_ watch: UInt32, limit: Int) throws -> [UInt64] {
    var noted: [UInt64] = []
    try withSnapshot { snapshot in
      try ObjectReading.scanIndex(watch, in: snapshot) { _, sequence in
        noted.append(sequence)
        return noted.count < limit
      }
    }
    return noted
  }

  package func isNoted(_ watch: UInt32, _ sequence: UInt64) throws -> Bool {
    let entry = Self.note(watch, sequence)
    return try transaction.value(forKey: entry, in: generation.indexes) != nil
  }

  package mutating func removeNote(_ watch: UInt32, _ sequence: UInt64) throws {
    try transaction.remove(key: Self.note(watch, sequence), in: generation.indexes)
  }

  /// Returns the number of entries of an index.
  package func countIndexEntries(_ index: UInt32) throws -> UInt64 {
    var count: UInt64 = 0
    try withSnapshot { snapshot in
      try ObjectReading.scanIndex(index, in: snapshot) { _, _ in
        count += 1
        return true
      }
    }
    return count
  }

  // MARK: Moving

  package func objectBatch(
    type: UInt32, from start: UInt64, limit: Int, bytes: Int
  ) throws -> ObjectBatch {
    try withSnapshot {
      try ObjectReading.batch(type: type, from: start, limit: limit, bytes: bytes, in: $0)
    }
  }

  package func movingObject(type: UInt32, sequence: UInt64) throws -> MigratingObject? {
    try withSnapshot { try ObjectReading.moving(type: type, sequence: sequence, in: $0) }
  }

  package func objectSequence(type: UInt32, id: [UInt8]) throws -> UInt64? {
    try withSnapshot { try ObjectReading.sequence(type: type, id: id, in: $0) }
  }

  /// Stores an object under the sequence of its source, in place of the object there.
  ///
  /// - Throws: ``ObjectIDConflict``, ``UniqueKeyConflict``; nothing was changed then.
  package mutating func place(
    _ write: ObjectWrite, type: UInt32, sequence: UInt64, created: Int64
  ) throws {
    if let holder = try objectSequence(type: type, id: write.id), holder != sequence {
      throw ObjectIDConflict(id: write.id, holder: holder)
    }
    for key in write.keys where write.uniqueIndexes.contains(key.index) {
      if let holder = try holder(of: key, except: sequence) {
        throw conflict(key, write.id, heldBy: holder, type)
      }
    }
    try removeObject(type: type, sequence: sequence)
    try link(ObjectFormat.hash(type: type, id: write.id, in: generation), type, sequence)
    for key in write.keys { try add(key, of: sequence) }
    let packed = try packed(write, type: type)
    let payload = ObjectFormat.payload(packed.keys, packed.bytes)
    try put(packed, payload, type, sequence, created: created)
    try changeObjectBooks(type) { $0.nextSequence = max($0.nextSequence, sequence + 1) }
    // The id needs no stamp: no process can have read the new type identifier.
    force()
    fault(.betweenPuts)
  }

  /// Stores an object of a type in use again, with other keys.
  package mutating func replace(
    _ write: ObjectWrite, type: UInt32, sequence: UInt64, created: Int64
  ) throws {
    try place(write, type: type, sequence: sequence, created: created)
    try logObjectChange(type, sequence)
    touch(hash: ObjectFormat.hash(type: type, id: write.id, in: generation))
    touchObjectType(type)
  }

  /// Copies the recency of an object to its copy in another type.
  package func copyRecency(of old: [UInt8], _ source: UInt32, to new: [UInt8], _ target: UInt32) {
    let from = ObjectFormat.hash(type: source, id: old, in: generation)
    let to = ObjectFormat.hash(type: target, id: new, in: generation)
    let tick = generation.table.lastUse(hash: from)
    // The copy may have been used since.
    if tick > generation.table.lastUse(hash: to) {
      generation.table.setLastUse(hash: to, tick: tick)
    }
  }

  /// Removes the object of a sequence, if there is one.
  package mutating func removeObject(type: UInt32, sequence: UInt64) throws {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    guard try transaction.value(forKey: key, in: generation.objects) != nil else { return }
    switch try old(type, sequence) {
    case .found(let header, let content, let keys):
      for key in keys where !Mutant.evictedKeysLeft.isActive { try remove(key, of: sequence) }
      let id = Array(content[..<header.idLength])
      try unlink(ObjectFormat.hash(type: type, id: id, in: generation), type, sequence)
      try removeRecord(type, sequence, header)
    case .damaged(let header):
      try removeDanglingKeys(of: [sequence], type)
      try removeRecord(type, sequence, header)
    }
    force()
  }
}
