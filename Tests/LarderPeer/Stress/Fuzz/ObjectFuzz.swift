// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine
import LarderSystem
import LarderTesting

/// The record of an object, and what a reader without its Swift type makes of it: the index keys it
/// owns, the value, the keys that a declared index would have of it, the line of an export.
struct ObjectFuzz: FuzzTarget {
  let name = "object"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    (0..<16).map { number in
      let tags = (0..<number % 4).map { CBORValue.text("tag \($0)") }
      let object = CBORValue.map([
        .init(.text("id"), .text("id \(number)")), .init(.text("age"), .unsigned(UInt64(number))),
        .init(.text("name"), number % 3 == 0 ? .null : .text("Ada")),
        .init(.text("tags"), .array(tags)), .init(.text("born"), .tagged(1, .float(0.5))),
        .init(.text("home"), .map([.init(.text("city"), .bytes([1, 2]))])),
      ])
      let keys = (0..<number % 5).map {
        ObjectIndexKey(
          index: UInt32($0), bytes: random.bytes(Int.random(in: 0...30, using: &random)))
      }
      let id = Array("id \(number)".utf8)
      let payload = ObjectFormat.payload(keys, object.encoded)
      let header = ObjectHeader(
        codec: CodecIdentifier.cbor.rawValue, version: 1, commitVersion: 7,
        created: 1_700_000_000_000, idLength: id.count, contentLength: id.count + payload.count)
      return header.record(id, payload, chunks: nil, type: 3, sequence: 1)
    }
  }

  func repair(_ bytes: inout [UInt8]) {
    guard let (header, id, payload) = bytes.withRawSpan({ parts(of: $0) }) else { return }
    bytes = header.record(id, payload, chunks: nil, type: 3, sequence: 1)
  }

  private func parts(of record: RawSpan) -> (ObjectHeader, id: [UInt8], payload: [UInt8])? {
    guard let header = ObjectHeader(in: record), !header.isChunked else { return nil }
    let start = header.contentStart
    guard let content = record.slice(start..<(start + header.contentLength))?.copied() else {
      fatalError("a law is broken: a header says more than there is")
    }
    return (header, Array(content[..<header.idLength]), Array(content[header.idLength...]))
  }

  private static let indexes = [
    ("\\.age", "Int", false), ("\\.name", "Optional<String>", false), ("\\.tags", "String", true),
    ("\\.born", "Date", false), ("\\.home.city", "Data", false), ("\\.age", "Double", false),
  ].map { path, type, isMultiple in
    ObjectTypeRecord.Index(
      number: 9, name: "index", fields: [path], isUnique: false,
      definition: isMultiple ? "each " + type : type, builtTo: nil)
  }

  private static let rules = indexes.compactMap { try? IndexRule($0) }

  func run(_ bytes: [UInt8]) -> UInt64 {
    var outcome = DecodingFacts()
    guard let (header, _, payload) = bytes.withRawSpan({ parts(of: $0) }) else { return 1 }
    let isIntact = bytes.withRawSpan { header.isIntact(in: $0, type: 3, sequence: 1) }
    outcome.add(isIntact ? 2 : 3)
    // The decoder must accept any payload, also one with a valid checksum.
    let start = payload.withRawSpan { ObjectFormat.objectStart($0) }
    let found = payload.withRawSpan { ObjectFormat.indexKeys($0) }
    law(start == found?.object, "the object begins at \(start ?? -1) and \(found?.object ?? -1)")
    guard let start, let found else { return outcome.value }
    law(start <= payload.count, "an object begins behind its record")
    outcome.add(count: found.keys.count)
    let object = Array(payload[start...])
    let again = ObjectFormat.payload(found.keys, object).withRawSpan { ObjectFormat.indexKeys($0) }
    law(again?.keys == found.keys, "index keys are others after encoding")
    read(object, &outcome)
    return outcome.value
  }

  private func read(_ object: [UInt8], _ outcome: inout DecodingFacts) {
    let value: CBORValue
    do throws(CodecError) { value = try CBORValue(parsing: object) } catch {
      return outcome.add("\(error.code)")
    }
    law(Self.rules.count == Self.indexes.count, "an index has no rule")
    for rule in Self.rules {
      do {
        let keys = try rule.keys(of: value)
        outcome.add(count: keys.count)
        for key in keys { law(key.bytes.count <= 448, "a key of \(key.bytes.count) bytes") }
      } catch {
        outcome.add(4)
      }
    }
    let line = LosslessJSONWriter.text(value)
    guard let back = try? JSONReader.value(Array(line.utf8)) else {
      fatalError("a law is broken: \(line) was exported and is not imported")
    }
    outcome.add(back.encoded == value.encoded ? 5 : 6)
  }
}

