// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Which values can be alike: those that a program could compare, or that a query text writes for them.

extension ValueShape {
  /// Returns the shape of `count` or `isEmpty`.
  static func count(_ name: String) -> ValueShape {
    ValueShape(kind: name == "count" ? "integer" : "boolean", isOptional: false)
  }

  /// The kind in a sentence.
  var noun: String {
    switch family {
    case "integer": "an integer"
    case "array": "a list"
    case "map": "a structure"
    case "uuid": "a UUID"
    case "url": "a URL"
    case "boolean": "true or false"
    case "bytes": "bytes"
    case "value": "of an unknown kind"
    default: "a \(family)"
    }
  }

  var isOrdered: Bool {
    ["integer", "number", "decimal", "date", "text", "url", "value"].contains(family)
  }

  private var isNumber: Bool { ["integer", "number", "decimal", "date"].contains(family) }

  func isLike(_ other: ValueShape) -> Bool {
    kind == "value" || other.kind == "value" || family == other.family
      || isNumber && other.isNumber || isText && other.isText
  }

  private var isText: Bool { ["text", "url", "uuid", "reference"].contains(family) }

  func isLike(_ constant: ComparableValue) -> Bool {
    switch constant {
    case .nothing: true
    case .boolean: family == "boolean" || kind == "value"
    case .integer, .real, .decimal: isNumber || kind == "value"
    case .date: ["date", "number", "integer", "value"].contains(family)
    case .text(let text):
      family == "uuid" ? ComparableValue.uuid(text) != nil : isText || kind == "value"
    case .array: family == "array" || kind == "value" || family == "map"
    case .uuid, .bytes, .map, .other: true
    }
  }
}

extension ComparableValue {
  /// The kind of a constant in a sentence.
  var noun: String {
    switch self {
    case .nothing: "nothing"
    case .boolean: "true or false"
    case .integer, .real, .decimal: "a number"
    case .date: "a date"
    case .text: "a text"
    case .uuid: "a UUID"
    case .bytes: "bytes"
    case .array: "a list"
    case .map, .other: "another value"
    }
  }
}
