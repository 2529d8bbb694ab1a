// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Writes CBOR items one after another, each in its shortest form.
///
/// The low-level half of the encoder: it writes items, not values, and does not check that a
/// container gets as many items as it announced.
///
/// ```swift
/// var writer = CBORWriter()
/// writer.beginArray(count: 2)
/// writer.write(text: "answer")
/// writer.write(42)
/// writer.bytes          // 82 66 616e73776572 182a
/// ```
public struct CBORWriter: Sendable {
  /// The bytes written so far.
  public internal(set) var bytes: [UInt8] = []

  /// A writer without bytes.
  public init() {}

  /// Reserves capacity for more bytes.
  public mutating func reserve(_ count: Int) {
    bytes.reserveCapacity(bytes.count + count)
  }

  /// Writes a signed integer.
  public mutating func write(_ value: Int64) {
    if value >= 0 {
      head(0x00, UInt64(value))
    } else {
      head(0x20, UInt64(~value))
    }
  }

  /// Writes an integer.
  public mutating func write(_ value: Int) {
    write(Int64(value))
  }

  /// Writes an unsigned integer.
  public mutating func write(_ value: UInt64) {
    head(0x00, value)
  }

  /// Writes the negative integer `-1 - magnitude`, which reaches further down than `Int64`.
  public mutating func write(negative magnitude: UInt64) {
    head(0x20, magnitude)
  }

  /// Writes an item that is encoded already.
  package mutating func write(item: [UInt8]) { bytes.append(contentsOf: item) }

  /// Writes a text.
  public mutating func write(text: String) {
    let utf8 = text.utf8
    head(0x60, UInt64(utf8.count))
    bytes.append(contentsOf: utf8)
  }

  /// Writes a byte string.
  public mutating func write(bytes content: some Collection<UInt8>) {
    head(0x40, UInt64(content.count))
    bytes.append(contentsOf: content)
  }

  /// Writes the head of an array; its items follow.
  public mutating func beginArray(count: Int) {
    head(0x80, UInt64(count))
  }

  /// Writes the head of a map; `count` pairs of key and value follow, keys in bytewise order.
  public mutating func beginMap(count: Int) {
    head(0xa0, UInt64(count))
  }

  /// Writes a tag; the tagged item follows.
  public mutating func write(tag: UInt64) {
    head(0xc0, tag)
  }

  /// Writes a boolean.
  public mutating func write(_ value: Bool) {
    bytes.append(value ? 0xf5 : 0xf4)
  }

  /// Writes `null`.
  public mutating func writeNull() {
    bytes.append(0xf6)
  }

  /// Writes `undefined`.
  public mutating func writeUndefined() {
    bytes.append(0xf7)
  }

  /// Writes a simple value.
  ///
  /// - Precondition: not 24 to 31, which CBOR reserves.
  public mutating func write(simple value: UInt8) {
    precondition(value < 24 || value > 31, "CBOR has no simple values 24 to 31.")
    if value < 24 {
      bytes.append(0xe0 | value)
    } else {
      bytes.append(0xf8)
      bytes.append(value)
    }
  }

  /// Writes a floating-point number in the shortest of the three widths that holds it exactly.
  public mutating func write(_ value: Double) {
    let single = Float(value)
    if Double(single) == value {
      write(single)
    } else if value.isNaN {
      write(Float.nan)
    } else {
      bytes.append(0xfb)
      append(value.bitPattern, count: 8)
    }
  }

  /// Writes a floating-point number in the shorter of the two widths that holds it exactly.
  public mutating func write(_ value: Float) {
    if let half = HalfFloat.bits(exactly: value) {
      bytes.append(0xf9)
      append(UInt64(half), count: 2)
    } else {
      bytes.append(0xfa)
      append(UInt64(value.bitPattern), count: 4)
    }
  }

  /// Major type (in the upper three bits) and argument, in the shortest form.
  @inline(__always)
  mutating func head(_ major: UInt8, _ argument: UInt64) {
    if argument < 24 {
      bytes.append(major | UInt8(truncatingIfNeeded: argument))
    } else {
      longHead(major, argument)
    }
  }

  private mutating func longHead(_ major: UInt8, _ argument: UInt64) {
    if argument <= 0xff {
      bytes.append(major | 24)
      bytes.append(UInt8(truncatingIfNeeded: argument))
    } else if argument <= 0xffff {
      bytes.append(major | 25)
      append(argument, count: 2)
    } else if argument <= 0xffff_ffff {
      bytes.append(major | 26)
      append(argument, count: 4)
    } else {
      bytes.append(major | 27)
      append(argument, count: 8)
    }
  }

  /// The lowest bytes of a word, the highest of them first.
  @inline(__always)
  private mutating func append(_ word: UInt64, count: Int) {
    var shift = (count - 1) * 8
    while shift >= 0 {
      bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
      shift -= 8
    }
  }
}
