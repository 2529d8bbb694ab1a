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
  /// - Throws: ``CodecError``, also for a `Decimal` that is not a number, and beyond 512 values in each other. The
  ///   encoder of Foundation checks the depth at its end: a value with thousands of levels uses up the stack of the
  ///   thread. ``CBORCodec`` throws for it.
  public func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
    let bytes: [UInt8]
    do {
      bytes = Array(try encoder.encode(value))
    } catch {
      throw CodecError.wrapping(error, operation: .encode, typeName: "\(Value.self)")
    }
    guard JSONNotANumber.isInvalid(bytes, decoder) else { return bytes }
    throw CodecError(
      .encodingFailed, operation: .encode, typeName: "\(Value.self)",
      message: "JSON has no number that is not one (NaN). Store a value the codec can write.")
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

/// The check for the `NaN` that Foundation's encoder writes for a `Decimal`, and that no JSON has.
package enum JSONNotANumber {
  /// Returns whether encoded JSON has a value that the decoder refuses.
  package static func isInvalid(_ json: [UInt8], _ decoder: JSONDecoder) -> Bool {
    guard containsName(json) else { return false }
    return (try? decoder.decode(Anything.self, from: Data(json))) == nil
  }

  /// Returns whether the letters are anywhere in the text, most often not as a number.
  private static func containsName(_ json: [UInt8]) -> Bool {
    var previous = (UInt8(0), UInt8(0))
    for byte in json {
      let isEnd = byte == UInt8(ascii: "N")
      if isEnd, previous == (UInt8(ascii: "N"), UInt8(ascii: "a")) { return true }
      previous = (previous.1, byte)
    }
    return false
  }

  private struct Anything: Decodable {
    init(from decoder: any Decoder) {}
  }
}
