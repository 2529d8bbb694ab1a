// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// Decoding of the standard library's types. Tags around an item are skipped, unless they determine
// the type of the item.
extension CBORDocument {
  func boolean(at offset: Int) throws -> Bool {
    let initial = bytes[untagged(offset)]
    guard initial & 0xfe == 0xf4 else { throw mismatch(Bool.self, at: offset) }
    return initial == 0xf5
  }

  func text(at offset: Int) throws -> String {
    let item = untagged(offset)
    guard bytes[item] >> 5 == 3 else { throw mismatch(String.self, at: offset) }
    return String(decoding: content(at: item), as: UTF8.self)
  }

  func byteString(at offset: Int) throws -> ArraySlice<UInt8> {
    let item = untagged(offset)
    guard bytes[item] >> 5 == 2 else { throw mismatch([UInt8].self, at: offset) }
    return content(at: item)
  }

  @inline(__always)
  func integer<Integer: FixedWidthInteger>(
    _ type: Integer.Type, at offset: Int
  ) throws -> Integer {
    let initial = bytes[offset]
    if initial < 0x18 { return Integer(truncatingIfNeeded: initial) }
    return try longInteger(type, at: offset)
  }

  private func longInteger<Integer: FixedWidthInteger>(
    _ type: Integer.Type, at offset: Int
  ) throws -> Integer {
    switch bytes[offset] >> 5 {
    case 0:
      if let value = Integer(exactly: argument(at: offset)) { return value }
    case 1:
      let magnitude = argument(at: offset)
      if magnitude <= UInt64(Int64.max) {
        if let value = Integer(exactly: ~Int64(magnitude)) { return value }
      } else if let value = Integer(exactly: ~Int128(magnitude)) {
        return value
      }
    case 6:
      switch argument(at: offset) {
      case CBORTag.positiveBigInteger:
        if let value = try magnitude(at: offset).flatMap({ Integer(exactly: $0) }) { return value }
      case CBORTag.negativeBigInteger:
        if let magnitude = try magnitude(at: offset).flatMap({ Int128(exactly: $0) }),
          let value = Integer(exactly: ~magnitude)
        {
          return value
        }
      default:
        return try integer(type, at: inside(offset))
      }
    default:
      throw mismatch(type, at: offset)
    }
    throw corrupted("The number does not fit \(type).", at: offset)
  }

  /// The bytes of a tagged big integer as a number; `nil` if they are more than 128 bits.
  func magnitude(at offset: Int) throws -> UInt128? {
    let digits = try byteString(at: inside(offset)).drop { $0 == 0 }
    guard digits.count <= 16 else { return nil }
    return digits.reduce(0) { $0 << 8 | UInt128($1) }
  }

  func double(at offset: Int) throws -> Double {
    let item = untagged(offset)
    switch bytes[item] {
    case 0xf9, 0xfa, 0xfb: return float(at: item)
    case 0x00...0x3f:
      // Writers in other languages store whole numbers as integers.
      if bytes[item] < 0x20 { return Double(argument(at: item)) }
      return -1 - Double(argument(at: item))
    default: throw mismatch(Double.self, at: offset)
    }
  }

  func single(at offset: Int) throws -> Float {
    let value = try double(at: offset)
    let single = Float(value)
    guard single.isFinite || !value.isFinite else {
      throw corrupted("The number does not fit Float.", at: offset)
    }
    return single
  }

  /// The value of a floating-point item.
  func float(at item: Int) -> Double {
    switch bytes[item] {
    case 0xf9:
      return HalfFloat.value(bits: UInt16(truncatingIfNeeded: word(after: item, count: 2)))
    case 0xfa:
      let bits = UInt32(truncatingIfNeeded: word(after: item, count: 4))
      return Double(Float(bitPattern: bits))
    default:
      return Double(bitPattern: word(after: item, count: 8))
    }
  }

  // MARK: Errors

  func mismatch(_ wanted: Any.Type, at offset: Int) -> DecodingError {
    let item = untagged(offset)
    let context = DecodingError.Context(
      codingPath: errorPath(to: offset), debugDescription: "\(found(at: item)) is stored here.")
    if isNull(at: item) { return .valueNotFound(wanted, context) }
    return .typeMismatch(wanted, context)
  }

  func corrupted(_ problem: String, at offset: Int) -> DecodingError {
    .dataCorrupted(
      DecodingError.Context(codingPath: errorPath(to: offset), debugDescription: problem))
  }

  func missing(_ key: any CodingKey, in map: Int) -> DecodingError {
    .keyNotFound(
      key, DecodingError.Context(codingPath: errorPath(to: map), debugDescription: ""))
  }

  private func found(at item: Int) -> String {
    switch bytes[item] >> 5 {
    case 0, 1: return "An integer"
    case 2: return "A byte string"
    case 3: return "A text"
    case 4: return "An array"
    case 5: return "A map"
    default:
      switch bytes[item] {
      case 0xf4, 0xf5: return "A boolean"
      case 0xf6, 0xf7: return "Null"
      case 0xf9, 0xfa, 0xfb: return "A floating-point number"
      default: return "A simple value"
      }
    }
  }
}
