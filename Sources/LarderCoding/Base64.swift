// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Bytes as base64 (RFC 4648), with padding, or in its URL-safe alphabet without.
enum Base64 {
  private static let digits = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  static func text(_ bytes: [UInt8], urlSafe: Bool) -> String {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start..<min(start + 3, bytes.count)]
      let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - group.count))
      for position in 0...group.count {
        text.append(digit(UInt8(truncatingIfNeeded: bits >> UInt32(18 - 6 * position)), urlSafe))
      }
      if !urlSafe {
        text.append(contentsOf: repeatElement(UInt8(ascii: "="), count: 3 - group.count))
      }
    }
    return String(decoding: text, as: UTF8.self)
  }

  private static func digit(_ bits: UInt8, _ urlSafe: Bool) -> UInt8 {
    switch digits[Int(bits & 0x3f)] {
    case UInt8(ascii: "+") where urlSafe: UInt8(ascii: "-")
    case UInt8(ascii: "/") where urlSafe: UInt8(ascii: "_")
    case let digit: digit
    }
  }
}
