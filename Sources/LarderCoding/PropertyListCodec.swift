// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A codec that stores values as binary property lists.
///
/// A property list cannot be a lone string or number, so the value is the only element of an array. A value with
/// the text `$null`, which a property list's decoder reads as `nil`, is stored as an array of its CBOR and the
/// text `CBOR`. The slowest of the three codecs by far.
///
/// A list nests at most 128 levels deep; a case of an enum with associated values is two of them, so a recursive
/// enum may have 63 levels.
public struct PropertyListCodec: ValueCodec {
  private let encoder: PropertyListEncoder
  private let decoder: PropertyListDecoder

  /// Creates a codec that writes binary property lists.
  public init() {
    let encoder = PropertyListEncoder()
    encoder.outputFormat = .binary
    self.init(encoder: encoder, decoder: PropertyListDecoder())
  }

  /// Creates a codec from configured coders; do not change either coder afterwards.
  public init(encoder: PropertyListEncoder, decoder: PropertyListDecoder) {
    self.encoder = encoder
    self.decoder = decoder
  }

  /// `.propertyList`.
  public var identifier: CodecIdentifier { .propertyList }

  /// Encodes a value to a property list.
  ///
  /// - Throws: ``CodecError``: `.tooDeep` for a list that could not be decoded. The encoder of Foundation has no
  ///   limit: a value with thousands of levels uses up the stack of the thread. ``CBORCodec`` throws for it.
  public func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    let list: [UInt8]
    do {
      list = try encodedList(value)
    } catch {
      throw CodecError.wrapping(error, operation: .encode, typeName: "\(Value.self)")
    }
    guard let reason = PropertyListDepthLimit.rejectionReason(writing: list) else { return list }
    throw CodecError(
      .tooDeep, operation: .encode, typeName: "\(Value.self)",
      message:
        "The property list \(reason), so it could not be decoded. Store its parts under separate keys."
    )
  }

  private func encodedList<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    let list = try encoder.encode([value])
    guard PropertyListNull.isInBytes(list),
      let cbor = try PropertyListNull.cbor(value, encoder.userInfo)
    else { return Array(list) }
    return Array(try encoder.encode(CBORInList(bytes: Data(cbor))))
  }

  /// Decodes a value from a property list.
  ///
  /// - Throws: ``CodecError``.
  public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    if let rejectionReason = PropertyListDepthLimit.rejectionReason(to: bytes) {
      throw CodecError(
        .tooDeep, operation: .decode, typeName: "\(Value.self)",
        message:
          "The property list \(rejectionReason). Remove the entry and store it again, its parts "
          + "under separate keys.")
    }
    let values: [Value]
    do {
      if let cbor = CBORInList.bytes(in: bytes, decoder) {
        var cborDecoder = CBORDecoder()
        cborDecoder.userInfo = decoder.userInfo
        return try cborDecoder.decode(type, from: cbor)
      }
      values = try decoder.decode([Value].self, from: Data(bytes))
    } catch {
      throw CodecError.wrapping(error, operation: .decode, typeName: "\(Value.self)")
    }
    guard let value = values.first, values.count == 1 else {
      throw CodecError(
        .malformed, operation: .decode, typeName: "\(Value.self)",
        message: "The property list holds \(values.count) values where one is expected. "
          + "Remove the entry and store it again.")
    }
    return value
  }
}

extension PropertyListCodec {
  /// Decodes the property list of an item of PersistentCacheKit into its parts.
  ///
  /// - Throws: ``CodecError``.
  package func decode<Value: Decodable>(
    itemOf type: Value.Type, from bytes: [UInt8]
  ) throws -> (value: Value, expiration: Date?) {
    do {
      let item = try decoder.decode(OldItem<Value>.self, from: Data(bytes))
      return (item.value, item.expiration)
    } catch {
      throw CodecError.wrapping(error, operation: .decode, typeName: "\(Value.self)")
    }
  }
}

extension ValueCodec where Self == PropertyListCodec {
  /// Binary property lists.
  public static var propertyList: PropertyListCodec { PropertyListCodec() }
}

/// An item as PersistentCacheKit stores it.
private struct OldItem<Value: Decodable>: Decodable {
  var value: Value
  var expiration: Date?
}

/// The search for the text that a property list's decoder takes for `nil`.
package enum PropertyListNull {
  private static let text = "$null"

  /// Whether an encoded list may have the text, or a `nil`.
  package static func isInBytes(_ list: Data) -> Bool {
    list.firstRange(of: Data(text.utf8)) != nil
  }

  /// Whether a text or key in a value is the one that is taken for `nil`.
  ///
  /// - Throws: ``CodecError`` if the value cannot be encoded as CBOR.
  package static func isText(in value: some Encodable) throws -> Bool {
    try cbor(value, [:]) != nil
  }

  /// Returns the value in CBOR if a text or key in it is the one that is taken for `nil`.
  ///
  /// - Throws: ``CodecError``.
  static func cbor<Value: Encodable>(
    _ value: Value, _ userInfo: [CodingUserInfoKey: any Sendable]
  ) throws -> [UInt8]? {
    var encoder = CBOREncoder()
    encoder.userInfo = userInfo
    let cbor = try encoder.encode(value)
    return contains(try CBORValue(parsing: cbor)) ? cbor : nil
  }

  private static func contains(_ value: CBORValue) -> Bool {
    switch value {
    case .text(let text): text == Self.text
    case .array(let items): items.contains { contains($0) }
    case .map(let pairs): pairs.contains { contains($0.key) || contains($0.value) }
    case .tagged(_, let inner): contains(inner)
    default: false
    }
  }
}

/// CBOR in a property list: an array of two elements, so that it is not that of a value.
private struct CBORInList: Codable {
  private static let name = "CBOR"
  let bytes: Data

  init(bytes: Data) { self.bytes = bytes }

  init(from decoder: any Decoder) throws {
    var list = try decoder.unkeyedContainer()
    bytes = try list.decode(Data.self)
    guard try list.decode(String.self) == Self.name, list.isAtEnd else {
      throw DecodingError.dataCorruptedError(
        in: list, debugDescription: "It is not CBOR in a list.")
    }
  }

  func encode(to encoder: any Encoder) throws {
    var list = encoder.unkeyedContainer()
    try list.encode(bytes)
    try list.encode(Self.name)
  }

  /// Returns the CBOR in a list, or `nil` if the list is another one.
  static func bytes(in list: [UInt8], _ decoder: PropertyListDecoder) -> [UInt8]? {
    let list = Data(list)
    guard list.firstRange(of: Data(name.utf8)) != nil else { return nil }
    return (try? decoder.decode(CBORInList.self, from: list)).map { Array($0.bytes) }
  }
}
