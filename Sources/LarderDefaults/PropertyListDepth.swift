// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// How deep a property list in text nests.
///
/// Foundation reads each level of XML, and of the older form with parentheses, in a call within a
/// call: some thousand levels, a file of a few kilobytes, end the process. So they are counted before.
enum PropertyListDepth {
  /// More than any list of settings has, and few enough for the smallest stack of a thread.
  static let most = 128

  static func isTooDeep(_ list: Data) -> Bool {
    if list.starts(with: Array("bplist".utf8)) { return false }
    // In UTF-16 every other byte of what counts is zero.
    let bytes = list.filter { $0 != 0 }
    let white: Set<UInt8> = [0xEF, 0xBB, 0xBF, 0xFE, 0xFF, 0x20, 0x09, 0x0A, 0x0D]
    let isXML = bytes.first { !white.contains($0) } == UInt8(ascii: "<")
    return isXML ? isTooDeepXML(Array(bytes)) : isTooDeepText(Array(bytes))
  }

  private static func isTooDeepXML(_ bytes: [UInt8]) -> Bool {
    var depth = 0
    var position = 0
    func isAt(_ text: String) -> Bool { bytes[position...].starts(with: text.utf8) }
    func skip(to text: String) {
      while position < bytes.count, !isAt(text) { position += 1 }
    }
    while position < bytes.count {
      guard bytes[position] == UInt8(ascii: "<") else {
        position += 1
        continue
      }
      if isAt("<!--") {
        skip(to: "-->")
      } else if isAt("<![CDATA[") {
        skip(to: "]]>")
      } else if isAt("</") {
        depth -= 1
      } else if !isAt("<!"), !isAt("<?") {
        while position < bytes.count, bytes[position] != UInt8(ascii: ">") { position += 1 }
        if bytes[max(position - 1, 0)] != UInt8(ascii: "/") { depth += 1 }
        if depth > most { return true }
      }
      position += 1
    }
    return false
  }

  private static func isTooDeepText(_ bytes: [UInt8]) -> Bool {
    var depth = 0
    var quote: UInt8?
    var isEscaped = false
    for byte in bytes {
      if let open = quote {
        if !isEscaped, byte == open { quote = nil }
        isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
        continue
      }
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "'"): quote = byte
      case UInt8(ascii: "("), UInt8(ascii: "{"): depth += 1
      case UInt8(ascii: ")"), UInt8(ascii: "}"): depth -= 1
      default: break
      }
      if depth > most { return true }
    }
    return false
  }
}
