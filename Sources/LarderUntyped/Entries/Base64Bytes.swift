// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Base64 (RFC 4648, with padding) over bytes, for lines by the million.
enum Base64Bytes {
  private static let digits = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  private static let values: [UInt8] = {
    var values = [UInt8](repeating: 0xFF, count: 256)
    for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
    // The alphabet for addresses is read as well.
    values[Int(UInt8(ascii: "-"))] = 62
    values[Int(UInt8(ascii: "_"))] = 63
    return values
  }()

  static func append(_ bytes: [UInt8], to output: inout [UInt8]) {
    var position = 0
    while position + 2 < bytes.count {
      let bits =
        Int(bytes[position]) << 16 | Int(bytes[position + 1]) << 8 | Int(bytes[position + 2])
      output.append(digits[bits >> 18])
      output.append(digits[bits >> 12 & 63])
      output.append(digits[bits >> 6 & 63])
      output.append(digits[bits & 63])
      position += 3
    }
    let pad = UInt8(ascii: "=")
    switch bytes.count - position {
    case 1:
      let bits = Int(bytes[position]) << 16
      output += [digits[bits >> 18], digits[bits >> 12 & 63], pad, pad]
    case 2:
      let bits = Int(bytes[position]) << 16 | Int(bytes[position + 1]) << 8
      output += [digits[bits >> 18], digits[bits >> 12 & 63], digits[bits >> 6 & 63], pad]
    default: break
    }
  }

  /// The bytes; `nil`: this is no base64.
  static func bytes(_ text: ArraySlice<UInt8>) -> [UInt8]? {
    var text = text
    for _ in 0..<2 where text.last == UInt8(ascii: "=") { text = text.dropLast() }
    guard text.count % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count * 3 / 4 + 2)
    var bits = 0
    var count = 0
    for digit in text {
      let value = values[Int(digit)]
      guard value != 0xFF else { return nil }
      bits = bits << 6 | Int(value)
      count += 1
      if count == 4 {
        bytes.append(UInt8(truncatingIfNeeded: bits >> 16))
        bytes.append(UInt8(truncatingIfNeeded: bits >> 8))
        bytes.append(UInt8(truncatingIfNeeded: bits))
        (bits, count) = (0, 0)
      }
    }
    // What is left over of the last digit has to be zero: one value, one text.
    if count == 2 {
      guard bits & 0xF == 0 else { return nil }
      bytes.append(UInt8(truncatingIfNeeded: bits >> 4))
    } else if count == 3 {
      guard bits & 3 == 0 else { return nil }
      bytes.append(UInt8(truncatingIfNeeded: bits >> 10))
      bytes.append(UInt8(truncatingIfNeeded: bits >> 2))
    }
    return bytes
  }
}
