// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Decodes `Codable` values from CBOR.
///
/// ```swift
/// let user = try CBORDecoder().decode(User.self, from: bytes)
/// ```
///
/// Decodes every well-formed encoding, of any encoder. Fields may be in any order; fields that the
/// type does not have are ignored. Several threads may use one decoder at once.
public struct CBORDecoder: Sendable {
  /// The values available to the decoded types as `decoder.userInfo`.
  public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

  /// A decoder without user info.
  public init() {}

  /// Decodes one value that fills the bytes.
  ///
  /// - Throws: ``CodecError``: `.malformed` or `.tooDeep` if the bytes are not CBOR that can be
  ///   read, `.typeMismatch` or `.missingValue` if they hold something else, and otherwise what the
  ///   type itself threw.
  /// - Complexity: O(*n*) in the number of bytes; a field that is not decoded in the order of the
  ///   bytes costs a search over the fields of its map.
  public func decode<Value: Decodable>(
    _ type: Value.Type, from bytes: [UInt8]
  ) throws(CodecError) -> Value {
    try decode(type, from: bytes, log: nil)
  }

  /// Decodes one value and records the fields that it requests.
  package func decode<Value: Decodable>(
    _ type: Value.Type, from bytes: [UInt8], log: CBORFieldLog?
  ) throws(CodecError) -> Value {
    let document: CBORDocument
    do {
      document = try CBORDocument(scanning: bytes, userInfo: userInfo, log: log)
    } catch {
      throw error.failure(decoding: "\(type)")
    }
    do {
      return try document.decode(type, at: 0)
    } catch {
      throw document.completed(
        CodecError.wrapping(error, operation: .decode, typeName: "\(type)"))
    }
  }
}

extension CBORDecoder {
  /// Returns a decoder of one value that fills the bytes.
  package func decoder(of bytes: [UInt8]) throws(CodecError) -> any Decoder {
    do {
      return CBORItemDecoder(
        document: try CBORDocument(scanning: bytes, userInfo: userInfo), offset: 0)
    } catch {
      throw error.failure(decoding: "an object")
    }
  }
}

/// One item as a `Decoder`: two words, so that `any Decoder` holds it without an allocation.
struct CBORItemDecoder: Decoder {
  let document: CBORDocument
  let offset: Int

  var codingPath: [any CodingKey] { document.codingPath(to: offset) }
  var userInfo: [CodingUserInfoKey: Any] { document.userInfo }

  func container<Key: CodingKey>(
    keyedBy type: Key.Type
  ) throws -> KeyedDecodingContainer<Key> {
    KeyedDecodingContainer(try document.keyedContainer(Key.self, at: offset))
  }

  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    try document.unkeyedContainer(at: offset)
  }

  func singleValueContainer() -> any SingleValueDecodingContainer {
    CBORSingleDecoding(document: document, offset: offset)
  }
}

extension CBORDocument {
  func keyedContainer<Key: CodingKey>(
    _ type: Key.Type, at offset: Int
  ) throws -> CBORKeyedDecoding<Key> {
    let map = untagged(offset)
    guard bytes[map] >> 5 == 5 else { throw mismatch([String: Any].self, at: offset) }
    return CBORKeyedDecoding(document: self, map: map)
  }

  func unkeyedContainer(at offset: Int) throws -> CBORUnkeyedDecoding {
    let array = untagged(offset)
    guard bytes[array] >> 5 == 4 else { throw mismatch([Any].self, at: offset) }
    return CBORUnkeyedDecoding(document: self, array: array)
  }
}
