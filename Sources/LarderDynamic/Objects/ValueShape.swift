// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCoding
internal import LarderObjectEngine

// THE SHAPE OF VALUES
//
// The catalog contains the fields of a type as programs wrote them (`RecordedFields.swift`). A shape
// is the part of it at one place of the objects. It is the only model of values of the tool: what an
// import accepts, how a constant of a query is read, and which paths of a query lead somewhere follow
// from it, as they follow from the Swift types in a program.

/// The form of the values at a place of the objects of a type, as the catalog describes it.
struct ValueShape: Sendable {
  /// The kind ("integer", "text", …); "value" if it is unknown.
  var kind: String
  /// Whether the value may be missing.
  var isOptional: Bool
  /// The fields of a map, by name; empty if they are unknown.
  private(set) var members: [String: ValueShape] = [:]
  /// The shape of the elements of an array, or of the values of a dictionary: one, or none if it is
  /// unknown.
  private(set) var elements: [ValueShape] = []

  init(kind: String = "value", isOptional: Bool = true) {
    (self.kind, self.isOptional) = (kind, isOptional)
  }

  /// Creates the shape of the objects of a type, or `nil` if the catalog does not contain it.
  init?(schema: [String]?) {
    guard let schema, !schema.isEmpty else { return nil }
    self.init(kind: "map", isOptional: false)
    let recorded = RecordedFields(schema)
    for (name, field) in recorded.fields { set(field, at: [name][...]) }
    for (path, field) in recorded.nested.sorted(by: { $0.key.count < $1.key.count }) {
      set(field, at: path[...])
    }
  }

  private mutating func set(_ field: RecordedFields.Field, at path: ArraySlice<String>) {
    guard let step = path.first else {
      (kind, isOptional) = (field.kind, field.isOptional)
      return
    }
    let isElement = step == CBORFieldLog.elementStep || step == CBORFieldLog.valueStep
    // The kind of a field that was nil in the first saved object is unknown.
    if kind == "value" { kind = step == CBORFieldLog.elementStep ? "array" : "map" }
    if isElement {
      if elements.isEmpty { elements = [ValueShape()] }
      elements[0].set(field, at: path.dropFirst())
    } else {
      members[step, default: ValueShape()].set(field, at: path.dropFirst())
    }
  }

  /// The form in which the values are stored.
  var family: String { RecordedFields.Field.family(kind) }

  /// Whether the values are those of an enumeration, of which the catalog does not have all.
  var isEnumeration: Bool { kind.hasPrefix("enum(") }

  /// Whether the kind says all of the values: they have no parts, and are not those of an enumeration.
  var isPlain: Bool { !["value", "map", "array", "reference"].contains(kind) && !isEnumeration }

  /// Returns whether a program can decode a value as the kind of the shape, without those inside of it.
  func decodes(_ value: CBORValue) -> Bool {
    func decodes<Value: Decodable>(_ type: Value.Type) -> Bool {
      (try? CBORDecoder().decode(type, from: value.encoded)) != nil
    }
    return switch kind {
    case "integer": decodes(Int.self)
    case "int8": decodes(Int8.self)
    case "int16": decodes(Int16.self)
    case "int32": decodes(Int32.self)
    case "int128": decodes(Int128.self)
    case "uint8": decodes(UInt8.self)
    case "uint16": decodes(UInt16.self)
    case "uint32": decodes(UInt32.self)
    case "uint64": decodes(UInt64.self)
    case "uint128": decodes(UInt128.self)
    case "number": decodes(Double.self)
    case "float": decodes(Float.self)
    case "decimal": decodes(Decimal.self)
    case "boolean": decodes(Bool.self)
    case "text": decodes(String.self)
    case "character": (try? CBORDecoder().decode(String.self, from: value.encoded))?.count == 1
    case "date": decodes(Date.self)
    case "uuid": decodes(UUID.self)
    case "bytes": decodes(Data.self) || decodes([UInt8].self)
    case "url": decodes(URL.self)
    default: true
    }
  }
}
