// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Encodes `Codable` values as CBOR.
///
/// ```swift
/// let bytes = try CBOREncoder().encode(user)
/// ```
///
/// The encoding is deterministic (RFC 8949, 4.2.1): numbers in their shortest form, definite
/// lengths, fields in bytewise order of their encoded names. Equal bytes therefore follow from
/// equal values, except where a value itself has no order, such as a `Set`. Several threads may use
/// one encoder at once.
///
/// | Swift | CBOR |
/// |---|---|
/// | integers, `Double` and `Float`, `Bool`, `String`, `nil` | as one expects |
/// | `Data`, `[UInt8]` | byte string |
/// | `Date` | tag 1, seconds since 1970; tag 1001 if those would lose a bit |
/// | `UUID` | tag 37, 16 bytes |
/// | `URL` | tag 32, text |
/// | `Decimal` | tag 4, or an integer if it is one; the float NaN if it is not a number |
/// | `Int128`, `UInt128` beyond 64 bits | tags 2 and 3 |
/// | coding keys, keys of dictionaries | text, also if they have an integer value |
public struct CBOREncoder: Sendable {
  /// The values available to the encoded types as `encoder.userInfo`.
  public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

  /// An encoder without user info.
  public init() {}

  /// Encodes one value.
  ///
  /// - Throws: ``CodecError``: `.tooDeep` beyond 124 values in each other, otherwise what the type
  ///   itself threw. A case of an enum with associated values is two values in each other, so a recursive enum
  ///   may have 61 levels.
  /// - Complexity: O(*n*) in the size of the result; a map whose fields are not encoded in the
  ///   order in which they are stored is sorted once.
  public func encode<Value: Encodable>(_ value: Value) throws(CodecError) -> [UInt8] {
    try encode(value, log: nil)
  }

  /// Encodes one value and records its fields.
  package func encode<Value: Encodable>(
    _ value: Value, log: CBORFieldLog?
  ) throws(CodecError) -> [UInt8] {
    let state = CBOREncodingState(userInfo: userInfo, log: log)
    state.write { $0.reserve(256) }
    do {
      try state.encode(value)
      return try state.finish()
    } catch {
      state.abandon()
      throw CodecError.wrapping(error, operation: .encode, typeName: "\(Value.self)")
    }
  }
}

extension CBOREncoder {
  /// Returns an encoder whose result is dropped.
  package func droppedEncoder() -> any Encoder {
    let state = CBOREncodingState(userInfo: userInfo, log: nil)
    return CBORItemEncoder(state: state, depth: state.rootDepth)
  }
}

/// One value in the making as an `Encoder`: two words, so that `any Encoder` holds it without an
/// allocation.
struct CBORItemEncoder: Encoder {
  let state: CBOREncodingState
  let depth: Int

  var codingPath: [any CodingKey] { state.codingPath(at: depth) }
  var userInfo: [CodingUserInfoKey: Any] { state.userInfo }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    state.open(.map, depth)
    return KeyedEncodingContainer(CBORKeyedEncoding(state: state, depth: depth))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    state.open(.array, depth)
    return CBORUnkeyedEncoding(state: state, depth: depth)
  }

  func singleValueContainer() -> any SingleValueEncodingContainer {
    CBORSingleEncoding(state: state, depth: depth)
  }
}
