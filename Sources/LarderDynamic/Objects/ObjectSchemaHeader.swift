// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
package import LarderObjectEngine

// THE EXPORT OF OBJECTS
//
// A file of JSON lines. The first line is the schema of the type, from the catalog:
//
//     larder         "objects"
//     format         1
//     type           the stored name
//     version        the schema version; "minimumReaderVersion" as in the type record
//     durability     the durability level of the store, for a store that the import creates
//     schema         the fields and their kinds ("id: integer", "owner: text?"); the kind of the
//                    field "id" is the kind of the identifiers; absent if unknown
//     indexes        name, fields, definition, unique of each; the reference index has no fields
//     relations      the rules of references: path, target, onDelete, onTargetDelete, isImplied
//
// Each line after it is an object with its fields (`LosslessJSONWriter.swift`), in the order of
// insertion; or, if its identifier does not follow from the field "id", an array of the
// identifier's text and the object: ["k1", {"key": "k1"}].
//
// An import creates a type that the store does not have from the schema, and compares it with a
// type that the store has. Keys that cannot be made without the program are not written: their
// index is marked as incomplete, and the program builds it, as it builds an index that was added to
// its type.

/// The first line of an export of objects: the schema of their type.
package struct ObjectSchemaHeader: Codable, Sendable, Hashable {
  package struct Index: Codable, Sendable, Hashable {
    let name: String
    let fields: [String]
    let definition: String
    let unique: Bool
  }

  static let currentFormat = 1
  private static let mark = "objects"

  let larder: String
  let format: Int
  package let type: String
  let version: UInt32
  let minimumReaderVersion: UInt32?
  /// The durability level of the exported store.
  package let durability: String?
  let schema: [String]?
  let indexes: [Index]
  let relations: [ObjectTypeRecord.Relation]?

  init(_ record: ObjectTypeRecord, durability: Durability?) {
    larder = Self.mark
    format = Self.currentFormat
    type = record.name
    version = record.version
    minimumReaderVersion = record.minimumReaderVersion
    self.durability = durability?.rawValue
    schema = record.schema
    indexes = record.indexes.filter { $0.name != UnindexedNotes.name }.map {
      Index(name: $0.name, fields: $0.fields, definition: $0.definition, unique: $0.isUnique)
    }
    relations = record.relations
  }

  /// Parses the first line of a file.
  ///
  /// - Parameter line: The line without its end.
  /// - Returns: The schema, or `nil` if the line is something else, such as an object.
  /// - Throws: ``DynamicObjectError`` if it is a schema that this version cannot read.
  package init?(line: ArraySlice<UInt8>) throws {
    var line = line
    if line.starts(with: [0xEF, 0xBB, 0xBF]) { line = line.dropFirst(3) }
    guard let value = try? JSONReader.value(Array(line)),
      FieldPath(["larder"]).value(in: value) == .text(Self.mark),
      let format = FieldPath(["format"]).value(in: value)
    else { return nil }
    guard format == .unsigned(UInt64(Self.currentFormat)),
      let header = try? CBORCodec().decode(Self.self, from: value.encoded)
    else {
      throw DynamicObjectError(
        .schemaMismatch,
        "The schema in the first line has the format \(format.jsonText()) or is damaged; this "
          + "version reads the format \(Self.currentFormat). Export the objects again with this "
          + "version.",
        line: 1)
    }
    self = header
  }

  /// Returns the line of the file, without its end.
  func text() throws -> String {
    LosslessJSONWriter.text(try CBORValue(parsing: try CBORCodec().encode(self)))
  }

  // MARK: Declaration in a store

  /// Creates the type of the schema, or adds to the stored one what it lacks.
  ///
  /// - Throws: ``DynamicObjectError`` if the stored type contradicts the schema.
  func declare(in transaction: inout StoreTransaction) throws -> ObjectTypeRecord {
    let stored = try transaction.objectType(named: type)
    var record: ObjectTypeRecord
    if let stored {
      record = stored
      try requireAgreement(with: stored)
    } else {
      record = ObjectTypeRecord(
        number: try transaction.newObjectNumber(), name: type, version: version, fingerprint: 0,
        indexes: [], migrations: [])
      // The store has no objects of earlier versions, which the program's migrations could convert.
      record.born = version
      record.minimumReaderVersion = minimumReaderVersion
    }
    for index in indexes where !record.indexes.contains(where: { $0.name == index.name }) {
      var stored = ObjectTypeRecord.Index(
        number: 0, name: index.name, fields: index.fields, isUnique: index.unique,
        definition: index.definition, builtTo: nil)
      stored.number = try transaction.newNumber(for: stored)
      record.indexes.append(stored)
    }
    record.relations = record.relations ?? relations
    record.schema = try mergedSchema(with: record.schema)
    record.fingerprint = record.schema.map { ObjectTypeRecord.fingerprint(ofSchema: $0) } ?? 0
    if record != stored { try transaction.putObjectType(record) }
    return record
  }

  private func requireAgreement(with stored: ObjectTypeRecord) throws {
    if let name = stored.movedTo {
      throw DynamicObjectError(
        .movedType, "\(type) was migrated: the type of its objects is \(name). Export that type.")
    }
    if let migration = stored.migration {
      throw mismatch(
        "The migration \"\(migration)\" of the stored type has not ended. Import after it.")
    }
    guard stored.version == version else {
      throw mismatch(
        "The file has version \(version), the store version \(stored.version). Migrate the older "
          + "store with the program, and export again.")
    }
    let declared = Set(indexes.filter { !$0.fields.isEmpty })
    let there = Set(Self(stored, durability: nil).indexes.filter { !$0.fields.isEmpty })
    let differing = Set(declared.symmetricDifference(there).map(\.name)).sorted()
    guard differing.isEmpty else {
      throw mismatch(
        "The declarations of the indexes \(differing.joined(separator: ", ")) differ. Open both "
          + "stores with the same version of the program, and export again.")
    }
    guard stored.relations == nil || stored.relations == relations else {
      throw mismatch(
        "The rules of references differ. Open both stores with the same version of the program, "
          + "and export again.")
    }
  }

  /// Returns the union of the schema's fields and those of the stored type.
  ///
  /// - Throws: ``DynamicObjectError`` if they contradict each other.
  private func mergedSchema(with stored: [String]?) throws -> [String]? {
    guard let stored, let schema else { return stored ?? schema }
    // The names of the fields are data.
    if stored.isEmpty || schema.isEmpty { return [] }
    let ours = RecordedFields(schema)
    var merged = ours.fields
    var union = RecordedFields(stored)
    let theirs = union.fields
    for (name, field) in merged {
      let other = theirs[name]
      var kind = field.kind
      if let other, other.kind != kind {
        kind = RecordedFields.Field.merged(kind, other.kind)
        guard kind != "value" || field.kind == "value" || other.kind == "value" else {
          throw mismatch(
            "The field \(name) is \(field.kind) in the file and \(other.kind) in the store. Open both "
              + "stores with the same version of the program, and export again.")
        }
      }
      merged[name] = .init(
        kind: kind,
        isOptional: kind != "reference" && (field.isOptional || other?.isOptional ?? true))
    }
    for (name, field) in theirs where merged[name] == nil {
      merged[name] = .init(kind: field.kind, isOptional: field.kind != "reference")
    }
    union.fields = merged
    union.merge(nested: ours.nested)
    return union.lines
  }

  private func mismatch(_ reason: String) -> DynamicObjectError {
    DynamicObjectError(
      .schemaMismatch, "The stored type \(type) is not the type of the file. \(reason)", line: 1)
  }
}

extension DynamicObjects {
  /// Returns the type of an export, and creates it from the schema if the store does not have it.
  ///
  /// - Parameters:
  ///   - name: The name that the caller gave, or its last part.
  ///   - header: The schema of the export.
  /// - Returns: The record of the type.
  /// - Throws: ``DynamicObjectError`` if the stored type contradicts the schema. Nothing is
  ///   changed.
  package func type(
    named name: String, importing header: ObjectSchemaHeader
  ) throws -> ObjectTypeRecord {
    guard header.type == name || header.type.hasSuffix("." + name) else {
      throw DynamicObjectError(
        .schemaMismatch,
        "The file has objects of \(header.type), not of \(name). Name that type, or remove the "
          + "first line to import its objects as \(name).", line: 1)
    }
    return try store.write { try header.declare(in: &$0) }
  }
}
