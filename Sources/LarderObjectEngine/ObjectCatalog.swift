// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// THE CATALOG OF TYPES
//
// The catalog is stored in LMDB's unnamed table, with the namespaces:
//
//     t:<name>          CBOR of `ObjectTypeRecord`: the identifier and the declared schema; then
//                       its XXH64
//     c:<identifier>    72 bytes: next sequence, objects, bytes, budget, watched to, all u64;
//                       watch u32; sample u32; most objects u64; is copy u64; XXH64 of the
//                       preceding bytes
//     d:<identifier>    tombstone, one byte: 1 a dropped type, 2 a dropped index; swept in steps
//     m:<name>          CBOR of `ObjectMigrationRecord` (`ObjectMigrationRecord.swift`), and XXH64
//     "numbers"         u32: the next identifier of a type or an index
//
// `<identifier>` is a big-endian u32. Deleting all objects of a type assigns a new identifier to
// the type. The objects are invisible at once, in constant time, and the store's thread sweeps
// them.

/// The stored record of a type.
package struct ObjectTypeRecord: Codable, Sendable, Hashable {
  package struct Index: Codable, Sendable, Hashable {
    package var number: UInt32
    package var name: String
    package var fields: [String]
    package var isUnique: Bool
    /// The description of everything else that determines the keys. A different text means
    /// different keys.
    package var definition: String
    /// The defaults of missing fields on which the keys rest, by the path of a property or the name
    /// of a field; `nil` if the index was created without a declaration of the type.
    package var defaults: [String: String]?
    /// The last sequence whose object is in the index, or `nil` if the index is complete.
    package var builtTo: UInt64?
    /// The revision of the encoding of its keys (`IndexKeyEncoder.revision`), or `nil` for the
    /// first.
    package var keyRevision: UInt32?
    /// The process that made the last step of the build, while the index is incomplete.
    package var builtBy: Int32?
    /// The number of transactions that stored objects without their keys in this index. A step of a
    /// build that read the objects before the last of them is dropped.
    package var deferrals: UInt32?
    /// Whether objects are stored without their keys in this index; their notes name them
    /// (`UnindexedNotes.swift`).
    package var isBehind: Bool?
    /// Whether two objects had one key of this unique index when its build ended. It contains all
    /// keys, so saves are compared with them.
    package var isViolated: Bool?
    /// Whether a program that built this index could not decode all objects. It contains the keys of the
    /// others; notes name the rest, for a program that can (`UnindexedNotes.swift`).
    package var lacksObjects: Bool?
    /// A hash of the declaration that created the index, or `nil` if no Swift type declared it.
    package var declaration: UInt64?
    /// The hashes of the declarations of the same version that this index has replaced. Their programs do not
    /// replace it again.
    package var replaced: [UInt64]?

    package init(
      number: UInt32, name: String, fields: [String], isUnique: Bool, definition: String,
      defaults: [String: String]? = nil, builtTo: UInt64?,
      keyRevision: UInt32? = IndexKeyEncoder.revision
    ) {
      self.number = number
      self.name = name
      self.fields = fields
      self.isUnique = isUnique
      self.definition = definition
      self.defaults = defaults
      self.builtTo = builtTo
      self.keyRevision = keyRevision
    }

    /// Whether every object has its keys in this index that the programs which built it could decode.
    package var hasAllKeys: Bool { builtTo == nil && isBehind != true }

    /// Whether the index has all keys, each of which is one object's if it is unique.
    package var isBuilt: Bool { hasAllKeys && isViolated != true }

    /// Whether a query may use the index: it is built, and every object has its keys in it.
    package var isComplete: Bool { isBuilt && lacksObjects != true }

    /// Whether keys of the current encoding compare with the stored ones.
    package var hasKeysOfToday: Bool { keyRevision == IndexKeyEncoder.revision }
  }

  /// A relationship: its delete rules for the owner and for the target.
  package struct Relation: Codable, Sendable, Hashable {
    /// The coding keys that lead to the property.
    package var path: [String]
    /// The name of the target type.
    package var target: String
    package var onDelete: String
    package var onTargetDelete: String
    /// Whether the relationship follows from the property's type, without a declaration.
    package var isImplied: Bool?

    package init(path: [String], target: String, onDelete: String, onTargetDelete: String) {
      self.path = path
      self.target = target
      self.onDelete = onDelete
      self.onTargetDelete = onTargetDelete
    }
  }

  package var number: UInt32
  package var name: String
  package var version: UInt32
  /// The fingerprint of the declared schema: names and types of fields.
  package var fingerprint: UInt64
  package var indexes: [Index]
  /// The applied migrations, in order.
  package var migrations: [String]
  package var relations: [Relation]?
  /// The fields and their kinds as programs wrote them. Empty if the names are data; `nil` if they
  /// are unknown.
  package var schema: [String]?
  /// The version in which the type was first stored.
  package var born: UInt32?
  /// The version that was declared without a migration, because stored objects remain readable.
  package var raised: UInt32?
  /// The lowest schema version whose programs may read, but not write.
  package var minimumReaderVersion: UInt32?
  /// The version whose program declared the indexes, if a migration reached this version without a
  /// Swift type: the first program of this version may change them.
  package var indexedIn: UInt32?
  /// The migration in progress.
  package var migration: String?
  /// Whether the type has a budget, so that reads by queries count as use.
  package var isBounded: Bool?
  /// The type to which a migration moved the objects. The record remains for older programs.
  package var movedTo: String?
  /// The layouts of the objects, if a program declared the fields of the type.
  package var layouts: ObjectLayouts?

  package init(
    number: UInt32, name: String, version: UInt32, fingerprint: UInt64, indexes: [Index],
    migrations: [String]
  ) {
    self.number = number
    self.name = name
    self.version = version
    self.fingerprint = fingerprint
    self.indexes = indexes
    self.migrations = migrations
  }

  /// The fingerprint of the fields of ``schema``.
  package static func fingerprint(ofSchema lines: [String]) -> UInt64 {
    XXH64.hash(Array(lines.joined(separator: "\n").utf8))
  }

  package static func key(_ name: String) -> [UInt8] {
    let bytes = Array(name.utf8)
    // A name too long for a key of LMDB is hashed; the record contains the complete name.
    guard bytes.count > 400 else { return Array("t:".utf8) + bytes }
    var key = Array("t:".utf8) + bytes.prefix(392)
    key.append(littleEndian: XXH64.hash(bytes))
    return key
  }

  package init?(_ bytes: RawSpan) {
    guard
      let content = ChecksummedRecord.opened(bytes),
      let record = try? CBORCodec().decode(ObjectTypeRecord.self, from: content)
    else { return nil }
    self = record
  }

  package func encoded() throws -> [UInt8] {
    ChecksummedRecord.sealed(try CBORCodec().encode(self))
  }
}

