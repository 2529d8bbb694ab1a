// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Brings the fields of an encoded map into bytewise order of their names.
enum CBORFieldSorter {
  private struct Field {
    let key: Int
    let end: Int
  }

  /// Sorts the fields from an offset to the end of the bytes; of fields of the same name, the last
  /// one stays. Returns how many are left.
  static func sort(_ bytes: inout [UInt8], from start: Int) -> Int {
    var fields: [Field] = []
    fields.reserveCapacity(16)
    var offset = start
    while offset < bytes.count {
      let value = end(of: offset, bytes)
      let end = end(of: value, bytes)
      insert(Field(key: offset, end: end), into: &fields, bytes)
      offset = end
    }
    var sorted: [UInt8] = []
    sorted.reserveCapacity(bytes.count - start)
    // Fields that stay neighbours are moved together.
    var run = start..<start
    for field in fields {
      if field.key != run.upperBound {
        sorted.append(contentsOf: bytes[run])
        run = field.key..<field.end
      } else {
        run = run.lowerBound..<field.end
      }
    }
    sorted.append(contentsOf: bytes[run])
    bytes.removeLast(bytes.count - start)
    bytes.append(contentsOf: sorted)
    return fields.count
  }

  /// Binary insertion: moving a few words is cheap next to comparing names.
  private static func insert(_ field: Field, into fields: inout [Field], _ bytes: [UInt8]) {
    guard let last = fields.last, !precedes(bytes, last.key, field.key) else {
      fields.append(field)
      return
    }
    var low = 0
    var high = fields.count - 1
    while low < high {
      let middle = (low + high) / 2
      if precedes(bytes, fields[middle].key, field.key) {
        low = middle + 1
      } else {
        high = middle
      }
    }
    if precedes(bytes, field.key, fields[low].key) {
      fields.insert(field, at: low)
    } else {
      fields[low] = field
    }
  }

  /// Whether the text item at one offset comes before the one at another.
  ///
  /// The heads contain the lengths and come first in the order, so texts are compared byte by byte
  /// only if they are of the same length.
  @inline(__always)
  static func precedes(_ bytes: [UInt8], _ left: Int, _ right: Int) -> Bool {
    if bytes[left] != bytes[right] { return bytes[left] < bytes[right] }
    return follows(bytes, left, right)
  }

  private static func follows(_ bytes: [UInt8], _ left: Int, _ right: Int) -> Bool {
    let count = end(of: left, bytes) - left
    for index in 1..<max(count, 1) where bytes[left + index] != bytes[right + index] {
      return bytes[left + index] < bytes[right + index]
    }
    return false
  }

  /// The text at an offset.
  static func name(_ bytes: [UInt8], _ offset: Int) -> String {
    let (count, content, _) = head(at: offset, bytes)
    return String(decoding: bytes[content..<content + Int(count)], as: UTF8.self)
  }

  /// The offset after the item at an offset, of bytes that an encoder wrote.
  @inline(__always)
  static func end(of start: Int, _ bytes: [UInt8]) -> Int {
    let initial = bytes[start]
    switch initial {
    case 0x00...0x17, 0x20...0x37, 0xf4...0xf7: return start + 1
    case 0x40...0x57, 0x60...0x77: return start + 1 + Int(initial & 0x1f)
    default: return rareEnd(of: start, bytes)
    }
  }

  private static func rareEnd(of start: Int, _ bytes: [UInt8]) -> Int {
    var offset = start
    var remaining: UInt64 = 1
    while remaining > 0 {
      remaining -= 1
      let (argument, content, major) = head(at: offset, bytes)
      offset = content
      switch major {
      case 2, 3: offset += Int(argument)
      case 4: remaining += argument
      case 5: remaining += 2 * argument
      case 6: remaining += 1
      default: break
      }
    }
    return offset
  }

  /// The argument of the head at an offset, the offset after it, and its major type.
  @inline(__always)
  static func head(
    at offset: Int, _ bytes: [UInt8]
  ) -> (argument: UInt64, content: Int, major: UInt8) {
    let initial = bytes[offset]
    let info = initial & 0x1f
    if info < 24 { return (UInt64(info), offset + 1, initial >> 5) }
    let count = 1 << Int(info - 24)
    var argument: UInt64 = 0
    for index in offset + 1...offset + count {
      argument = argument << 8 | UInt64(bytes[index])
    }
    return (argument, offset + 1 + count, initial >> 5)
  }
}
