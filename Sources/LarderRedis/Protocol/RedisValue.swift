// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// A value of RESP3, the protocol of Redis and Valkey.
public enum RedisValue: Sendable, Hashable {
  /// No value.
  case null
  /// An integer of 64 bits.
  case integer(Int)
  /// A floating-point number.
  case double(Double)
  /// A Boolean value.
  case boolean(Bool)
  /// An integer with more than 64 bits, in decimal digits.
  case bigNumber(String)
  /// A string of any form: simple, bulk or verbatim. Redis does not say whether it is text.
  case bytes([UInt8])
  /// The elements of an array, in their order.
  case array([RedisValue])
  /// The elements of a set, in any order.
  case set([RedisValue])
  /// The pairs in the order of the reply; a server may repeat a key.
  case map([Pair])
  /// An error as an element of a reply, for example of a transaction.
  case error(RedisReplyError)

  /// A key of a map with its value.
  public struct Pair: Sendable, Hashable {
    /// The key.
    public let key: RedisValue
    /// The value.
    public let value: RedisValue

    package init(key: RedisValue, value: RedisValue) {
      self.key = key
      self.value = value
    }
  }

  /// The bytes of a string.
  public var bytes: [UInt8]? {
    if case .bytes(let bytes) = self { bytes } else { nil }
  }

  /// The text of a string that is UTF-8.
  public var text: String? { bytes.flatMap { String(validating: $0, as: UTF8.self) } }

  /// The value of an integer.
  public var integer: Int? {
    if case .integer(let value) = self { value } else { nil }
  }

  /// The elements of an array or a set.
  public var elements: [RedisValue]? {
    switch self {
    case .array(let elements), .set(let elements): elements
    default: nil
    }
  }

  /// Returns the value of the first text key of a map that is equal to a name.
  ///
  /// - Complexity: O(*n*) in the pairs.
  public subscript(name: String) -> RedisValue? {
    guard case .map(let pairs) = self else { return nil }
    return pairs.first { $0.key.text == name }?.value
  }
}

/// An error reply of the server, such as `WRONGTYPE Operation against a key …`.
public struct RedisReplyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The complete text.
  public let description: String
  /// The first word, by which programs tell errors apart: `ERR`, `WRONGTYPE`, `MOVED`.
  public var code: Substring { description.prefix { $0 != " " } }

  package init(_ text: String) { description = text }
}
#endif
