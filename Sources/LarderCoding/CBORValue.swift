// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A CBOR data item as a value, for tools and tests without the Swift types.
///
/// ```swift
/// let value = try CBORValue(parsing: entry.bytes)
/// print(value.jsonText(pretty: true))
/// ```
public indirect enum CBORValue: Hashable, Sendable {
  /// A non-negative integer.
  case unsigned(UInt64)
  /// The integer `-1 - n`.
  case negative(UInt64)
  /// A byte string.
  case bytes([UInt8])
  /// A text.
  case text(String)
  /// An array.
  case array([CBORValue])
  /// A map, in the order of the bytes.
  case map([Pair])
  /// A tagged item.
  case tagged(UInt64, CBORValue)
  /// A boolean.
  case boolean(Bool)
  /// `null`.
  case null
  /// `undefined`.
  case undefined
  /// A simple value without an assigned meaning.
  case simple(UInt8)
  /// A floating-point number of any width.
  case float(Double)

  /// One entry of a map.
  public struct Pair: Hashable, Sendable {
    /// The key, which may be any item.
    public var key: CBORValue
    /// The value.
    public var value: CBORValue

    /// Creates an entry.
    public init(_ key: CBORValue, _ value: CBORValue) {
      self.key = key
      self.value = value
    }
  }

  /// Parses one data item that fills the bytes.
  ///
  /// - Throws: ``CodecError`` if the bytes are not well-formed, nest too deeply, hold a text that
  ///   is not UTF-8, a map with two equal keys, or more than one item.
  public init(parsing bytes: [UInt8]) throws(CodecError) {
    do {
      self = try CBORDocument(scanning: bytes, userInfo: [:]).value(at: 0)
    } catch {
      throw error.failure(decoding: "CBOR")
    }
  }

  /// The item in deterministic encoding (RFC 8949, 4.2.1).
  public var encoded: [UInt8] {
    var writer = CBORWriter()
    write(to: &writer)
    return writer.bytes
  }

  private func write(to writer: inout CBORWriter) {
    switch self {
    case .unsigned(let value): writer.write(value)
    case .negative(let value): writer.write(negative: value)
    case .bytes(let value): writer.write(bytes: value)
    case .text(let value): writer.write(text: value)
    case .boolean(let value): writer.write(value)
    case .null: writer.writeNull()
    case .undefined: writer.writeUndefined()
    case .simple(let value): writer.write(simple: value)
    case .float(let value): writer.write(value)
    case .tagged(let tag, let value):
      writer.write(tag: tag)
      value.write(to: &writer)
    case .array(let values):
      writer.beginArray(count: values.count)
      for value in values { value.write(to: &writer) }
    case .map(let pairs):
      writer.beginMap(count: pairs.count)
      let encoded = pairs.map { (key: $0.key.encoded, value: $0.value) }
      for pair in encoded.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
        writer.bytes.append(contentsOf: pair.key)
        pair.value.write(to: &writer)
      }
    }
  }
}

extension CBORDocument {
  /// The item as a value. The scanner's limit bounds the recursion.
  func value(at offset: Int) -> CBORValue {
    let initial = bytes[offset]
    switch initial >> 5 {
    case 0: return .unsigned(argument(at: offset))
    case 1: return .negative(argument(at: offset))
    case 2: return .bytes(Array(content(at: offset)))
    case 3: return .text(String(decoding: content(at: offset), as: UTF8.self))
    case 4: return .array(children(of: offset).map { value(at: $0) })
    case 5:
      let children = children(of: offset)
      return .map(
        stride(from: 0, to: children.count, by: 2).map { first in
          CBORValue.Pair(value(at: children[first]), value(at: children[first + 1]))
        })
    case 6: return .tagged(argument(at: offset), value(at: inside(offset)))
    default:
      switch initial {
      case 0xf4, 0xf5: return .boolean(initial == 0xf5)
      case 0xf6: return .null
      case 0xf7: return .undefined
      case 0xf9, 0xfa, 0xfb: return .float(float(at: offset))
      default: return .simple(UInt8(truncatingIfNeeded: argument(at: offset)))
      }
    }
  }
}
