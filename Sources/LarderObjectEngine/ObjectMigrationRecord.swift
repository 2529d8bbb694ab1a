// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// MIGRATIONS IN THE CATALOG
//
//     m:<name>   CBOR of `ObjectMigrationRecord`, permanent once it is applied
//
// While objects are copied, the record contains the new type, under identifiers that no other
// record names, and the progress of the copy. Every transaction reads the record again under the
// writer lock: any process may take the next step, and no step is taken twice.
//
// During the copy, the old type is read and written as before. The counters of its identifier
// record the progress of the copy (`watchedTo`) and the change log (`watch`, the identifier of an
// index). A transaction that replaces or deletes an object up to `watchedTo` adds the object's
// sequence to that index. Later objects are copied later anyway. The transaction that finds nothing
// left to copy and an empty log is the cutover: it assigns the name to the new identifiers.

/// The state of a migration.
package struct ObjectMigrationRecord: Codable, Sendable, Hashable {
  package var name: String
  /// Its position among the applied migrations, from 1; zero while it is in progress.
  package var order: UInt64
  /// The time at which it was applied, in milliseconds since 1970.
  package var applied: Int64
  /// The identifier of the type that is copied.
  package var source: UInt32
  /// The new type, while it is being copied.
  package var target: ObjectTypeRecord?
  /// The identifier of the index that logs changes of the source.
  package var watch: UInt32
  /// The first sequence that has not been copied.
  package var next: UInt64
  package var done: UInt64
  package var dropped: UInt64
  package var damaged: UInt64

  package init(name: String, source: UInt32 = 0) {
    self.name = name
    self.source = source
    (order, applied, watch, next, done, dropped, damaged) = (0, 0, 0, 1, 0, 0, 0)
  }

  package var isApplied: Bool { order != 0 }

  static let prefix = Array("m:".utf8)

  package static func key(_ name: String) -> [UInt8] {
    let bytes = Array(name.utf8)
    guard bytes.count > 400 else { return prefix + bytes }
    var key = prefix + bytes.prefix(392)
    key.append(littleEndian: XXH64.hash(bytes))
    return key
  }

  package init?(_ bytes: RawSpan) {
    guard
      let content = ChecksummedRecord.opened(bytes),
      let record = try? CBORCodec().decode(ObjectMigrationRecord.self, from: content)
    else { return nil }
    self = record
  }

  package func encoded() throws -> [UInt8] {
    ChecksummedRecord.sealed(try CBORCodec().encode(self))
  }
}

/// An object that is copied to another type identifier.
package struct MigratingObject: Sendable {
  package let stored: StoredObject
  /// The index keys that its record owns.
  package let keys: [ObjectIndexKey]
}

/// Consecutive objects of a type.
package struct ObjectBatch: Sendable {
  package var objects: [MigratingObject] = []
  package var damaged: [DamagedObject] = []
  /// The last sequence that was read.
  package var last: UInt64?
  package var isAtEnd = true
}

extension ObjectReading {
  /// Returns the stored migrations, the applied ones in their order.
  package static func migrations(
    _ snapshot: borrowing Snapshot
  ) throws -> [ObjectMigrationRecord] {
    var result: [ObjectMigrationRecord] = []
    var cursor = try Cursor(over: .main, in: snapshot.transaction)
    var more = try cursor.move(atLeast: ObjectMigrationRecord.prefix)
    while more {
      guard cursor.currentKey.slice(0..<2)?.equals(ObjectMigrationRecord.prefix) ?? false else {
        break
      }
      if let record = ObjectMigrationRecord(cursor.currentValue) { result.append(record) }
      more = try cursor.moveToNext()
    }
    return result.sorted { ($0.order &- 1, $0.name) < ($1.order &- 1, $1.name) }
  }

  package static func migration(
    named name: String, _ snapshot: borrowing Snapshot
  ) throws -> ObjectMigrationRecord? {
    let key = ObjectMigrationRecord.key(name)
    guard let bytes = try snapshot.transaction.value(forKey: key, in: .main) else { return nil }
    guard let record = ObjectMigrationRecord(bytes) else {
      throw ChecksummedRecord.flaw(
        of: ObjectMigrationRecord.self, bytes, "the record of the migration \"\(name)\"")
    }
    return record
  }

  /// Returns objects of a type with their index keys.
  ///
  /// - Parameters:
  ///   - limit: The maximum number of objects.
  ///   - bytes: The size after which no further object is read.
  package static func batch(
    type: UInt32, from start: UInt64, limit: Int, bytes: Int, in snapshot: borrowing Snapshot
  ) throws -> ObjectBatch {
    var batch = ObjectBatch()
    var size = 0
    var cursor = try Cursor(over: snapshot.generation.objects, in: snapshot.transaction)
    var more = try cursor.move(atLeast: ObjectFormat.objectKey(type: type, sequence: max(start, 1)))
    while more {
      guard let sequence = ObjectFormat.sequence(ofObjectKey: cursor.currentKey, type: type) else {
        return batch
      }
      if batch.objects.count + batch.damaged.count >= limit || size >= bytes {
        batch.isAtEnd = false
        return batch
      }
      batch.last = sequence
      do {
        let moving = try moving(cursor.currentValue, type, sequence, snapshot)
        size += moving.stored.bytes.count + moving.stored.id.count
        batch.objects.append(moving)
      } catch let damage as DamagedObject {
        batch.damaged.append(damage)
      }
      more = try cursor.moveToNext()
    }
    return batch
  }

  /// Returns an object with its index keys.
  package static func moving(
    type: UInt32, sequence: UInt64, in snapshot: borrowing Snapshot
  ) throws -> MigratingObject? {
    guard let record = try snapshot.objectRecord(type: type, sequence: sequence) else {
      return nil
    }
    return try moving(record, type, sequence, snapshot)
  }

  private static func moving(
    _ record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> MigratingObject {
    let keys = try indexKeys(of: record, type, sequence, snapshot)
    return MigratingObject(stored: try object(in: record, type, sequence, snapshot), keys: keys)
  }
}

extension MigratingObject {
  /// Creates the object that a write would store in place of `old`.
  package init(_ write: ObjectWrite, replacing old: StoredObject) {
    stored = StoredObject(
      sequence: old.sequence, id: write.id, bytes: write.bytes, codec: write.codec,
      version: write.version, commitVersion: old.commitVersion, created: old.created)
    keys = write.keys
  }
}
