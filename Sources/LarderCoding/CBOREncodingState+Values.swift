// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// Values that have a special CBOR form, or that are so common that their own `encode(to:)`
// would cost more than they do. The type comparisons are pointer comparisons.
extension CBOREncodingState {
  private static let largestKnownSize = max(
    MemoryLayout<String>.size, MemoryLayout<UUID>.size, MemoryLayout<Date>.size,
    MemoryLayout<Data>.size, MemoryLayout<URL>.size, MemoryLayout<Decimal>.size)

  /// Writes a value of any type.
  func encode<Value: Encodable>(_ value: Value) throws {
    // Most structs are larger than any type that is compared with below.
    if MemoryLayout<Value>.size <= Self.largestKnownSize {
      var writer = takeWriter()
      let isWritten = writer.writeKnown(value)
      putBack(&writer)
      if isWritten { return }
    }
    try nest(value)
  }
}

extension CBORWriter {
  /// Writes a value that needs no `encode(to:)`; false if it is not of such a type.
  @inline(__always)
  fileprivate mutating func writeKnown<Value>(_ value: Value) -> Bool {
    if Value.self == String.self {
      write(text: value as! String)
    } else if Value.self == Int.self {
      write(value as! Int)
    } else if Value.self == Double.self {
      write(value as! Double)
    } else if Value.self == UUID.self {
      write(uuid: value as! UUID)
    } else if Value.self == Date.self {
      CBORDate.write(value as! Date, to: &self)
    } else if Value.self == Data.self {
      write(bytes: value as! Data)
    } else {
      return writeList(value) || writeRare(value)
    }
    return true
  }

  private mutating func writeList<Value>(_ value: Value) -> Bool {
    if Value.self == [String].self {
      let elements = value as! [String]
      beginArray(count: elements.count)
      for element in elements { write(text: element) }
    } else if Value.self == [Int].self {
      let elements = value as! [Int]
      beginArray(count: elements.count)
      for element in elements { write(element) }
    } else if Value.self == [Double].self {
      let elements = value as! [Double]
      beginArray(count: elements.count)
      for element in elements { write(element) }
    } else if Value.self == [UInt8].self {
      write(bytes: value as! [UInt8])
    } else {
      return false
    }
    return true
  }

  private mutating func writeRare<Value>(_ value: Value) -> Bool {
    if Value.self == URL.self, let url = value as? URL, url.baseURL == nil {
      write(tag: CBORTag.uri)
      write(text: url.absoluteString)
      return true
    }
    guard Value.self == Decimal.self else { return false }
    write(decimal: value as! Decimal)
    return true
  }

  private mutating func write(uuid: UUID) {
    write(tag: CBORTag.uuid)
    head(0x40, 16)
    ScalarCoding.append(uuid: uuid, to: &bytes)
  }

  /// Every significand is an integer of 128 bits, except for that of a value that is not a number.
  private mutating func write(decimal value: Decimal) {
    guard !value.isNaN, let significand = UInt128(value.significand.magnitude.description) else {
      return write(Float.nan)
    }
    if value.exponent != 0 {
      write(tag: CBORTag.decimalFraction)
      beginArray(count: 2)
      write(value.exponent)
    }
    if value.isSignMinus, significand > 0 {
      write(negativeBig: significand - 1)
    } else {
      write(big: significand)
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