/// The catalog of types: their records, counters and migrations, and the keys of index entries. The
/// first byte selects the kind.
struct CatalogFuzz: FuzzTarget {
  let name = "catalog"

  func seeds(_ random: inout SeededRandom) throws -> [[UInt8]] {
    var type = ObjectTypeRecord(
      number: 3, name: "app.Car", version: 2, fingerprint: 17,
      indexes: [
        .init(
          number: 4, name: "age", fields: ["\\.age"], isUnique: true, definition: "Int",
          builtTo: 12)
      ], migrations: ["first"])
    type.relations = [
      .init(path: ["parts"], target: "app.Part", onDelete: "cascade", onTargetDelete: "nullify")
    ]
    type.schema = ["id Int", "age Int"]
    type.isBounded = true
    var books = ObjectTypeCounters()
    books.count = 12
    books.budget = 1 << 20
    var migration = ObjectMigrationRecord(name: "first", source: 3)
    migration.target = type
    var items: [UInt8] = []
    for number in 0..<3 {
      items.append(littleEndian: UInt32(number))
      items.append(littleEndian: random.next())
    }
    return [
      [0] + (try type.encoded()), [1] + books.encoded(), [2] + (try migration.encoded()),
      [3] + items, [4] + random.bytes(24),
    ]
  }

  func repair(_ bytes: inout [UInt8]) {
    var record = Array(bytes.dropFirst())
    switch bytes.first {
    case 0 where record.count >= 8, 2 where record.count >= 8:
      let end = record.count - 8
      record.store(XXH64.hash(Array(record[..<end])), at: end)
    case 1 where record.count >= 64: record.store(XXH64.hash(Array(record[..<56])), at: 56)
    default: return
    }
    bytes = [bytes[0]] + record
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    var outcome = DecodingFacts()
    let kind = bytes.first ?? 9
    outcome.add(Int(kind))
    Array(bytes.dropFirst()).withRawSpan { record in
      switch kind {
      case 0:
        guard let type = ObjectTypeRecord(record) else { return }
        outcome.add(count: type.indexes.count)
        let again = try? type.encoded().withRawSpan { ObjectTypeRecord($0) }
        law(again == type, "a type is another after encoding")
        for index in type.indexes {
          do throws(IndexRule.Foreign) {
            outcome.add(try IndexRule(index).fields.count)
          } catch {
            outcome.add(error.reason)
          }
        }
      case 1:
        guard let books = ObjectTypeCounters(record) else { return }
        outcome.add(books.isOverBudget ? 1 : 2)
        law(books.encoded().withRawSpan { ObjectTypeCounters($0) } == books, "books are others")
      case 2:
        guard let migration = ObjectMigrationRecord(record) else { return }
        outcome.add(migration.isApplied ? 3 : 4)
        let again = try? migration.encoded().withRawSpan { ObjectMigrationRecord($0) }
        law(again == migration, "a migration is another after encoding")
      case 3:
        let items = ObjectFormat.idItems(record)
        law(items.count <= record.byteCount / 2, "\(items.count) items")
        outcome.add(count: items.count)
      default:
        guard let key = PackedKey(record) else { return }
        let index = ObjectIndexKey(index: key.number, bytes: record.slice(key.bytes)!.copied())
        guard index.bytes.count == key.bytes.count else { return }
        law(
          record.equals(ObjectFormat.indexEntry(index, sequence: key.sequence)),
          "a key has two forms")
      }
    }
    return outcome.value
  }
}
#endif
