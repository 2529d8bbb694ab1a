// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

// Values that have a CBOR form of their own, or that are so common that their own `encode(to:)`
// would cost more than they do. The type comparisons are pointer comparisons.
extension CBOREncoding {
  /// Writes a value of any type.
  func encode<Value: Encodable>(_ value: Value) throws {
    if Value.self == String.self {
      writer.write(text: value as! String)
    } else if Value.self == Int.self {
      writer.write(value as! Int)
    } else if Value.self == Double.self {
      writer.write(value as! Double)
    } else if Value.self == UUID.self {
      writer.write(tag: CBORTag.uuid)
      writer.head(0x40, 16)
      PlainBytes.append(uuid: value as! UUID, to: &writer.bytes)
    } else if Value.self == Date.self {
      CBORDate.write(value as! Date, to: &writer)
    } else if Value.self == Data.self {
      writer.write(bytes: value as! Data)
    } else if try !encodeList(value) {
      try encodeRare(value)
    }
  }

  private func encodeList<Value: Encodable>(_ value: Value) throws -> Bool {
    if Value.self == [String].self {
      let elements = value as! [String]
      writer.beginArray(count: elements.count)
      for element in elements { writer.write(text: element) }
    } else if Value.self == [Int].self {
      let elements = value as! [Int]
      writer.beginArray(count: elements.count)
      for element in elements { writer.write(element) }
    } else if Value.self == [Double].self {
      let elements = value as! [Double]
      writer.beginArray(count: elements.count)
      for element in elements { writer.write(element) }
    } else if Value.self == [UInt8].self {
      writer.write(bytes: value as! [UInt8])
    } else {
      return false
    }
    return true
  }

  private func encodeRare<Value: Encodable>(_ value: Value) throws {
    if Value.self == URL.self, let url = value as? URL, url.baseURL == nil {
      writer.write(tag: CBORTag.uri)
      writer.write(text: url.absoluteString)
    } else if Value.self == Decimal.self {
      try encode(decimal: value as! Decimal)
    } else {
      try nest(value)
    }
  }

  private func encode(decimal value: Decimal) throws {
    guard !value.isNaN else { return writer.write(Double.nan) }
    guard let significand = UInt128(value.significand.magnitude.description) else {
      throw EncodingError.invalidValue(
        value,
        EncodingError.Context(
          codingPath: codingPath(at: current.depth + 1),
          debugDescription: "The significand of the Decimal is not an integer."))
    }
    if value.exponent != 0 {
      writer.write(tag: CBORTag.decimalFraction)
      writer.beginArray(count: 2)
      writer.write(value.exponent)
    }
    if value.isSignMinus, significand > 0 {
      writer.write(negativeBig: significand - 1)
    } else {
      writer.write(big: significand)
    }
  }
}

extension CBORWriter {
  /// Writes an integer, as a tagged big integer if it needs more than 64 bits.
  mutating func write(big value: Int128) {
    if value < 0 {
      write(negativeBig: UInt128(truncatingIfNeeded: ~value))
    } else {
      write(big: UInt128(value))
    }
  }

  /// Writes an integer, as a tagged big integer if it needs more than 64 bits.
  mutating func write(big value: UInt128) {
    if let small = UInt64(exactly: value) {
      write(small)
    } else {
      write(tag: CBORTag.positiveBigInteger)
      write(digits: value)
    }
  }

  /// Writes `-1 - magnitude`.
  mutating func write(negativeBig magnitude: UInt128) {
    if let small = UInt64(exactly: magnitude) {
      write(negative: small)
    } else {
      write(tag: CBORTag.negativeBigInteger)
      write(digits: magnitude)
    }
  }

  private mutating func write(digits value: UInt128) {
    let count = (128 - value.leadingZeroBitCount + 7) / 8
    head(0x40, UInt64(count))
    for position in (0..<count).reversed() {
      bytes.append(UInt8(truncatingIfNeeded: value >> UInt128(8 * position)))
    }
  }
}
