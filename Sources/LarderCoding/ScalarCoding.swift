// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The bytes of plain values, shared by keys and by values that bypass `Codable`.
//
//   integer   8 bytes, two's complement, little-endian, if the number fits Int64;
//             otherwise 17 bytes, two's complement, little-endian
//   double    8 bytes, IEEE 754 binary64, little-endian
//   float     4 bytes, IEEE 754 binary32, little-endian
//   boolean   1 byte, 0 or 1
//   uuid      16 bytes, in the order they are printed
//   text      the UTF-8 bytes
//   bytes     the bytes

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// Plain values to bytes and back.
@usableFromInline
enum ScalarCoding {
  @inlinable
  static func append<Integer: FixedWidthInteger>(integer: Integer, to bytes: inout [UInt8]) {
    if let small = Int64(exactly: integer) {
      append(word: UInt64(bitPattern: small), to: &bytes)
    } else {
      append(word: UInt64(truncatingIfNeeded: integer), to: &bytes)
      append(word: UInt64(truncatingIfNeeded: integer >> 64), to: &bytes)
      bytes.append(integer < 0 ? 0xff : 0)
    }
  }

  @inlinable
  static func append(word: UInt64, to bytes: inout [UInt8]) {
    // One reservation for the eight bytes; a separate array would be another allocation.
    bytes.reserveCapacity(bytes.count + 8)
    bytes.append(UInt8(truncatingIfNeeded: word))
    bytes.append(UInt8(truncatingIfNeeded: word >> 8))
    bytes.append(UInt8(truncatingIfNeeded: word >> 16))
    bytes.append(UInt8(truncatingIfNeeded: word >> 24))
    bytes.append(UInt8(truncatingIfNeeded: word >> 32))
    bytes.append(UInt8(truncatingIfNeeded: word >> 40))
    bytes.append(UInt8(truncatingIfNeeded: word >> 48))
    bytes.append(UInt8(truncatingIfNeeded: word >> 56))
  }

  @inlinable
  static func append(uuid: UUID, to bytes: inout [UInt8]) {
    let raw = uuid.uuid
    bytes.append(contentsOf: [
      raw.0, raw.1, raw.2, raw.3, raw.4, raw.5, raw.6, raw.7,
      raw.8, raw.9, raw.10, raw.11, raw.12, raw.13, raw.14, raw.15,
    ])
  }

  /// The little-endian word at an offset.
  @inlinable
  static func word(_ bytes: [UInt8], at offset: Int = 0, count: Int = 8) -> UInt64 {
    var word: UInt64 = 0
    for index in 0..<count {
      word |= UInt64(bytes[offset + index]) << UInt64(8 * index)
    }
    return word
  }

  /// The integer as any type it fits. Only the form that `append(integer:to:)` chooses is accepted,
  /// so a number has one representation.
  @inlinable
  static func integer<Integer: FixedWidthInteger>(
    _ type: Integer.Type, from bytes: [UInt8]
  ) -> IntegerReading<Integer> {
    switch bytes.count {
    case 8:
      let value = Int64(bitPattern: word(bytes))
      guard let integer = Integer(exactly: value) else { return .outOfRange }
      return .value(integer)
    case 17:
      let low = UInt128(word(bytes))
      let bits = low | UInt128(word(bytes, at: 8)) << 64
      switch bytes[16] {
      case 0:
        guard bits > UInt128(Int64.max) else { return .malformed }
        guard let integer = Integer(exactly: bits) else { return .outOfRange }
        return .value(integer)
      case 0xff:
        let value = Int128(truncatingIfNeeded: bits)
        guard value < Int128(Int64.min) else { return .malformed }
        guard let integer = Integer(exactly: value) else { return .outOfRange }
        return .value(integer)
      default:
        return .malformed
      }
    default:
      return .malformed
    }
  }

  @inlinable
  static func uuid(_ bytes: [UInt8], at offset: Int = 0) -> UUID? {
    guard bytes.count >= offset + 16 else { return nil }
    return UUID(
      uuid: (
        bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3],
        bytes[offset + 4], bytes[offset + 5], bytes[offset + 6], bytes[offset + 7],
        bytes[offset + 8], bytes[offset + 9], bytes[offset + 10], bytes[offset + 11],
        bytes[offset + 12], bytes[offset + 13], bytes[offset + 14], bytes[offset + 15]
      ))
  }
}

/// The result of reading an integer.
@usableFromInline
enum IntegerReading<Integer: FixedWidthInteger> {
  case value(Integer)
  case outOfRange
  case malformed
}
