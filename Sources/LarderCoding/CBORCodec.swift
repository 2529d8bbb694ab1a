// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A codec that stores values as CBOR (RFC 8949), the default: compact, fast, and readable in any language.
public struct CBORCodec: ValueCodec {
  /// Creates a codec with the default limits.
  public init() {}

  /// `.cbor`.
  public var identifier: CodecIdentifier { .cbor }

  /// Encodes a value to CBOR.
  ///
  /// - Throws: ``CodecError``.
  public func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    try CBOREncoder().encode(value)
  }

  /// Decodes a value from CBOR.
  ///
  /// - Throws: ``CodecError``.
  public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try CBORDecoder().decode(type, from: bytes)
  }
}

extension ValueCodec where Self == CBORCodec {
  /// CBOR, RFC 8949, with deterministic encoding.
  @inlinable
  public static var cbor: CBORCodec { CBORCodec() }
}
