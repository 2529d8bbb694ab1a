// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// How a text names a key, for tools that know no Swift type.
///
/// ```swift
/// let (tag, bytes) = try KeyType.integer.encode("42")     // the key of the Swift value 42
/// KeyType.display(tag: tag, bytes: bytes)                 // "42"
/// ```
public enum KeyType: String, CaseIterable, Sendable {
  /// The text is the key.
  case text
  /// The text is a decimal number.
  case integer
  /// The text is a UUID in its usual form, in upper or lower case.
  case uuid
  /// The text is pairs of hexadecimal digits.
  case bytes
  /// The text is the description of the key.
  case described

  /// The tag of the keys this type forms.
  public var tag: KeyTag {
    switch self {
    case .text: .text
    case .integer: .integer
    case .uuid: .uuid
    case .bytes: .bytes
    case .described: .described
    }
  }

  /// Forms the key that a text names.
  ///
  /// - Throws: ``CodingFailure`` with `.invalidKey` if the text is not of this form.
  public func encode(_ text: String) throws(CodingFailure) -> (tag: KeyTag, bytes: [UInt8]) {
    var encoder = KeyEncoder()
    switch self {
    case .text, .described:
      encoder.append(text: text)
    case .integer:
      if let number = Int128(text) {
        encoder.append(integer: number)
      } else if let number = UInt128(text) {
        encoder.append(integer: number)
      } else {
        throw invalid(text, "a decimal number of at most 128 bits, such as -42")
      }
    case .uuid:
      guard let uuid = UUID(uuidString: text) else {
        throw invalid(text, "a UUID such as 123E4567-E89B-42D3-A456-426614174000")
      }
      encoder.append(uuid: uuid)
    case .bytes:
      guard let bytes = Self.bytes(hexadecimal: text) else {
        throw invalid(text, "an even number of hexadecimal digits, such as 00ff7a")
      }
      encoder.append(bytes: bytes)
    }
    return (tag, encoder.take())
  }

  /// A key as text: what ``encode(_:)`` of the same tag would turn into the key again.
  ///
  /// A composite is shown with its parts, `(text:home, integer:3)`, and cannot be entered as text.
  /// Bytes that do not fit their tag are shown as `<tag>:<hexadecimal>`; nothing is ever refused,
  /// because a tool must be able to show a damaged key.
  public static func display(tag: KeyTag, bytes: [UInt8]) -> String {
    display(tag: tag, bytes: bytes[...], depth: 0)
  }

  private static func display(tag: KeyTag, bytes: ArraySlice<UInt8>, depth: Int) -> String {
    switch tag {
    case .text, .described:
      if let text = String(validating: bytes, as: UTF8.self) { return text }
    case .integer:
      if case .value(let number) = PlainBytes.integer(Int128.self, from: Array(bytes)) {
        return String(number)
      }
      if case .value(let number) = PlainBytes.integer(UInt128.self, from: Array(bytes)) {
        return String(number)
      }
    case .uuid:
      if bytes.count == 16, let uuid = PlainBytes.uuid(Array(bytes)) { return uuid.uuidString }
    case .bytes:
      return hexadecimal(bytes)
    case .composite:
      if depth < 16, let parts = components(bytes) {
        let shown = parts.map { part in
          "\(name(of: part.tag)):\(display(tag: part.tag, bytes: part.bytes, depth: depth + 1))"
        }
        return "(\(shown.joined(separator: ", ")))"
      }
    default:
      break
    }
    return "\(tag.rawValue):\(hexadecimal(bytes))"
  }

  /// The parts of a composite, or `nil` if a length does not fit.
  private static func components(
    _ bytes: ArraySlice<UInt8>
  ) -> [(tag: KeyTag, bytes: ArraySlice<UInt8>)]? {
    var rest = bytes
    var parts: [(tag: KeyTag, bytes: ArraySlice<UInt8>)] = []
    while let tag = rest.first {
      guard rest.count >= 5 else { return nil }
      let length = rest.dropFirst().prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
      rest = rest.dropFirst(5)
      guard rest.count >= length else { return nil }
      parts.append((KeyTag(rawValue: tag), rest.prefix(length)))
      rest = rest.dropFirst(length)
    }
    return parts
  }

  private static func name(of tag: KeyTag) -> String {
    if tag == .composite { return "composite" }
    return allCases.first { $0.tag == tag }?.rawValue ?? String(tag.rawValue)
  }

  private static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    var text = ""
    for byte in bytes {
      if byte < 16 { text += "0" }
      text += String(byte, radix: 16)
    }
    return text
  }

  private static func bytes(hexadecimal text: String) -> [UInt8]? {
    let digits = Array(text.utf8)
    guard digits.count.isMultiple(of: 2) else { return nil }
    var bytes: [UInt8] = []
    for index in stride(from: 0, to: digits.count, by: 2) {
      guard let high = digit(digits[index]), let low = digit(digits[index + 1]) else { return nil }
      bytes.append(high << 4 | low)
    }
    return bytes
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }

  private func invalid(_ text: String, _ wanted: String) -> CodingFailure {
    CodingFailure(
      .invalidKey, operation: .formKey,
      message: "\"\(text)\" is not a key of type \(rawValue). Write \(wanted).")
  }
}
