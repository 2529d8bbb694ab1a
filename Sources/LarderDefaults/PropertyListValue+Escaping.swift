// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation

// THE STRING "$null"
//
// `PropertyListEncoder` writes null as the string "$null", and the decoder reads every such string as null, also
// as a key. A property list has no null, so here it is a string like any other: before the decoder reads a list,
// each string that begins with "$" gets another "$", and loses it again afterwards.
//
// A list is written and read by `PropertyListSerialization`, so that the two agree about dates before the year
// 1582 in XML, about which the encoder and the serialization differ.

extension PropertyListValue {
  /// The value as `PropertyListSerialization` writes it.
  var object: Any {
    switch self {
    case .string(let value): value
    case .integer(let value): NSNumber(value: value)
    case .unsigned(let value): NSNumber(value: value)
    case .real(let value): NSNumber(value: value)
    case .boolean(let value): NSNumber(value: value)
    case .date(let value): value
    case .data(let value): value
    case .array(let values): values.map(\.object)
    case .dictionary(let fields): fields.mapValues(\.object)
    }
  }

  /// Returns the values by key of a property list that is not too deep.
  ///
  /// - Throws: The errors of Foundation, or `DecodingError` if the list is not one of a dictionary.
  static func values(of list: Data) throws -> [String: PropertyListValue] {
    // The parameter for the format is a pointer; nil is safe.
    let object = try unsafe PropertyListSerialization.propertyList(
      from: list, options: [], format: nil)
    let escaped = try PropertyListSerialization.data(
      fromPropertyList: Self.escaped(object), format: .binary, options: 0)
    let values = try PropertyListDecoder().decode([String: PropertyListValue].self, from: escaped)
    return Dictionary(
      uniqueKeysWithValues: values.map { (Self.unescaped($0.key), $0.value.unescaped) })
  }

  private static func escaped(_ text: String) -> String {
    text.utf8.first == mark ? "$" + text : text
  }

  private static func unescaped(_ text: String) -> String {
    text.utf8.first == mark ? String(text.unicodeScalars.dropFirst()) : text
  }

  private static let mark = UInt8(ascii: "$")

  private static func escaped(_ object: Any) -> Any {
    switch object {
    case let text as String: escaped(text)
    case let list as [Any]: list.map { escaped($0) }
    case let fields as [String: Any]:
      Dictionary(uniqueKeysWithValues: fields.map { (escaped($0.key), escaped($0.value)) })
    default: object
    }
  }

  private var unescaped: PropertyListValue {
    switch self {
    case .string(let text): .string(Self.unescaped(text))
    case .array(let values): .array(values.map(\.unescaped))
    case .dictionary(let fields):
      .dictionary(
        Dictionary(
          uniqueKeysWithValues: fields.map { (Self.unescaped($0.key), $0.value.unescaped) }))
    default: self
    }
  }
}
