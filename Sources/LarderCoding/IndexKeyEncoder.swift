// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

// KEYS IN THE ORDER OF THEIR VALUES
//
// An index is a B-tree over bytes, so values have to become bytes that compare like the values do.
// The encoding is that of FoundationDB's tuple layer (its public specification, `design/tuple.md`),
// whose type codes order the types as well:
//
//     00                     no value
//     01 bytes 00            bytes; a zero inside is 00 FF
//     02 UTF-8 00            text, likewise
//     0C … 13                negative integers of 8 … 1 bytes, one's complement, big-endian
//     14                     zero
//     15 … 1C                positive integers of 1 … 8 bytes, big-endian
//     21 eight bytes         double, big-endian; sign flipped, negative ones all bits flipped
//     26, 27                 false, true
//     30 sixteen bytes       UUID
//     40 eight bytes         date: its seconds since 2001, as a double
//
// Every element ends where the next begins, so a tuple's encoding is the concatenation of its
// elements, and a prefix of a tuple is a prefix of the bytes. A date has the first of the codes
// that are left to users: `Date` counts from 2001, and in seconds from 1970 every second date with
// a fraction would be its neighbour. Text is composed first (Unicode NFC), as Swift's own
// comparison has it: what is equal is the same bytes, and the order is that of the scalars, in no
// locale.

/// Builds the bytes of an index key, element by element.
///
/// ```swift
/// var encoder = IndexKeyEncoder()
/// encoder.append("Berlin")
/// encoder.append(42)
/// let key = encoder.bytes
/// ```
public struct IndexKeyEncoder: Sendable {
  /// The revision of the encoding. It changes whenever the key of a value changes, so that indexes
  /// with older keys are rebuilt. 2: dates have a separate code.
  package static let revision: UInt32 = 2

  /// The bytes appended so far.
  public private(set) var bytes: [UInt8] = []

  /// An empty key.
  public init() {}

  /// Appends the absence of a value, which comes before every value.
  public mutating func appendNothing() { bytes.append(0x00) }

  /// Appends bytes.
  public mutating func append(bytes content: some Sequence<UInt8>) {
    bytes.append(0x01)
    appendEscaped(content)
  }

  /// Appends text.
  public mutating func append(_ text: String) {
    bytes.append(0x02)
    appendEscaped(composed(text).utf8)
  }

  private mutating func appendEscaped(_ content: some Sequence<UInt8>) {
    for byte in content {
      bytes.append(byte)
      if byte == 0 { bytes.append(0xFF) }
    }
    bytes.append(0)
  }

  /// Appends an integer, of any width up to 64 bits.
  public mutating func append(_ integer: some FixedWidthInteger) {
    if integer == 0 {
      bytes.append(0x14)
      return
    }
    let magnitude = UInt64(integer.magnitude)
    let count = 8 - magnitude.leadingZeroBitCount / 8
    let isNegative = integer < 0
    bytes.append(isNegative ? 0x14 - UInt8(count) : 0x14 + UInt8(count))
    for index in (0..<count).reversed() {
      let byte = UInt8(truncatingIfNeeded: magnitude >> (8 * UInt64(index)))
      bytes.append(isNegative ? ~byte : byte)
    }
  }

  /// Appends a floating-point number. NaN comes last; 0 and -0 are one.
  public mutating func append(_ number: Double) {
    bytes.append(0x21)
    appendOrdered(number)
  }

  /// Appends a date, exactly. NaN comes last; 0 and -0 are equal.
  public mutating func append(_ date: Date) {
    bytes.append(0x40)
    appendOrdered(date.timeIntervalSinceReferenceDate)
  }

  private mutating func appendOrdered(_ number: Double) {
    var bits = (number == 0 ? 0 : number.isNaN ? Double.nan : number).bitPattern
    bits = bits >> 63 == 1 ? ~bits : bits | 1 << 63
    for index in (0..<8).reversed() {
      bytes.append(UInt8(truncatingIfNeeded: bits >> (8 * UInt64(index))))
    }
  }

  /// Appends a truth value.
  public mutating func append(_ isTrue: Bool) { bytes.append(isTrue ? 0x27 : 0x26) }

  /// Appends a UUID.
  public mutating func append(_ uuid: UUID) {
    bytes.append(0x30)
    let parts = uuid.uuid
    bytes += [
      parts.0, parts.1, parts.2, parts.3, parts.4, parts.5, parts.6, parts.7, parts.8, parts.9,
      parts.10, parts.11, parts.12, parts.13, parts.14, parts.15,
    ]
  }
}

/// A value an index can be over.
///
/// Two values that are equal must encode equally, and where the type is `Comparable` the bytes must
/// compare like the values.
public protocol IndexValue: Sendable {
  /// Appends the value as one element.
  func encodeIndexKey(into encoder: inout IndexKeyEncoder)
}

extension IndexValue {
  /// The bytes of a key that is this value alone.
  public var indexKey: [UInt8] {
    var encoder = IndexKeyEncoder()
    encodeIndexKey(into: &encoder)
    return encoder.bytes
  }
}

extension IndexValue where Self: FixedWidthInteger {
  /// Appends the integer as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) { encoder.append(self) }
}

extension Int: IndexValue {}
extension Int8: IndexValue {}
extension Int16: IndexValue {}
extension Int32: IndexValue {}
extension Int64: IndexValue {}
extension UInt: IndexValue {}
extension UInt8: IndexValue {}
extension UInt16: IndexValue {}
extension UInt32: IndexValue {}
extension UInt64: IndexValue {}

extension String: IndexValue {
  /// Appends the text as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) { encoder.append(self) }
}

extension Double: IndexValue {
  /// Appends the number as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) { encoder.append(self) }
}

extension Float: IndexValue {
  /// Appends the number as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) { encoder.append(Double(self)) }
}

extension Bool: IndexValue {
  /// Appends the truth value as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) { encoder.append(self) }
}

extension UUID: IndexValue {
  /// Appends the UUID as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) { encoder.append(self) }
}

extension Date: IndexValue {
  /// Appends the date as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) { encoder.append(self) }
}

extension Data: IndexValue {
  /// Appends the bytes as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) { encoder.append(bytes: self) }
}

extension Optional: IndexValue where Wrapped: IndexValue {
  /// Appends the value, or its absence, as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) {
    if let self { self.encodeIndexKey(into: &encoder) } else { encoder.appendNothing() }
  }
}

extension RawRepresentable where Self: IndexValue, RawValue: IndexValue {
  /// Appends the raw value as one element.
  public func encodeIndexKey(into encoder: inout IndexKeyEncoder) {
    rawValue.encodeIndexKey(into: &encoder)
  }
}
