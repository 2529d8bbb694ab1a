// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// FIELDS THAT A TYPE WAS SEEN TO USE
//
// A type's `encode(to:)` shows its fields when it encodes a value of the program, and its
// `init(from:)` shows them when it decodes stored bytes. The log records both: the coding keys,
// also of values that are `nil`, and what the values are in CBOR. No coding method is ever called
// with an invented value.
//
// The kind of a field is what its type accepts: of integers and floating-point numbers with their
// width, and "enum(…)" for an enumeration, of which a stored form shows only some of the cases. The
// elements of a collection are recorded by their Swift type, also of an empty one. So are the fields
// inside of a value that is nil, or of the elements of an empty collection, if a declaration names them.

/// The fields that one encoding wrote, or that one decoding requested, by their paths.
///
/// A path is the coding keys from the value to the field; an element of an array is `[]`.
package final class CBORFieldLog {
  package struct Field: Sendable, Hashable {
    /// The form of the value: "integer", "uint64", "text", …; 'nil' if that is unknown.
    package var kind: String?
    /// Whether the kind follows from the Swift type alone, and not from this value.
    package var isFirm = false
    /// Whether the Swift type is optional.
    package var isOptional = false
    /// Whether the field was written as null.
    package var isNull = false

    /// Adds another observation of the same field.
    package mutating func merge(_ other: Field) {
      isOptional = isOptional || other.isOptional
      isNull = isNull || other.isNull
      guard let kind = other.kind else { return }
      if self.kind == nil || (other.isFirm && !isFirm) {
        (self.kind, isFirm) = (kind, other.isFirm)
      } else if self.kind != kind, isFirm == other.isFirm {
        (self.kind, isFirm) = ("value", false)
      }
    }
  }

  package private(set) var fields: [[String]: Field] = [:]
  /// The paths of maps whose keys are data, as those of a dictionary are.
  package private(set) var open: Set<[String]> = []

  /// The stored fields that the declaration of a type names, or `nil` of other types.
  package typealias Declaration = (Any.Type) -> [(name: String, type: Any.Type)]?
  private let declaration: Declaration

  package init(declaration: @escaping Declaration = { _ in nil }) { self.declaration = declaration }

  /// The fields of the value itself.
  package var topFields: [String: Field] {
    var top: [String: Field] = [:]
    for (path, field) in fields where path.count == 1 { top[path[0]] = field }
    return top
  }

  func note(_ name: String, in map: [any CodingKey], _ field: Field) {
    fields[Self.path(map) + [name], default: Field()].merge(field)
  }

  func noteAllKeys(of map: [any CodingKey]) { open.insert(Self.path(map)) }

  /// Records what the Swift type of a collection says about its elements.
  func noteElements(
    of type: Any.Type, _ value: Any, at name: String, in map: [any CodingKey]
  ) {
    let path = Self.path(map) + [name]
    noteElements(of: type, value, at: path)
    noteDeclared(type, at: path)
  }

  /// Records the fields that declarations name inside of a type, whatever the value is.
  private func noteDeclared(
    _ type: Any.Type, at path: [String], inside outer: Set<ObjectIdentifier> = []
  ) {
    if let optional = type as? any OptionalField.Type {
      return noteDeclared(optional.wrapped, at: path, inside: outer)
    }
    if let known = type as? any CBORElements.Type {
      guard let step = known.elementStep else { return }
      return noteDeclared(known.elementType, at: path + [step], inside: outer)
    }
    // A declaration may contain itself; its fields repeat there.
    guard !outer.contains(ObjectIdentifier(type)), let declared = declaration(type) else { return }
    let inner = outer.union([ObjectIdentifier(type)])
    for (name, type) in declared {
      let below = path + [name]
      var field = Field.of(type)
      if field.kind == nil {
        let plain = (type as? any OptionalField.Type)?.wrapped ?? type
        field.kind = Field.enumerationKind(plain, nil)
      }
      fields[below, default: Field()].merge(field)
      noteElements(of: type, nil, at: below)
      noteDeclared(type, at: below, inside: inner)
    }
  }

  private func noteElements(of type: Any.Type, _ value: Any?, at path: [String]) {
    guard let known = type as? any CBORElements.Type, let step = known.elementStep else { return }
    let below = path + [step]
    let first = value.flatMap { known.firstElement(of: $0) }
    var field = Field.of(known.elementType)
    if field.kind == nil { field.kind = Field.enumerationKind(known.elementType, first) }
    if field.kind != nil { fields[below, default: Field()].merge(field) }
    if field.kind != "bytes" { noteElements(of: known.elementType, first, at: below) }
  }

  /// The steps of paths to the elements of an array, and to the values of a dictionary.
  package static let elementStep = "[]"
  package static let valueStep = "*"

  /// Returns the paths of fields inside of others. The values of dictionaries have one path.
  package var nestedFields: [[String]: Field] {
    var nested: [[String]: Field] = [:]
    for (path, field) in fields where path.count > 1 {
      var shown: [String] = []
      for (position, name) in path.enumerated() {
        let isValue = position > 0 && open.contains(Array(path[..<position]))
        shown.append(isValue ? Self.valueStep : name)
      }
      nested[shown, default: Field()].merge(field)
    }
    return nested
  }

  private static func path(_ keys: [any CodingKey]) -> [String] {
    keys.map { $0.intValue == nil ? $0.stringValue : "[]" }
  }
}

