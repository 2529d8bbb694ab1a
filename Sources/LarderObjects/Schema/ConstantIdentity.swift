// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

// CONSTANTS THAT READ THE SAME
//
// A partial index is recognized by its condition, and a page by its query. Both were known by their
// description, and a type may describe two values in the same way: `Data` says its length only. So a
// constant whose description is not exact is known by its encoded bytes as well.

/// What tells the constants of a comparison from others that are described in the same way.
enum ConstantIdentity: Sendable, Hashable {
  /// The description says all.
  case text
  /// These bytes do.
  case encoded([UInt8])
  /// Nothing does.
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

  /// Of several constants.
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

  private static func encoding(_ value: some Encodable) -> ConstantIdentity {
    guard let bytes = try? CBOREncoder().encode(InArray(value: value)) else { return .unknown }
    return .encoded(bytes)
  }

  /// So that a missing value is one, too.
  private struct InArray<Value: Encodable>: Encodable {
    let value: Value

    func encode(to encoder: any Encoder) throws {
      var container = encoder.unkeyedContainer()
      try container.encode(value)
    }
  }

  /// What is added to the description.
  var suffix: String {
    switch self {
    case .text: ""
    case .encoded(let bytes): " #" + KeyTextFormat.display(tag: .bytes, bytes: bytes)
    case .unknown: " #?"
    }
  }
}
