// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// FIELDS WITHOUT THE OBJECT
//
// A query that filters a hundred thousand objects to find ten needs one or two fields of each. It
// reads them in place if the type declares the names under which its properties are stored: most
// objects of such a type have a layout (`ObjectLayout.swift`), which names the place of the field;
// the others are CBOR maps (RFC 8949), whose fields the reader skips up to the requested one. Only
// that field is decoded. The reader accepts only bytes that a checksum covers and never guesses: any
// input that is not plain is `unclear`, and the query decodes the object. A plain map has the form
// that Larder writes: its keys are strings with the shortest heads, in ascending order, so that no key
// occurs twice, and no bytes follow it. The decoder accepts more forms and rejects some of them; it
// never finds another value under a name than this reader. The reader skips the contents of other
// fields.

/// The location of a field in a stored object.
package enum StoredField {
  case found(Range<Int>)
  case missing
  case unclear

  /// Finds a field by its name, encoded as a CBOR text string.
  package static func find(_ name: [UInt8], in object: RawSpan) -> StoredField {
    guard let map = head(object, 0), map.major == 5 else { return .unclear }
    var offset = map.end
    var last = offset..<offset
    var found = StoredField.missing
    for _ in 0..<map.argument {
      guard let value = keyEnd(object, offset), isAscending(object, last, offset..<value),
        let end = skip(object, value)
      else { return .unclear }
      if value - offset == name.count, object.slice(offset..<value)!.equals(name) {
        found = .found(value..<end)
      }
      last = offset..<value
      offset = end
    }
    return offset == object.byteCount ? found : .unclear
  }

  /// Returns the offset after a string with the shortest head, or `nil`.
  @inline(__always)
  static func keyEnd(_ bytes: RawSpan, _ offset: Int) -> Int? {
    guard let initial: UInt8 = bytes.integer(at: offset) else { return nil }
    if 0x60...0x77 ~= initial {
      let end = offset + 1 + Int(initial & 0x1f)
      return end <= bytes.byteCount ? end : nil
    }
    guard let key = head(bytes, offset), key.major == 3, key.isShortest else { return nil }
    return skip(bytes, offset)
  }

  /// Returns whether a key precedes another in byte order; the heads usually decide.
  @inline(__always)
  private static func isAscending(
    _ bytes: RawSpan, _ left: Range<Int>, _ right: Range<Int>
  ) -> Bool {
    guard let first: UInt8 = bytes.integer(at: left.lowerBound),
      let second: UInt8 = bytes.integer(at: right.lowerBound), first != second, !left.isEmpty
    else { return bytes.slice(left)!.precedes(bytes.slice(right)!) }
    return first < second
  }

  package struct Head {
    package let major: UInt8
    /// The lowest five bits of the first byte.
    package let info: UInt8
    package let argument: UInt64
    package let end: Int

    @inlinable
    init(major: UInt8, info: UInt8, argument: UInt64, end: Int) {
      self.major = major
      self.info = info
      self.argument = argument
      self.end = end
    }

    /// Whether the head has the shortest form.
    var isShortest: Bool {
      switch info {
      case 24: argument >= 24
      case 25: argument > 0xFF
      case 26: argument > 0xFFFF
      case 27: argument > 0xFFFF_FFFF
      default: true
      }
    }
  }

  /// Returns the head of an item, or `nil` if there is none or its length is indefinite.
  @inlinable @inline(__always)
  package static func head(_ bytes: RawSpan, _ offset: Int) -> Head? {
    guard let initial: UInt8 = bytes.integer(at: offset) else { return nil }
    let info = initial & 0x1f
    var argument = UInt64(info)
    var end = offset + 1
    switch info {
    case 0..<24: break
    case 24:
      guard let word: UInt8 = bytes.integer(at: end) else { return nil }
      (argument, end) = (UInt64(word), end + 1)
    case 25:
      guard let word: UInt16 = bytes.integer(at: end) else { return nil }
      (argument, end) = (UInt64(word.byteSwapped), end + 2)
    case 26:
      guard let word: UInt32 = bytes.integer(at: end) else { return nil }
      (argument, end) = (UInt64(word.byteSwapped), end + 4)
    case 27:
      guard let word: UInt64 = bytes.integer(at: end) else { return nil }
      (argument, end) = (word.byteSwapped, end + 8)
    default: return nil
    }
    return Head(major: initial >> 5, info: info, argument: argument, end: end)
  }

  /// Returns the offset after an item, or `nil` if the item is not plain.
  @inlinable @inline(__always)
  package static func skip(_ bytes: RawSpan, _ offset: Int) -> Int? {
    // The most frequent items without a call.
    guard let initial: UInt8 = bytes.integer(at: offset) else { return nil }
    let end: Int
    switch initial {
    case 0x00...0x17, 0x20...0x37, 0xe0...0xf7: return offset + 1
    case 0x40...0x57, 0x60...0x77: end = offset + 1 + Int(initial & 0x1f)
    case 0x18, 0x38: end = offset + 2
    case 0x19, 0x39, 0xf9: end = offset + 3
    case 0x1a, 0x3a, 0xfa: end = offset + 5
    case 0x1b, 0x3b, 0xfb: end = offset + 9
    default: return skip(bytes, offset, depth: 0)
    }
    return end <= bytes.byteCount ? end : nil
  }

  @usableFromInline
  static func skip(_ bytes: RawSpan, _ offset: Int, depth: Int) -> Int? {
    guard depth < 64, let head = head(bytes, offset) else { return nil }
    switch head.major {
    case 0, 1: return head.end
    // A simple value in two bytes must be at least 32.
    case 7: return head.info == 24 && head.argument < 32 ? nil : head.end
    case 2, 3:
      guard head.argument <= UInt64(bytes.byteCount - head.end) else { return nil }
      return head.end + Int(head.argument)
    case 6: return skip(bytes, head.end, depth: depth + 1)
    default:
      guard head.argument <= UInt64(bytes.byteCount) else { return nil }
      var end = head.end
      for _ in 0..<(head.major == 5 ? head.argument * 2 : head.argument) {
        guard let next = skip(bytes, end, depth: depth + 1) else { return nil }
        end = next
      }
      return end
    }
  }
}