/// The checksum at the end of a record of the catalog.
package enum ChecksummedRecord {
  /// The revision of the location of objects (`ObjectFormat.swift`) and of their ids, as a part of
  /// the checksum. A record of another revision is invalid, because its objects would not be found.
  /// 1: locations by the complete hash; 2: ids by their description; 3: ids by the text of their
  /// cache key; 4: keys of few bytes (`PackedKey.swift`).
  private static let revision: UInt64 = 4

  static func sealed(_ content: [UInt8]) -> [UInt8] {
    var bytes = content
    bytes.append(littleEndian: XXH64.hash(content) &+ revision)
    return bytes
  }

  /// Returns the content, or `nil` if it is damaged.
  static func opened(_ bytes: RawSpan) -> [UInt8]? {
    let end = bytes.byteCount - 8
    guard end >= 0, let content = bytes.slice(0..<end), let check: UInt64 = bytes.integer(at: end),
      XXH64.hash(content) &+ revision == check
    else { return nil }
    return content.copied()
  }

  /// Returns the error for an invalid record: it is damaged, or of an earlier revision.
  package static func flaw<Record: Codable>(
    of type: Record.Type, _ bytes: RawSpan, _ what: String
  ) -> any Error {
    let end = bytes.byteCount - 8
    var isOlder = (try? CBORCodec().decode(type, from: bytes.copied())) != nil
    if end >= 0, let content = bytes.slice(0..<end), let check: UInt64 = bytes.integer(at: end) {
      isOlder = isOlder || check &- XXH64.hash(content) < revision
    }
    guard isOlder else { return LMDBError(.corrupted, during: what) }
    return StoreError(
      .damaged, during: "read",
      "A development version from before the first release wrote \(what), in a form that is no "
        + "longer read. Export the objects with that version (`larder export`), remove the store's "
        + "directory, and import them again.")
  }
}

