// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine

/// The code to write for a change of a type: the stored form as a Swift type, and a migration from
/// it. Errors of the schema end with it.
struct MigrationSketch {
  /// The name of the Swift type.
  let type: String
  let record: ObjectTypeRecord
  /// The version that the program declares.
  let version: UInt32

  /// The version that the migration reaches.
  private var target: UInt32 { max(version, record.version + 1) }
  private var old: String { "\(type)V\(record.version)" }

  /// The lines of code after a sentence, each indented; empty if the stored fields are unknown.
  var text: String {
    let fields = RecordedFields(record.schema ?? []).fields
    guard !fields.isEmpty else { return "" }
    var lines = ["struct \(old): Storable {  // as stored"]
    let sorted = fields.sorted {
      ($0.key == "id" ? 0 : 1, $0.key) < ($1.key == "id" ? 0 : 1, $1.key)
    }
    for (name, field) in sorted {
      lines.append("  \(name == "id" ? "let" : "var") \(name): \(Self.swiftType(field))")
    }
    lines += [
      "  static let storedName = \"\(record.name)\"",
      "  static let schemaVersion = \(record.version)", "}",
      "let step = Migration<\(old), \(type)>(\"\(record.name) \(target)\") { old in",
      "  \(type)(id: old.id /* … */)", "}",
      "let store = try ObjectStore(at: path, migrations: [step.step])",
    ]
    let raise = version < target ? "set schemaVersion to \(target) and " : ""
    return "\nTo keep the objects, \(raise)migrate:\n"
      + lines.map { "  " + $0 }.joined(separator: "\n")
  }

  private static func swiftType(_ field: RecordedFields.Field) -> String {
    let names = [
      "integer": "Int", "number": "Double", "boolean": "Bool", "text": "String", "date": "Date",
      "uuid": "UUID", "bytes": "Data", "url": "URL", "decimal": "Decimal", "float": "Float",
      "character": "Character", "int8": "Int8", "int16": "Int16", "int32": "Int32",
      "int128": "Int128", "uint8": "UInt8", "uint16": "UInt16", "uint32": "UInt32",
      "uint64": "UInt64", "uint128": "UInt128",
    ]
    // Of an enumeration, its raw values.
    let kind =
      field.kind.hasPrefix("enum(") ? String(field.kind.dropFirst(5).dropLast()) : field.kind
    return (names[kind] ?? "<#\(kind)#>") + (field.isOptional ? "?" : "")
  }
}
