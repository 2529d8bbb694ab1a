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

/// The fields that one encoding wrote, or that one decoding requested, by their paths.
///
/// A path is the coding keys from the value to the field; an element of an array is `[]`.
package final class CBORFieldLog {
  package struct Field: Sendable, Hashable {
    /// The form of the value: "integer", "text", …; 'nil' if that is unknown.
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

  package init() {}

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
    case is any FixedWidthInteger.Type: "integer"
    case is any BinaryFloatingPoint.Type: "number"
    case let known as any CBORFieldKind.Type: known.fieldKind
    default: nil
    }
  }

  private static func plainKind(of type: Any.Type) -> String? {
    switch type {
    case is Int.Type: "integer"
    case is Double.Type: "number"
    case is Bool.Type: "boolean"
    case is String.Type, is Character.Type: "text"
    case is Date.Type: "date"
    case is UUID.Type: "uuid"
    case is Data.Type, is [UInt8].Type: "bytes"
    case is URL.Type: "url"
    case is Decimal.Type: "decimal"
    default: nil
    }
  }

  /// A field as it was written, at an offset.
  static func encoded(_ bytes: [UInt8], at offset: Int) -> CBORFieldLog.Field {
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

private protocol OptionalField {}

extension Optional: OptionalField, CBORFieldKind {
  package static var fieldKind: String? { CBORFieldLog.Field.kind(of: Wrapped.self) }
}
extension Array: CBORFieldKind { package static var fieldKind: String? { "array" } }
extension Set: CBORFieldKind { package static var fieldKind: String? { "array" } }
extension Dictionary: CBORFieldKind { package static var fieldKind: String? { "map" } }

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

extension CBORDocument {
  /// Records that a field was requested.
  func note(_ key: any CodingKey, in map: Int, _ field: CBORFieldLog.Field) {
    log?.note(key.stringValue, in: codingPath(to: map), field)
  }

  /// Records that all keys of a map were requested.
  func noteAllKeys(of map: Int) { log?.noteAllKeys(of: codingPath(to: map)) }
}
