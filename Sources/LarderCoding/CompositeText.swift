// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// COMPOSITE KEYS AS TEXT
//
//   composite   "(" [ part *( ", " part ) ] ")"
//   part        name ":" text       the part in the form of its tag, which may be composite
//               number ":" digits   a tag and its bytes in hexadecimal, if they do not fit the tag
//
// In a text inside of a composite a backslash is before each of the characters `\\`, `,`, `(`, `)`,
// so the text of a key is the key's alone and can be read back.

/// The text form of keys of several parts.
enum CompositeText {
  /// Returns the text of a composite's bytes, or `nil` if a length does not fit.
  static func text(_ bytes: ArraySlice<UInt8>, depth: Int) -> String? {
    var parts: [String] = []
    var rest = bytes
    while let tag = rest.first.map(KeyTag.init(rawValue:)) {
      guard rest.count >= 5 else { return nil }
      let length = rest.dropFirst().prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
      rest = rest.dropFirst(5)
      guard rest.count >= length else { return nil }
      let content = rest.prefix(length)
      rest = rest.dropFirst(length)
      if let shown = KeyTextFormat.shown(tag: tag, bytes: content, depth: depth + 1),
        let name = name(tag)
      {
        parts.append("\(name):\(tag == .text || tag == .described ? escaped(shown) : shown)")
      } else {
        parts.append("\(tag.rawValue):\(KeyTextFormat.hexadecimal(content))")
      }
    }
    return "(\(parts.joined(separator: ", ")))"
  }

  /// Returns the bytes of a composite's text, or `nil` if the text is not one.
  static func bytes(_ text: String) -> [UInt8]? {
    var rest = Array(text.utf8)[...]
    guard let bytes = composite(&rest, depth: 0), rest.isEmpty else { return nil }
    return bytes
  }

  /// The bytes of `<tag>:<hexadecimal>`.
  static func tagged(_ text: String, _ tag: KeyTag) -> [UInt8]? {
    let prefix = "\(tag.rawValue):"
    guard text.hasPrefix(prefix) else { return nil }
    return KeyTextFormat.bytes(hexadecimal: String(text.dropFirst(prefix.count)))
  }

  private static func name(_ tag: KeyTag) -> String? {
    tag == .composite ? "composite" : KeyTextFormat.allCases.first { $0.tag == tag }?.rawValue
  }

  private static func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      if "\\,()".unicodeScalars.contains(scalar) { result.unicodeScalars.append("\\") }
      result.unicodeScalars.append(scalar)
    }
    return result
  }

  // MARK: Reading

  private static func composite(_ rest: inout ArraySlice<UInt8>, depth: Int) -> [UInt8]? {
    guard depth < 16, rest.popFirst() == UInt8(ascii: "(") else { return nil }
    var bytes: [UInt8] = []
    if rest.first == UInt8(ascii: ")") {
      rest.removeFirst()
      return bytes
    }
    while true {
      guard let part = part(&rest, depth: depth) else { return nil }
      bytes.append(part.tag.rawValue)
      for index in 0..<4 {
        bytes.append(UInt8(truncatingIfNeeded: part.bytes.count >> (8 * index)))
      }
      bytes += part.bytes
      switch rest.popFirst() {
      case UInt8(ascii: ")"): return bytes
      case UInt8(ascii: ","): guard rest.popFirst() == UInt8(ascii: " ") else { return nil }
      default: return nil
      }
    }
  }

  private static func part(
    _ rest: inout ArraySlice<UInt8>, depth: Int
  ) -> (tag: KeyTag, bytes: [UInt8])? {
    guard let colon = rest.firstIndex(of: UInt8(ascii: ":")) else { return nil }
    let name = String(decoding: rest[..<colon], as: UTF8.self)
    rest = rest[(colon + 1)...]
    if name == "composite" { return composite(&rest, depth: depth + 1).map { (.composite, $0) } }
    guard let text = unescaped(&rest) else { return nil }
    if let type = KeyTextFormat(rawValue: name) { return try? type.encode(text) }
    guard let tag = UInt8(name), let bytes = KeyTextFormat.bytes(hexadecimal: text) else {
      return nil
    }
    return (KeyTag(rawValue: tag), bytes)
  }

  /// The text up to the comma or bracket that ends a part.
  private static func unescaped(_ rest: inout ArraySlice<UInt8>) -> String? {
    var bytes: [UInt8] = []
    while let byte = rest.first, byte != UInt8(ascii: ","), byte != UInt8(ascii: ")") {
      rest.removeFirst()
      guard byte == UInt8(ascii: "\\") else {
        bytes.append(byte)
        continue
      }
      guard let next = rest.popFirst() else { return nil }
      bytes.append(next)
    }
    return String(validating: bytes, as: UTF8.self)
  }
}
