// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

// CONSTANTS WITH EQUAL DESCRIPTIONS
//
// A partial index is identified by its condition, and a page by its query. A description is not
// sufficient, because a type may describe two values in the same way: `Data` prints only its
// length. So a constant without an exact description is identified by its encoded bytes as well.

/// The identity of a comparison's constants beyond their description.
enum ConstantIdentity: Sendable, Hashable {
  /// The description is exact.
  case text
  /// The encoded bytes identify the constants.
  case encoded([UInt8])
  /// The constants cannot be identified.
  case unknown

  init<Value: Sendable>(_ value: Value) {
    switch value {
    case is String, is Bool, is Int, is Double, is Float, is UUID, is Date: self = .text
    case is any FixedWidthInteger: self = .text
    case let value as any Encodable: self = Self.encoding(value)
    case let value as any IndexValue: self = .encoded(value.indexKey)
    default: self = .unknown
    }
  }

  /// Creates the identity of several constants.
  init<Value: Sendable>(all values: [Value]) {
    var bytes: [UInt8] = []
    for value in values {
      switch ConstantIdentity(value) {
      case .text: continue
      case .encoded(let encoded): bytes += encoded
      case .unknown:
        self = .unknown
        return
      }
    }
    self = bytes.isEmpty ? .text : .encoded(bytes)
  }

  /// Creates the identity of the constants of several comparisons that a text identifies.
  init(combining parts: [ConstantIdentity], as text: String) {
    if parts.contains(.unknown) {
      self = .unknown
    } else {
      self = parts.allSatisfy { $0 == .text } ? .text : .encoded(Array(text.utf8))
    }
  }

  private static func encoding(_ value: some Encodable) -> ConstantIdentity {
    guard let bytes = try? CBOREncoder().encode(InArray(value: value)) else { return .unknown }
    return .encoded(bytes)
  }

  /// A wrapper that makes `nil` encodable.
  private struct InArray<Value: Encodable>: Encodable {
    let value: Value

    func encode(to encoder: any Encoder) throws {
      var container = encoder.unkeyedContainer()
      try container.encode(value)
    }
  }

  /// The suffix of the description.
  var suffix: String {
    switch self {
    case .text: ""
    case .encoded(let bytes): " #" + KeyTextFormat.display(tag: .bytes, bytes: bytes)
    case .unknown: " #?"
    }
  }
}
