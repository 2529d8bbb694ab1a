// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A text form of keys, for tools without the Swift types.
///
/// ```swift
/// let (tag, bytes) = try KeyTextFormat.integer.encode("42")     // the key of the Swift value 42
/// KeyTextFormat.display(tag: tag, bytes: bytes)                 // "42"
/// ```
public enum KeyTextFormat: String, CaseIterable, Sendable {
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
  /// The text is a decimal number, perhaps with a fraction and an exponent.
  case real
  /// The text is a date in UTC, such as `2026-01-31T12:00:00Z`, or a number of seconds since 2001.
  case date
  /// The text is `true` or `false`.
  case boolean

  /// The tag of the keys this type forms.
  public var tag: KeyTag {
    switch self {
    case .text: .text
    case .integer: .integer
    case .uuid: .uuid
    case .bytes: .bytes
    case .described: .described
    case .real: .real
    case .date: .date
    case .boolean: .boolean
    }
  }

  /// Forms the key that a text names.
  ///
  /// - Throws: ``CodecError`` with `.invalidKey` if the text is not of this form.
  public func encode(_ text: String) throws(CodecError) -> (tag: KeyTag, bytes: [UInt8]) {
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
    case .real:
      guard let number = Double(text) else {
        throw invalid(text, "a decimal number such as -1.5e3")
      }
      encoder.append(real: number)
    case .date:
      guard let seconds = DateText.seconds(text) else {
        throw invalid(
          text, "a date such as 2026-01-31T12:00:00Z, or a number of seconds since 2001")
      }
      encoder.append(real: seconds)
    case .boolean:
      guard let value = Bool(text) else { throw invalid(text, "true or false") }
      value.encodeKey(into: &encoder)
    }
    return (tag, encoder.take())
  }

  /// Forms the bytes of a key that ``display(tag:bytes:)`` shows as a text; of composites as well.
  ///
  /// - Parameters:
  ///   - text: The text; `<tag>:<hexadecimal>` too, except where the tag is of texts.
  ///   - tag: The kind of the key.
  /// - Returns: The key's bytes, without the tag.
  /// - Throws: ``CodecError`` with `.invalidKey` if the text is not of the tag's form.
  public static func bytes(of text: String, tag: KeyTag) throws(CodecError) -> [UInt8] {
    if let type = allCases.first(where: { $0.tag == tag }) {
      do {
        return try type.encode(text).bytes
      } catch {
        guard let bytes = CompositeText.tagged(text, tag) else { throw error }
        return bytes
      }
    }
    if tag == .composite, let bytes = CompositeText.bytes(text) { return bytes }
    guard let bytes = CompositeText.tagged(text, tag) else {
      throw CodecError(
        .invalidKey, operation: .formKey,
        message: "\"\(text)\" is not a key of kind \(tag.rawValue). Write its parts, such as "
          + "(text:home, integer:3).")
    }
    return bytes
  }

  /// A key as text: what ``bytes(of:tag:)`` of the same tag turns into the key again.
  ///
  /// A composite is shown with its parts, `(text:home, integer:3)`; a backslash is before the
  /// characters `\`, `,`, `(` and `)` of a part that is a text. Bytes that do not fit their tag are
  /// shown as `<tag>:<hexadecimal>`; nothing is ever refused, because a tool must be able to show a
  /// damaged key.
  public static func display(tag: KeyTag, bytes: [UInt8]) -> String {
    shown(tag: tag, bytes: bytes[...], depth: 0)
      ?? "\(tag.rawValue):\(hexadecimal(bytes))"
  }

  /// Returns a key in the form of its tag, or `nil` if the bytes do not fit it.
  static func shown(tag: KeyTag, bytes: ArraySlice<UInt8>, depth: Int) -> String? {
    switch tag {
    case .text, .described: return String(validating: bytes, as: UTF8.self)
    case .integer:
      if case .value(let number) = ScalarCoding.integer(Int128.self, from: Array(bytes)) {
        return String(number)
      }
      if case .value(let number) = ScalarCoding.integer(UInt128.self, from: Array(bytes)) {
        return String(number)
      }
      return nil
    case .uuid:
      return bytes.count == 16 ? ScalarCoding.uuid(Array(bytes))?.uuidString : nil
    case .bytes: return hexadecimal(bytes)
    case .real, .date:
      // Other forms of zero and of NaN are never written.
      guard let number = Double(keyBytes: Array(bytes)), number.keyBytes.elementsEqual(bytes) else {
        return nil
      }
      return tag == .date ? DateText.text(number) : String(number)
    case .boolean: return Bool(keyBytes: Array(bytes)).map { String($0) }
    case .composite: return depth < 16 ? CompositeText.text(bytes, depth: depth) : nil
    default: return nil
    }
  }

  static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    var text = ""
    for byte in bytes {
      if byte < 16 { text += "0" }
      text += String(byte, radix: 16)
    }
    return text
  }

  static func bytes(hexadecimal text: String) -> [UInt8]? {
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

  private func invalid(_ text: String, _ wanted: String) -> CodecError {
    CodecError(
      .invalidKey, operation: .formKey,
      message: "\"\(text)\" is not a key of type \(rawValue). Write \(wanted).")
  }
}