/// A type whose values have one form in CBOR.
package protocol CBORFieldKind {
  static var fieldKind: String? { get }
}

extension CBORFieldLog.Field {
  /// A field of a Swift type; without a kind if only the type's own coding determines it.
  static func of(_ type: Any.Type, isOptional: Bool = false) -> CBORFieldLog.Field {
    // Casts to protocols search all conformances of the process, once for each type.
    if let kind = plainKind(of: type) {
      return CBORFieldLog.Field(kind: kind, isFirm: true, isOptional: isOptional)
    }
    let kind = kind(of: type)
    return CBORFieldLog.Field(
      kind: kind, isFirm: kind != nil, isOptional: isOptional || type is any OptionalField.Type)
  }

  fileprivate static func kind(of type: Any.Type) -> String? {
    if let kind = plainKind(of: type) { return kind }
    return switch type {
    case is Int64.Type: "integer"
    case is UInt.Type: "uint64"
    case is any FixedWidthInteger.Type: widths.first { $0 == "\(type)".lowercased() } ?? "integer"
    case is Float.Type: "float"
    case is any BinaryFloatingPoint.Type: "number"
    case let known as any CBORFieldKind.Type: known.fieldKind
    default: nil
    }
  }

  private static let widths = [
    "int8", "int16", "int32", "int128", "uint8", "uint16", "uint32", "uint64", "uint128",
  ]

  /// Returns the kind of an enumeration: that of its raw value, or of a map.
  ///
  /// - Parameter value: A value of the type, without which only a raw value shows an enumeration.
  fileprivate static func enumerationKind(_ type: Any.Type, _ value: Any?) -> String? {
    func raw<Raw: RawRepresentable>(_ type: Raw.Type) -> String? { kind(of: Raw.RawValue.self) }
    guard value.map({ Mirror(reflecting: $0).displayStyle == .enum }) ?? true else { return nil }
    if let type = type as? any RawRepresentable.Type {
      return raw(type).map { "enum(\($0))" }
    }
    return value == nil ? nil : "enum(map)"
  }

  private static func plainKind(of type: Any.Type) -> String? {
    switch type {
    case is Int.Type: "integer"
    case is Double.Type: "number"
    case is Bool.Type: "boolean"
    case is String.Type: "text"
    case is Character.Type: "character"
    case is Date.Type: "date"
    case is UUID.Type: "uuid"
    case is Data.Type, is [UInt8].Type: "bytes"
    case is URL.Type: "url"
    case is Decimal.Type: "decimal"
    default: nil
    }
  }

  /// A field as it was written, at an offset.
  static func encoded(
    _ bytes: [UInt8], at offset: Int, of value: Any
  ) -> CBORFieldLog.Field {
    var field = encoded(bytes, at: offset)
    if let kind = field.kind, Mirror(reflecting: value).displayStyle == .enum {
      field.kind = enumerationKind(type(of: value), value) ?? "enum(\(kind))"
    }
    return field
  }

