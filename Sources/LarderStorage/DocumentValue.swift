// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A JSON document or a property list as a `Sendable` value.
///
/// ```swift
/// let document: DocumentValue = ["name": "Ada", "scores": [1, 2.5]]
/// let name = document["name"]?.text
/// ```
public enum DocumentValue: Sendable, Hashable, Codable {
  /// The absence of a value.
  case null
  /// A Boolean value.
  case boolean(Bool)
  /// A signed 64-bit integer.
  case integer(Int64)
  /// A floating-point number.
  case number(Double)
  /// A string.
  case text(String)
  /// Property lists only; in JSON it becomes a text.
  case data(Data)
  /// Property lists only; in JSON it becomes a number.
  case date(Date)
  /// A list of values.
  case array([DocumentValue])
  /// Values by name.
  case dictionary([String: DocumentValue])

  public init(from decoder: any Decoder) throws {
    if let fields = try? [String: DocumentValue](from: decoder) {
      self = .dictionary(fields)
      return
    }
    if let values = try? [DocumentValue](from: decoder) {
      self = .array(values)
      return
    }
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .boolean(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .integer(value)
    } else if let value = try? container.decode(Double.self) {
      self = .number(value)
    } else if let value = try? container.decode(String.self) {
      self = .text(value)
    } else if let value = try? container.decode(Date.self) {
      self = .date(value)
    } else {
      self = .data(try container.decode(Data.self))
    }
  }

  public func encode(to encoder: any Encoder) throws {
    switch self {
    case .dictionary(let fields): return try fields.encode(to: encoder)
    case .array(let values): return try values.encode(to: encoder)
    default: break
    }
    var container = encoder.singleValueContainer()
    switch self {
    case .boolean(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .text(let value): try container.encode(value)
    case .data(let value): try container.encode(value)
    case .date(let value): try container.encode(value)
    case .null, .array, .dictionary: try container.encodeNil()
    }
  }

  /// The field of a dictionary.
  public subscript(field: String) -> DocumentValue? {
    if case .dictionary(let fields) = self { fields[field] } else { nil }
  }

  /// The string, or `nil` for other values.
  public var text: String? { if case .text(let value) = self { value } else { nil } }
  /// The whole number, if it is one.
  public var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
  /// The number, if it is one.
  public var number: Double? {
    switch self {
    case .number(let value): value
    case .integer(let value): Double(value)
    default: nil
    }
  }
  /// The truth value, if it is one.
  public var boolean: Bool? { if case .boolean(let value) = self { value } else { nil } }
}

extension DocumentValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral, ExpressibleByNilLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  public init(stringLiteral value: String) { self = .text(value) }
  public init(integerLiteral value: Int64) { self = .integer(value) }
  public init(floatLiteral value: Double) { self = .number(value) }
  public init(booleanLiteral value: Bool) { self = .boolean(value) }
  public init(nilLiteral: ()) { self = .null }
  public init(arrayLiteral elements: DocumentValue...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (String, DocumentValue)...) {
    self = .dictionary(Dictionary(elements) { $1 })
  }
}