/// The counters of a type, updated in the same transaction as every change.
package struct ObjectTypeCounters: Sendable, Hashable {
  package var nextSequence: UInt64 = 1
  package var count: UInt64 = 0
  package var bytes: UInt64 = 0
  /// The limit of `bytes`; zero means no limit.
  package var budget: UInt64 = 0
  /// The last sequence whose changes are logged, while a migration copies the type.
  package var watchedTo: UInt64 = 0
  /// The identifier of the index that is the change log, with empty keys; zero means no log.
  package var watch: UInt32 = 0
  /// The identifier of the index by hash from which eviction takes its samples
  /// (`StoreTransaction+ObjectEviction.swift`); zero means none.
  package var sample: UInt32 = 0
  /// The limit of the number of objects; zero means no limit.
  package var mostObjects: UInt64 = 0
  /// Whether the objects are the copies of a migration that is not complete.
  package var isCopy = false

  /// The bytes that count against the budget of the store: copies count from the cutover on, which
  /// drops what they replace.
  package var charged: UInt64 { isCopy ? 0 : bytes }

  /// Whether the type exceeds its budget.
  package var isOverBudget: Bool {
    let most = mostObjects + (Mutant.objectBudgetOffByOne.isActive ? 1 : 0)
    return (budget > 0 && bytes > budget) || (mostObjects > 0 && count > most)
  }

  /// Whether a budget is set.
  package var isBounded: Bool { budget > 0 || mostObjects > 0 }

  package static func key(_ number: UInt32) -> [UInt8] { prefixed("c:", number) }
  package static func droppedKey(_ number: UInt32) -> [UInt8] { prefixed("d:", number) }
  package static var numbersKey: [UInt8] { Array("numbers".utf8) }

  private static func prefixed(_ prefix: String, _ number: UInt32) -> [UInt8] {
    var key = Array(prefix.utf8)
    key.append(littleEndian: number.byteSwapped)
    return key
  }

  package init() {}

  package init?(_ record: RawSpan) {
    guard
      record.byteCount >= 72, let check: UInt64 = record.integer(at: 64),
      XXH64.hash(record.slice(0..<64)!) == check
    else { return nil }
    nextSequence = record.integer(at: 0)!
    count = record.integer(at: 8)!
    bytes = record.integer(at: 16)!
    budget = record.integer(at: 24)!
    watchedTo = record.integer(at: 32)!
    watch = record.integer(at: 40)!
    sample = record.integer(at: 44)!
    mostObjects = record.integer(at: 48)!
    isCopy = record.integer(at: 56)! as UInt64 == 1
  }

  package func encoded() -> [UInt8] {
    var result = [UInt8](repeating: 0, count: 72)
    result.store(nextSequence, at: 0)
    result.store(count, at: 8)
    result.store(bytes, at: 16)
    result.store(budget, at: 24)
    result.store(watchedTo, at: 32)
    result.store(watch, at: 40)
    result.store(sample, at: 44)
    result.store(mostObjects, at: 48)
    result.store(isCopy ? 1 : 0 as UInt64, at: 56)
    result.store(XXH64.hash(Array(result[..<64])), at: 64)
    return result
  }
}
