// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
package import LarderObjectEngine

/// The difference between a stored type and the schema that a program declares.
package enum SchemaDifference {
  /// Returns one line for each difference, empty if there is none.
  ///
  /// - Parameters:
  ///   - stored: The record of the type, or `nil` if the store does not have it.
  ///   - declared: The schema of the program, or of an export of another store.
  /// - Returns: The lines, of the version, the fields and the indexes.
  package static func lines(
    _ stored: ObjectTypeRecord?, _ declared: ObjectSchemaHeader
  ) -> [String] {
    guard let stored else { return ["the type is not stored"] }
    var lines: [String] = []
    if stored.version != declared.version {
      lines.append("version: stored \(stored.version), declared \(declared.version)")
    }
    return lines + fields(stored, declared) + indexes(stored, declared)
  }

  private static func fields(
    _ stored: ObjectTypeRecord, _ declared: ObjectSchemaHeader
  ) -> [String] {
    // Without fields they are unknown, or their names are data.
    guard let schema = declared.schema, let known = stored.schema, !schema.isEmpty, !known.isEmpty
    else { return [] }
    let (old, new) = (RecordedFields(known).fields, RecordedFields(schema).fields)
    return Set(old.keys).union(new.keys).sorted().compactMap { name in
      switch (old[name], new[name]) {
      case (let field?, nil): "field \(name): stored \(field.text), not declared"
      case (nil, let field?): "field \(name): declared \(field.text), not stored"
      case (let field?, let other?) where field != other && other.kind != "value":
        "field \(name): stored \(field.text), declared \(other.text)"
      default: nil
      }
    }
  }

  private static func indexes(
    _ stored: ObjectTypeRecord, _ declared: ObjectSchemaHeader
  ) -> [String] {
    func texts(_ header: ObjectSchemaHeader) -> [String: String] {
      let indexes = header.indexes.filter { !$0.fields.isEmpty }
      return Dictionary(
        indexes.map { index in
          let text = "\(index.fields.joined(separator: ", ")) (\(index.definition))"
          return (index.name, text + (index.unique ? ", unique" : ""))
        }, uniquingKeysWith: { first, _ in first })
    }
    let (old, new) = (texts(ObjectSchemaHeader(stored, durability: nil)), texts(declared))
    return Set(old.keys).union(new.keys).sorted().compactMap { name in
      switch (old[name], new[name]) {
      case (let index?, nil): "index \(name): stored over \(index), not declared"
      case (nil, let index?): "index \(name): declared over \(index), not stored"
      case (let index?, let other?) where index != other:
        "index \(name): stored over \(index), declared over \(other)"
      default: nil
      }
    }
  }
}
