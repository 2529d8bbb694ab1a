// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The identifier, stored in every entry, of the codec that encoded the entry's value.
///
/// 1 to 255 are reserved for Larder; programs use 256 and above. A number once used for stored entries must
/// keep its meaning for as long as entries written with it may exist.
public struct CodecIdentifier: RawRepresentable, Hashable, Sendable {
  /// The number as stored.
  public let rawValue: UInt16

  /// Creates an identifier from its number.
  @inlinable
  public init(rawValue: UInt16) {
    self.rawValue = rawValue
  }

  /// CBOR, RFC 8949 with deterministic encoding.
  @inlinable public static var cbor: CodecIdentifier { CodecIdentifier(rawValue: 1) }
  /// JSON text.
  @inlinable public static var json: CodecIdentifier { CodecIdentifier(rawValue: 2) }
  /// A binary property list: an array of which the value is the only element.
  @inlinable public static var propertyList: CodecIdentifier { CodecIdentifier(rawValue: 3) }

  /// `Data` and `[UInt8]`: the bytes.
  @inlinable public static var plainBytes: CodecIdentifier { CodecIdentifier(rawValue: 16) }
  /// `String`: the UTF-8 bytes.
  @inlinable public static var plainText: CodecIdentifier { CodecIdentifier(rawValue: 17) }
  /// Any integer type: 8 bytes, two's complement, little-endian, or 17 if it does not fit `Int64`.
  @inlinable public static var plainInteger: CodecIdentifier { CodecIdentifier(rawValue: 18) }
  /// `Double`: 8 bytes, IEEE 754, little-endian.
  @inlinable public static var plainDouble: CodecIdentifier { CodecIdentifier(rawValue: 19) }
  /// `Float`: 4 bytes, IEEE 754, little-endian.
  @inlinable public static var plainFloat: CodecIdentifier { CodecIdentifier(rawValue: 20) }
  /// `Bool`: one byte, 0 or 1.
  @inlinable public static var plainBoolean: CodecIdentifier { CodecIdentifier(rawValue: 21) }
  /// `UUID`: 16 bytes in the order they are printed.
  @inlinable public static var plainUUID: CodecIdentifier { CodecIdentifier(rawValue: 22) }
  /// `Date`: seconds since 2001-01-01 00:00:00 UTC as 8 bytes, IEEE 754, little-endian.
  @inlinable public static var plainDate: CodecIdentifier { CodecIdentifier(rawValue: 23) }
}

/// A codec that encodes `Codable` values to bytes and decodes them.
///
/// ```swift
/// let bytes = try CBORCodec().encode(user)
/// let same = try CBORCodec().decode(User.self, from: bytes)
/// ```
///
/// A codec must decode in one process the bytes it encoded in another, and must be safe to use from
/// several threads at once. The bytes passed to `decode` are untrusted: for any bytes, it returns a
/// value or throws.
public protocol ValueCodec: Sendable {
  /// The identifier stored in entries that this codec encoded.
  var identifier: CodecIdentifier { get }

  /// Encodes a value.
  ///
  /// - Parameter value: The value.
  /// - Returns: The bytes.
  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8]

  /// Decodes a value.
  ///
  /// - Parameters:
  ///   - type: The type of the value.
  ///   - bytes: The bytes, which need not come from this codec.
  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}
