// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Integers of one to ten bytes: seven bits a byte, the lowest first, and a set high bit in each byte
/// but the last (LEB128, DWARF 5 section 7.6).
extension RawSpan {
  /// Reads the integer at an offset and moves the offset after it.
  ///
  /// - Returns: The integer, or `nil` if it does not end within the span or exceeds 64 bits.
  @inlinable @inline(__always)
  package func varint(at offset: inout Int) -> UInt64? {
    guard let first: UInt8 = integer(at: offset) else { return nil }
    offset &+= 1
    return first < 0x80 ? UInt64(first) : longVarint(first, at: &offset)
  }

  /// Moves the offset after the integer at it.
  ///
  /// - Returns: Whether there is an integer of at most eight bytes, with eight bytes from its start on.
  @inlinable @inline(__always)
  package func skipVarint(at offset: inout Int) -> Bool {
    guard let word: UInt64 = integer(at: offset) else { return false }
    let ends = ~word & 0x8080_8080_8080_8080
    offset &+= (ends.trailingZeroBitCount &>> 3) &+ 1
    return ends != 0
  }

  @usableFromInline
  func longVarint(_ first: UInt8, at offset: inout Int) -> UInt64? {
    var result = UInt64(first & 0x7F)
    for shift in stride(from: UInt64(7), to: 64, by: 7) {
      guard let byte: UInt8 = integer(at: offset) else { return nil }
      offset &+= 1
      if shift == 63, byte > 1 { return nil }
      result |= UInt64(byte & 0x7F) &<< shift
      if byte < 0x80 { return result }
    }
    return nil
  }
}

extension [UInt8] {
  /// Appends an integer as `RawSpan.varint(at:)` reads it.
  @inlinable
  package mutating func append(varint value: UInt64) {
    var rest = value
    while rest >= 0x80 {
      append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest &>>= 7
    }
    append(UInt8(truncatingIfNeeded: rest))
  }
}