  private static func encoded(_ bytes: [UInt8], at offset: Int) -> CBORFieldLog.Field {
    guard offset < bytes.count else { return CBORFieldLog.Field() }
    let initial = bytes[offset]
    let kind: String? =
      switch initial >> 5 {
      case 0, 1: "integer"
      case 2: "bytes"
      case 3: "text"
      case 4: "array"
      case 5: "map"
      case 6:
        switch UInt64(initial & 0x1f) {
        case CBORTag.epochTime: "date"
        case CBORTag.positiveBigInteger, CBORTag.negativeBigInteger: "integer"
        case CBORTag.decimalFraction: "decimal"
        default: "value"
        }
      default:
        switch initial {
        case 0xf4, 0xf5: "boolean"
        case 0xf6, 0xf7: nil
        default: "number"
        }
      }
    return CBORFieldLog.Field(kind: kind, isNull: initial & 0xfe == 0xf6)
  }
}

private protocol OptionalField {
  static var wrapped: Any.Type { get }
}

extension Optional: OptionalField, CBORFieldKind {
  package static var fieldKind: String? { CBORFieldLog.Field.kind(of: Wrapped.self) }
  fileprivate static var wrapped: Any.Type { Wrapped.self }
}
extension Array: CBORFieldKind { package static var fieldKind: String? { "array" } }
extension Set: CBORFieldKind { package static var fieldKind: String? { "array" } }
extension Dictionary: CBORFieldKind { package static var fieldKind: String? { "map" } }

/// A type whose Swift type says what its elements are.
private protocol CBORElements {
  static var elementType: Any.Type { get }
  /// The step of a path to an element, or `nil` if no path leads to one.
  static var elementStep: String? { get }
  static func firstElement(of value: Any) -> Any?
}

extension Array: CBORElements {
  fileprivate static var elementType: Any.Type { Element.self }
  fileprivate static var elementStep: String? { CBORFieldLog.elementStep }
  fileprivate static func firstElement(of value: Any) -> Any? { (value as? Self)?.first }
}

extension Set: CBORElements {
  fileprivate static var elementType: Any.Type { Element.self }
  fileprivate static var elementStep: String? { CBORFieldLog.elementStep }
  fileprivate static func firstElement(of value: Any) -> Any? { (value as? Self)?.first }
}

extension Dictionary: CBORElements {
  fileprivate static var elementType: Any.Type { Value.self }
  // Keys of other types are stored in an array, in turn with the values.
  fileprivate static var elementStep: String? {
    Key.self == String.self || Key.self == Int.self ? CBORFieldLog.valueStep : nil
  }
  fileprivate static func firstElement(of value: Any) -> Any? { (value as? Self)?.first?.value }
}

extension Optional: CBORElements {
  fileprivate static var elementType: Any.Type {
    (Wrapped.self as? any CBORElements.Type)?.elementType ?? Wrapped.self
  }
  fileprivate static var elementStep: String? {
    (Wrapped.self as? any CBORElements.Type)?.elementStep
  }
  fileprivate static func firstElement(of value: Any) -> Any? {
    guard let wrapped = value as? Wrapped else { return nil }
    return (Wrapped.self as? any CBORElements.Type)?.firstElement(of: wrapped)
  }
}

extension CBOREncodingState {
  /// Records the field begun last.
  func note(_ name: String, _ depth: Int, _ field: CBORFieldLog.Field, ofKeys keys: Any.Type) {
    let path = codingPath(at: depth)
    // The keys of a dictionary are not fields.
    if "\(keys)" == "_DictionaryCodingKey" {
      log?.noteAllKeys(of: path)
    } else {
      log?.note(name, in: path, field)
    }
  }
}

extension CBOREncodingState {
  /// Records the elements of the field begun last.
  func noteElements(of type: Any.Type, _ value: Any, at name: String, _ depth: Int) {
    log?.noteElements(of: type, value, at: name, in: codingPath(at: depth))
  }
}

extension CBORDocument {
  /// Records that a field was requested.
  func note(_ key: any CodingKey, in map: Int, _ field: CBORFieldLog.Field) {
    log?.note(key.stringValue, in: codingPath(to: map), field)
  }

  /// Records that all keys of a map were requested.
  func noteAllKeys(of map: Int) { log?.noteAllKeys(of: codingPath(to: map)) }
}
