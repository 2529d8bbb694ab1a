// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// KEYS OF OBJECTS AND OF INDEX ENTRIES
//
// A small key means more entries in a page, so that a change of many entries writes fewer pages. A key
// is the identifier of a type or an index, bytes, and a sequence:
//
//     identifier   below 240: one byte
//                  below 4,080: two bytes, big-endian, from 0xF000 on
//                  else: 0xFF, and four bytes, big-endian
//     bytes        those of the index key, or a word; none in a key of `objects`
//     sequence     three zero bits, two bits of the length class, the sequence, the length class again;
//                  big-endian, in the fewest bytes:
//                  class 0: 3 bytes    1: 4 bytes    2: 6 bytes    3: 9 bytes
//
// Both numbers are in the order of their values. The class at the end gives the beginning of the
// sequence. A word (`TextWords.swift`) has no bytes below 0x20, so the entries of one word are together,
// before those of longer words; all other index keys end where they end by themselves.

/// The parts of a key of `objects` or `indexes`.
package struct PackedKey {
  /// The type or the index.
  package let number: UInt32
  /// The place of the bytes between both numbers.
  package let bytes: Range<Int>
  package let sequence: UInt64

  /// The maximum size of a key without bytes.
  static let sizeLimit = 14

  private static let twoByteNumbers: UInt32 = 0xF0
  private static let fiveByteNumbers: UInt32 = 0xF0 + 0xF00
  private static let longNumber: UInt8 = 0xFF

  /// Reads a key, or returns `nil` if it is none. Numbers in more bytes than they need are rejected, so
  /// that each has one form.
  @inline(__always)
  package init?(_ key: RawSpan) {
    var start = 0
    guard let number = PackedKey.number(in: key, at: &start),
      let (sequence, end) = PackedKey.sequence(atEndOf: key), start <= end
    else { return nil }
    self.number = number
    self.bytes = start..<end
    self.sequence = sequence
  }

  // MARK: Identifiers

  static func append(number: UInt32, to key: inout [UInt8]) {
    let (bits, size) = form(ofNumber: number)
    append(bits, bytes: size, to: &key)
  }

  /// Returns an identifier as a big-endian number of some bytes.
  @inline(__always)
  private static func form(ofNumber number: UInt32) -> (bits: UInt64, size: Int) {
    if number < twoByteNumbers { return (UInt64(number), 1) }
    if number < fiveByteNumbers { return (0xF000 + UInt64(number - twoByteNumbers), 2) }
    return (UInt64(longNumber) << 32 | UInt64(number), 5)
  }

  private static func append(_ bits: UInt64, bytes size: Int, to key: inout [UInt8]) {
    for position in (0..<size).reversed() {
      key.append(UInt8(truncatingIfNeeded: bits >> UInt64(8 * position)))
    }
  }

  /// Returns the key of an object.
  @inline(__always)
  static func object(type: UInt32, sequence: UInt64) -> ShortKey {
    var key = ShortKey()
    let (bits, size) = form(ofNumber: type)
    key.append(bits, bytes: size)
    let place = form(ofSequence: sequence)
    key.append(place.first, bytes: 1)
    key.append(place.rest, bytes: place.size - 1)
    return key
  }

  /// Returns the identifier at an offset, and moves the offset after it.
  @inline(__always)
  package static func number(in key: RawSpan, at offset: inout Int) -> UInt32? {
    guard let first: UInt8 = key.integer(at: offset) else { return nil }
    offset += 1
    if first < 0xF0 { return UInt32(first) }
    if first < longNumber {
      guard let rest: UInt8 = key.integer(at: offset) else { return nil }
      offset += 1
      return twoByteNumbers + (UInt32(first & 0xF) << 8 | UInt32(rest))
    }
    guard let number: UInt32 = key.integer(at: offset), number.byteSwapped >= fiveByteNumbers
    else { return nil }
    offset += 4
    return number.byteSwapped
  }

  // MARK: Sequences

  /// The size of a sequence of a class.
  @inline(__always)
  private static func size(ofClass number: Int) -> Int {
    switch number {
    case 0: 3
    case 1: 4
    case 2: 6
    default: 9
    }
  }

  @inline(__always)
  private static func sequenceClass(_ sequence: UInt64) -> Int {
    sequence < 1 << 17 ? 0 : sequence < 1 << 25 ? 1 : sequence < 1 << 41 ? 2 : 3
  }

  static func append(sequence: UInt64, to key: inout [UInt8]) {
    let place = form(ofSequence: sequence)
    append(place.first, bytes: 1, to: &key)
    append(place.rest, bytes: place.size - 1, to: &key)
  }

  /// Returns the first byte of a sequence, and the other ones as a big-endian number.
  @inline(__always)
  private static func form(
    ofSequence sequence: UInt64
  ) -> (first: UInt64, rest: UInt64, size: Int) {
    let number = sequenceClass(sequence)
    let size = size(ofClass: number)
    let first = UInt64(number << 3) | sequence >> UInt64(8 * (size - 1) - 2)
    return (first, sequence << 2 | UInt64(number), size)
  }

  /// Returns the sequence at the end of a key, and where it begins.
  @inline(__always)
  private static func sequence(atEndOf key: RawSpan) -> (sequence: UInt64, start: Int)? {
    guard let last: UInt8 = key.integer(at: key.byteCount - 1) else { return nil }
    let number = Int(last & 3)
    let rest = size(ofClass: number) - 1
    let start = key.byteCount - rest - 1
    guard let first: UInt8 = key.integer(at: start), Int(first >> 3) == number else { return nil }
    var low: UInt64 = 0
    for offset in start + 1..<key.byteCount {
      low = low << 8 | UInt64(key.integer(at: offset, as: UInt8.self) ?? 0)
    }
    let high = UInt64(first & 7)
    let sequence = low >> 2 | high << UInt64(8 * rest - 2)
    guard number < 3 || high < 4, sequenceClass(sequence) == number else { return nil }
    return (sequence, start)
  }
}
