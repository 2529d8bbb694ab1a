// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A codec that stores values as JSON text, for entries that people or programs in other languages read.
///
/// Several times slower than ``CBORCodec`` in both directions. Dates are numbers of seconds since
/// 2001 and `Data` is base64 unless the given encoder and decoder have other settings.
public struct JSONCodec: ValueCodec {
  private let encoder: JSONEncoder
  private let decoder: JSONDecoder

  /// A codec that writes fields in alphabetic order, so that equal values are equal bytes.
  public init() {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    self.init(encoder: encoder, decoder: JSONDecoder())
  }

  /// A codec of your own settings; do not change either coder afterwards.
  public init(encoder: JSONEncoder, decoder: JSONDecoder) {
    self.encoder = encoder
    self.decoder = decoder
  }

  /// `.json`.
  public var identifier: CodecIdentifier { .json }

  /// Encodes a value to JSON text.
  ///
  /// - Throws: ``CodecError``.
  public func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    do {
      return Array(try encoder.encode(value))
    } catch {
      throw CodecError.wrapping(error, operation: .encode, typeName: "\(Value.self)")
    }
  }

  /// Decodes a value from JSON text.
  ///
  /// - Throws: ``CodecError``.
  public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    do {
      return try decoder.decode(Value.self, from: Data(bytes))
    } catch {
      throw CodecError.wrapping(error, operation: .decode, typeName: "\(Value.self)")
    }
  }
}

extension ValueCodec where Self == JSONCodec {
  /// JSON text with fields in alphabetic order.
  public static var json: JSONCodec { JSONCodec() }
}
