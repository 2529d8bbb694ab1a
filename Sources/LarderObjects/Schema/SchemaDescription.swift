// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

extension ObjectStore {
  /// Returns the schema of a type as this program declares it, as a line of JSON: name, version,
  /// fields with their kinds, and indexes.
  ///
  /// `larder migrations --schema FILE` compares a file of such lines with the stored types:
  ///
  /// ```swift
  /// print(try store.schemaDescription(of: Car.self, example: Car(id: "S", model: "S", year: 2022)))
  /// ```
  ///
  /// The fields are those of the example, or those that this process has saved and decoded so far;
  /// a type with `@Storable` states their names without either. Nothing is read or stored.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - example: An object of the type, from which the kinds of all fields follow.
  /// - Returns: The line, without its end.
  /// - Throws: ``ObjectError/Code/unencodable`` if the example cannot be encoded;
  ///   ``ObjectError/Code/invalidSchema`` if the declaration is inconsistent.
  public func schemaDescription<Object: Storable>(
    of type: Object.Type, example: Object? = nil
  ) throws -> String {
    if storage.isForkedChild { throw StoreError.usedAfterFork("schemaDescription") }
    let kind = kind(type)
    try kind.validate()
    if let example { _ = try kind.observeWriting(example) }
    let observed = kind.schema.withLock { $0.fields }
    var fields = observed.mapValues { RecordedFields.Field($0) }
    if let declared = Object.self as? any DeclaresSchema.Type {
      for name in Self.fieldNames(declared) where fields[name] == nil {
        fields[name] = RecordedFields.Field(kind: "value", isOptional: false)
      }
    }
    for name in Object.fieldsWithDefault { fields[name]?.isOptional = true }
    let indexes = kind.declared.map { index in
      Self.map([
        ("name", .text(index.name)), ("fields", .array(index.fields.map { .text($0) })),
        ("definition", .text(index.definition)), ("unique", .boolean(index.isUnique)),
      ])
    }
    var members: [(String, CBORValue)] = [
      ("larder", .text("objects")), ("format", .unsigned(1)), ("type", .text(kind.name)),
      ("version", .unsigned(UInt64(kind.version))), ("indexes", .array(indexes)),
    ]
    if !fields.isEmpty {
      let lines = RecordedFields(fields: fields).lines
      members.append(("schema", .array(lines.map { .text($0) })))
    }
    return Self.map(members).jsonText()
  }

  private static func fieldNames<Object: DeclaresSchema>(_ type: Object.Type) -> [String] {
    type.schema.fields.map(\.name)
  }

  private static func map(_ members: [(String, CBORValue)]) -> CBORValue {
    .map(members.map { CBORValue.Pair(.text($0.0), $0.1) })
  }
}
