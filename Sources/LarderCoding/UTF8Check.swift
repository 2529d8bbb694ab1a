// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Whether bytes are well-formed UTF-8: table 3-7 of the Unicode standard.
enum UTF8Check {
  static func isValid(_ bytes: Span<UInt8>) -> Bool {
    // Nearly all texts are ASCII; the loop without a branch is vectorised.
    var all: UInt8 = 0
    for index in 0..<bytes.count {
      all |= bytes[index]
    }
    return all < 0x80 || isValidMultibyte(bytes)
  }

  private static func isValidMultibyte(_ bytes: Span<UInt8>) -> Bool {
    var index = 0
    while index < bytes.count {
      let lead = bytes[index]
      index += 1
      if lead < 0x80 { continue }
      let following: Int
      var second: ClosedRange<UInt8> = 0x80...0xbf
      switch lead {
      case 0xc2...0xdf:
        following = 1
      case 0xe0...0xef:
        following = 2
        if lead == 0xe0 { second = 0xa0...0xbf }
        if lead == 0xed { second = 0x80...0x9f }
      case 0xf0...0xf4:
        following = 3
        if lead == 0xf0 { second = 0x90...0xbf }
        if lead == 0xf4 { second = 0x80...0x8f }
      default:
        return false
      }
      guard bytes.count - index >= following, second.contains(bytes[index]) else { return false }
      for offset in 1..<max(following, 1) where bytes[index + offset] & 0xc0 != 0x80 {
        return false
      }
      index += following
    }
    return true
  }
}
