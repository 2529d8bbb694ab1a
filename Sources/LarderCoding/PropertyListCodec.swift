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
/// A property list cannot be a lone string or number, so the value is the only element of an array.
/// The slowest of the three codecs by far.
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
  /// - Throws: ``CodecError``.
  public func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    do {
      return Array(try encoder.encode([value]))
    } catch {
      throw CodecError.wrapping(error, operation: .encode, typeName: "\(Value.self)")
    }
  }

  /// Decodes a value from a property list.
  ///
  /// - Throws: ``CodecError``.
  public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    let values: [Value]
    do {
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
