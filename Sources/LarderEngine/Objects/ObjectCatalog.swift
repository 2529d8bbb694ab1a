// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderLMDB
internal import LarderSystem

// THE CATALOG OF TYPES
//
// In LMDB's unnamed table, beside the namespaces:
//
//     t:<name>          CBOR of `ObjectTypeRecord`: the number, the schema as it was declared; and
//                       its XXH64
//     c:<number>        64 bytes: next sequence, objects, bytes, budget, watched to, all u64;
//                       watch u32; sample u32; most objects u64; XXH64 of what stands before it
//     d:<number>        one byte: 1 a type, 2 an index whose number is given up; swept bit by bit
//     m:<name>          CBOR of `ObjectMigrationRecord` (`ObjectMigrationRecord.swift`), and XXH64
//     "numbers"         u32: the next number of a type or an index
//
// `<number>` is a big-endian u32. Deleting everything of a type gives the type a new number: all is
// gone at once, whatever there was, and swept by the store's thread.

/// What is stored about a type.
package struct ObjectTypeRecord: Codable, Sendable, Hashable {
  package struct Index: Codable, Sendable, Hashable {
    package var number: UInt32
    package var name: String
    package var fields: [String]
    package var isUnique: Bool
    /// What else makes the keys what they are; another text means other keys.
    package var definition: String
    /// Objects up to this sequence are in the index; `nil`: all are.
    package var builtTo: UInt64?
    /// The revision of the encoding its keys have (`IndexKeyEncoder.revision`); `nil`: the first.
    package var keyRevision: UInt32?
    /// The process that made the last step of the build, while the index is incomplete.
    package var builtBy: Int32?
    /// The number of transactions that stored objects without their keys in this index. A step of a
    /// build that read the objects before the last of them is dropped.
    package var deferrals: UInt32?

    package init(
      number: UInt32, name: String, fields: [String], isUnique: Bool, definition: String,
      builtTo: UInt64?, keyRevision: UInt32? = IndexKeyEncoder.revision
    ) {
      self.number = number
      self.name = name
      self.fields = fields
      self.isUnique = isUnique
      self.definition = definition
      self.builtTo = builtTo
      self.keyRevision = keyRevision
    }

    /// Whether keys that are made now compare with those it has.
    package var hasKeysOfToday: Bool { keyRevision == IndexKeyEncoder.revision }
  }

  /// What becomes of objects when those they refer to are deleted, or the other way round.
  package struct Relation: Codable, Sendable, Hashable {
    /// The coding keys that lead to the property.
    package var path: [String]
    /// The name of the type referred to.
    package var target: String
    package var onDelete: String
    package var onTargetDelete: String
    /// Whether no program declared it: it follows from the property's type.
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
  /// Of the declared schema: names and types of fields.
  package var fingerprint: UInt64
  package var indexes: [Index]
  /// Migrations that were applied, in order.
  package var migrations: [String]
  package var relations: [Relation]?
  /// The fields and their kinds, as programs wrote them; empty: the names are data; `nil`: not known.
  package var schema: [String]?
  /// The version the type was first stored in.
  package var born: UInt32?
  /// The version that was declared without any migration, what is stored being readable as it is.
  package var raised: UInt32?
  /// Programs of this version and above may read, and only read.
  package var minimumReaderVersion: UInt32?
  /// The version whose program declared the indexes, if a migration reached this version without a Swift
  /// type: the first program of this version may change them.
  package var indexedIn: UInt32?
  /// The migration that is under way.
  package var migration: String?
  /// Whether the type has a budget, so that reads by queries count as use.
  package var isBounded: Bool?
  /// Where the objects went, by a migration. The record stays to tell older programs.
  package var movedTo: String?

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
    // A name that is no key of LMDB's is hashed; the record says the name itself.
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

/// The checksum behind a record of the catalog: what is not what was written is not believed.
package enum ChecksummedRecord {
  /// The revision of where objects are stored (`ObjectFormat.swift`) and under which ids, as a part of
  /// the checksum: a record of another is not valid, because its objects would not be found. 1: slots
  /// by the complete hash; 2: ids by their description; 3: ids by the text of their cache key.
  private static let revision: UInt64 = 3

  static func sealed(_ content: [UInt8]) -> [UInt8] {
    var bytes = content
    bytes.append(littleEndian: XXH64.hash(content) &+ revision)
    return bytes
  }

  /// The content; `nil`: it is damaged.
  static func opened(_ bytes: RawSpan) -> [UInt8]? {
    let end = bytes.byteCount - 8
    guard end >= 0, let content = bytes.slice(0..<end), let check: UInt64 = bytes.integer(at: end),
      XXH64.hash(content) &+ revision == check
    else { return nil }
    return content.copied()
  }

  /// Why a record is not believed: it is damaged, or of an earlier revision.
  package static func flaw<Record: Codable>(
    of type: Record.Type, _ bytes: RawSpan, _ what: String
  ) -> any Error {
    let end = bytes.byteCount - 8
    var isOlder = (try? CBORCodec().decode(type, from: bytes.copied())) != nil
    if end >= 0, let content = bytes.slice(0..<end), let check: UInt64 = bytes.integer(at: end) {
      isOlder = isOlder || XXH64.hash(content) == check
    }
    guard isOlder else { return LMDBError(.corrupted, during: what) }
    return StoreError(
      .damaged, during: "read",
      "A development version from before the first release wrote \(what), in a form that is no longer "
        + "read. Export the objects with that version (`larder export`), remove the store's directory, "
        + "and import them again.")
  }
}

/// What is counted about a type; in the same transaction as every change.
package struct ObjectTypeCounters: Sendable, Hashable {
  package var nextSequence: UInt64 = 1
  package var count: UInt64 = 0
  package var bytes: UInt64 = 0
  /// The most `bytes` may be; zero: no limit.
  package var budget: UInt64 = 0
  /// While a migration copies: changes of objects up to this sequence are noted,
  package var watchedTo: UInt64 = 0
  /// under this number of an index, with an empty key; zero: nobody watches.
  package var watch: UInt32 = 0
  /// The number of the index by hash that eviction takes its samples from
  /// (`StoreTransaction+ObjectEviction.swift`); zero: there is none.
  package var sample: UInt32 = 0
  /// The most objects there may be; zero: no limit.
  package var mostObjects: UInt64 = 0

  /// Whether there is more than there may be.
  package var isOverBudget: Bool {
    let most = mostObjects + (Mutant.objectBudgetOffByOne.isActive ? 1 : 0)
    return (budget > 0 && bytes > budget) || (mostObjects > 0 && count > most)
  }

  /// Whether a budget is set.
  package var isBounded: Bool { budget > 0 || mostObjects > 0 }

  package static func key(_ number: UInt32) -> [UInt8] { prefixed("c:", number) }
  static func droppedKey(_ number: UInt32) -> [UInt8] { prefixed("d:", number) }
  package static var numbersKey: [UInt8] { Array("numbers".utf8) }

  private static func prefixed(_ prefix: String, _ number: UInt32) -> [UInt8] {
    var key = Array(prefix.utf8)
    key.append(littleEndian: number.byteSwapped)
    return key
  }

  package init() {}

  package init?(_ record: RawSpan) {
    guard
      record.byteCount >= 64, let check: UInt64 = record.integer(at: 56),
      XXH64.hash(record.slice(0..<56)!) == check
    else { return nil }
    nextSequence = record.integer(at: 0)!
    count = record.integer(at: 8)!
    bytes = record.integer(at: 16)!
    budget = record.integer(at: 24)!
    watchedTo = record.integer(at: 32)!
    watch = record.integer(at: 40)!
    sample = record.integer(at: 44)!
    mostObjects = record.integer(at: 48)!
  }

  package func encoded() -> [UInt8] {
    var result = [UInt8](repeating: 0, count: 64)
    result.store(nextSequence, at: 0)
    result.store(count, at: 8)
    result.store(bytes, at: 16)
    result.store(budget, at: 24)
    result.store(watchedTo, at: 32)
    result.store(watch, at: 40)
    result.store(sample, at: 44)
    result.store(mostObjects, at: 48)
    result.store(XXH64.hash(Array(result[..<56])), at: 56)
    return result
  }
}
