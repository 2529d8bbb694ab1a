// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

// THE CONVERSION OF A BINARY PROPERTY LIST
//
// An item is a dictionary of its value and its expiration; the property-list codec stores a value
// as the only element of an array. Decoding and encoding would lose differences that no Swift type
// expresses (for example a 32-bit number). So the conversion appends an array that refers to the
// value to the objects, and makes it the top object. Big-endian:
//
//      0  "bplist00", then the objects, then their offsets, then 32 bytes:
//      6  bytes of an offset   7  bytes of a reference   8  objects u64
//     16  the top object u64                            24  the offset of the offsets u64

/// A parsed item of PersistentCacheKit. Its bytes are untrusted.
struct PersistentCacheKitItem {
  /// The property list of an array with the value.
  let payload: [UInt8]
  /// The expiration time in milliseconds since 1970, or `ExportedEntry.never`.
  let expires: Int64

  init?(_ bytes: [UInt8]) {
    guard let list = Parts(bytes), let top = list.dictionary(at: list.top) else { return nil }
    guard let value = top["value"], list.offset(of: value) != nil else { return nil }
    if let expiration = top["expiration"] {
      guard let milliseconds = list.date(at: expiration) else { return nil }
      expires = milliseconds
    } else {
      expires = ExportedEntry.never
    }
    payload = list.beginning(withArrayOf: value)
  }

  private struct Parts {
    let bytes: [UInt8]
    let offsetWidth: Int
    let referenceWidth: Int
    let count: Int
    let top: Int
    let table: Int

    init?(_ bytes: [UInt8]) {
      guard bytes.count >= 40, bytes.starts(with: Array("bplist00".utf8)) else { return nil }
      self.bytes = bytes
      let trailer = bytes.count - 32
      offsetWidth = Int(bytes[trailer + 6])
      referenceWidth = Int(bytes[trailer + 7])
      func number(_ place: Int) -> Int? {
        Int(exactly: bytes[place..<place + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
      }
      guard let count = number(trailer + 8), let top = number(trailer + 16),
        let table = number(trailer + 24), (1...8).contains(offsetWidth),
        (1...8).contains(referenceWidth), count <= bytes.count, top < count, table >= 8,
        table <= trailer, count <= (trailer - table) / offsetWidth
      else { return nil }
      (self.count, self.top, self.table) = (count, top, table)
    }

    /// Returns a number in the objects or the offsets, or `nil` outside of them.
    func number(at place: Int, _ width: Int) -> Int? {
      guard place >= 0, width <= 8, place <= bytes.count - width else { return nil }
      return Int(exactly: bytes[place..<place + width].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }

    func offset(of object: Int) -> Int? {
      guard object < count, let place = number(at: table + object * offsetWidth, offsetWidth),
        place >= 8, place < table
      else { return nil }
      return place
    }

    /// Returns the references of a dictionary, by those of its keys that are ASCII strings.
    func dictionary(at object: Int) -> [String: Int]? {
      guard let place = offset(of: object), bytes[place] >> 4 == 0xD else { return nil }
      // An item has two entries at most; more than fourteen are something else.
      let size = Int(bytes[place] & 0xF)
      guard size < 15, place + 1 + 2 * size * referenceWidth <= table else { return nil }
      var result: [String: Int] = [:]
      for index in 0..<size {
        guard let key = number(at: place + 1 + index * referenceWidth, referenceWidth),
          let value = number(at: place + 1 + (size + index) * referenceWidth, referenceWidth),
          let start = offset(of: key)
        else { return nil }
        let length = Int(bytes[start] & 0xF)
        guard bytes[start] >> 4 == 5, length < 15, start + 1 + length <= table else { continue }
        result[String(decoding: bytes[(start + 1)..<(start + 1 + length)], as: UTF8.self)] = value
      }
      return result
    }

    func date(at object: Int) -> Int64? {
      guard let place = offset(of: object), bytes[place] == 0x33, place + 9 <= table else {
        return nil
      }
      let bits = bytes[(place + 1)..<(place + 9)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      // The file has seconds since 2001.
      let milliseconds = (Double(bitPattern: bits) + 978_307_200) * 1000
      guard !milliseconds.isNaN else { return nil }
      return milliseconds < 9e15 ? Int64(max(milliseconds, 0).rounded()) : ExportedEntry.never
    }

    func beginning(withArrayOf object: Int) -> [UInt8] {
      var result = Array(bytes[..<table])
      func append(_ number: Int, _ width: Int) {
        for index in (0..<width).reversed() {
          result.append(UInt8(truncatingIfNeeded: UInt64(number) >> UInt64(8 * index)))
        }
      }
      result.append(0xA1)
      append(object, referenceWidth)
      let newTable = result.count
      let width = newTable < 1 << 16 ? max(offsetWidth, 2) : max(offsetWidth, 4)
      for index in 0..<count {
        append(number(at: table + index * offsetWidth, offsetWidth) ?? 0, width)
      }
      append(table, width)
      result += [0, 0, 0, 0, 0, 0, UInt8(width), UInt8(referenceWidth)]
      append(count + 1, 8)
      append(count, 8)
      append(newTable, 8)
      return result
    }
  }
}
