// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The number, stored in every entry, that says how the entry's value was turned into bytes.
///
/// 1 to 255 are Larder's own, 256 and above are yours. A number once used for stored entries must
/// keep its meaning for as long as entries written with it may exist.
public struct CodecIdentifier: RawRepresentable, Hashable, Sendable {
  /// The number as stored.
  public let rawValue: UInt16

  /// Makes an identifier of its number.
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

/// A way to turn `Codable` values into bytes and back.
///
/// ```swift
/// let bytes = try CBORCodec().encode(user)
/// let same = try CBORCodec().decode(User.self, from: bytes)
/// ```
///
/// A codec must be able to read in one process what it wrote in another, and must be safe to use
/// from several threads at once. Bytes handed to `decode` are untrusted: whatever they are, it
/// returns a value or throws.
public protocol ValueCodec: Sendable {
  /// The number stored in entries that this codec wrote.
  var identifier: CodecIdentifier { get }

  /// Turns a value into bytes.
  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8]

  /// Turns bytes into a value.
  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}
