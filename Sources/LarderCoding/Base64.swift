// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Bytes as base64 (RFC 4648), with padding, or in its URL-safe alphabet without. Either is read.
///
/// Over bytes and not over characters: an export writes it by the million.
package enum Base64 {
  private static let digits = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  private static let urlSafeDigits = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

  private static let values: [UInt8] = {
    var values = [UInt8](repeating: 0xFF, count: 256)
    for digits in [digits, urlSafeDigits] {
      for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
    }
    return values
  }()

  package static func text(_ bytes: [UInt8], urlSafe: Bool = false) -> String {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    append(bytes, urlSafe: urlSafe, to: &text)
    return String(decoding: text, as: UTF8.self)
  }

  package static func append(_ bytes: [UInt8], urlSafe: Bool = false, to output: inout [UInt8]) {
    let digits = urlSafe ? urlSafeDigits : digits
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
    let rest = bytes.count - position
    guard rest > 0 else { return }
    let bits = Int(bytes[position]) << 16 | (rest == 2 ? Int(bytes[position + 1]) << 8 : 0)
    output += [digits[bits >> 18], digits[bits >> 12 & 63]]
    if rest == 2 { output.append(digits[bits >> 6 & 63]) }
    if !urlSafe { output += repeatElement(UInt8(ascii: "="), count: 3 - rest) }
  }

  /// Returns the bytes, or `nil` if the text is not base64.
  package static func bytes(_ text: String) -> [UInt8]? { bytes(Array(text.utf8)[...]) }

  /// The same of a text's bytes.
  package static func bytes(_ text: ArraySlice<UInt8>) -> [UInt8]? {
    var text = text
    for _ in 0..<2 where text.last == UInt8(ascii: "=") { text = text.dropLast() }
    guard text.count % 4 != 1 else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count * 3 / 4 + 2)
    let values = values
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
