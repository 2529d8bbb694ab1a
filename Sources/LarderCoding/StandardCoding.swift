// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// How a cache turns a value into bytes. Plain values bypass `Codable` and the codec: each has a
// separate codec identifier and byte form (`CodecIdentifier`, `ScalarCoding`), whatever codec the
// cache uses. Everything else goes through the codec.
//
// The functions are inlinable and choose by `Value.self == Int.self` and the like: specialised for
// a concrete type, every comparison is a constant and one branch is left.

/// The coding of values in entries: plain values directly, others by a codec.
public enum StandardCoding {
  /// The identifier and the bytes to store for a value.
  ///
  /// - Throws: ``CodecError``; the codec's own error is its underlying error.
  @inlinable
  public static func encode<Value: Encodable, Codec: ValueCodec>(
    _ value: Value, codec: Codec
  ) throws(CodecError) -> (identifier: CodecIdentifier, bytes: [UInt8]) {
    if let plain = encodePlain(value) { return plain }
    do {
      return (codec.identifier, try codec.encode(value))
    } catch {
      throw CodecError.wrapping(error, operation: .encode, typeName: "\(Value.self)")
    }
  }

  /// The value that an entry stores.
  ///
  /// An integer may be read as any integer type it fits, and `Data` and `[UInt8]` as each other.
  /// Entries of Larder's three codecs can be read whatever codec the cache is set to, so a cache
  /// can change its codec and keep its entries.
  ///
  /// - Throws: ``CodecError``: `.typeMismatch` if the entry stores another kind of value,
  ///   `.malformed` if its bytes are damaged, `.outOfRange` if an integer does not fit,
  ///   `.unsupported` if it was written by a codec this process does not have.
  @inlinable
  public static func decode<Value: Decodable, Codec: ValueCodec>(
    _ type: Value.Type, identifier: CodecIdentifier, bytes: [UInt8], codec: Codec
  ) throws(CodecError) -> Value {
    if let plain = try decodePlain(type, identifier: identifier, bytes: bytes) { return plain }
    do {
      if identifier == codec.identifier { return try codec.decode(type, from: bytes) }
      return try decodeOther(type, identifier: identifier, bytes: bytes)
    } catch {
      throw CodecError.wrapping(error, operation: .decode, typeName: "\(Value.self)")
    }
  }

  /// Decodes what another of Larder's codecs wrote; the slow path of a cache whose codec changed.
  @inline(never)
  @usableFromInline
  static func decodeOther<Value: Decodable>(
    _ type: Value.Type, identifier: CodecIdentifier, bytes: [UInt8]
  ) throws -> Value {
    switch identifier {
    case .cbor: return try CBORCodec().decode(type, from: bytes)
    case .json: return try JSONCodec().decode(type, from: bytes)
    case .propertyList: return try PropertyListCodec().decode(type, from: bytes)
    case _ where plainNames[identifier] != nil:
      throw mismatch(type, identifier)
    default:
      throw CodecError(
        .unsupported, operation: .decode, typeName: "\(type)",
        message: "The entry was written by codec \(identifier.rawValue), which this process does "
          + "not have. Give the cache the codec it was written with, or remove the entry.")
    }
  }

  private static let plainNames: [CodecIdentifier: String] = [
    .plainBytes: "bytes", .plainText: "a text", .plainInteger: "an integer",
    .plainDouble: "a Double", .plainFloat: "a Float", .plainBoolean: "a Bool",
    .plainUUID: "a UUID", .plainDate: "a Date",
  ]

  @inline(never)
  @usableFromInline
  static func mismatch<Value>(
    _ type: Value.Type, _ identifier: CodecIdentifier
  ) -> CodecError {
    let stored = plainNames[identifier] ?? "a value of codec \(identifier.rawValue)"
    return CodecError(
      .typeMismatch, operation: .decode, typeName: "\(type)",
      message: "The entry stores \(stored). Read it as that, or remove it and store it again.")
  }

  @inline(never)
  @usableFromInline
  static func malformed<Value>(
    _ type: Value.Type, _ identifier: CodecIdentifier, count: Int
  ) -> CodecError {
    let stored = plainNames[identifier] ?? "a value of codec \(identifier.rawValue)"
    return CodecError(
      .malformed, operation: .decode, typeName: "\(type)",
      message: "These \(count) bytes are not \(stored). Remove the entry and store it again.")
  }

  @inline(never)
  @usableFromInline
  static func outOfRange<Value>(_ type: Value.Type) -> CodecError {
    CodecError(
      .outOfRange, operation: .decode, typeName: "\(type)",
      message: "The stored integer does not fit. Read it as a wider integer type.")
  }
}
