// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderCoding

/// A parse error of a line of JSON, with its column.
package struct JSONParseError: Error, Sendable, Hashable {
  /// The column of the error in bytes, from 1.
  package let column: Int
  /// A description of the error.
  package let message: String
}

/// A parser of one JSON value (RFC 8259), with the forms of `LosslessJSONWriter.swift`.
package struct JSONReader {
  private let bytes: [UInt8]
  private var position = 0
  private let keepsDigits: Bool
  /// Whether the forms of `LosslessJSONWriter.swift` and the rules of lines do not apply.
  private let isPlain: Bool

  /// The maximum nesting of objects and arrays, less than the limit of stored values.
  static let maximumDepth = 100
  /// That of JSON in general, as in Foundation.
  private static let plainDepth = 512

  private init(_ bytes: [UInt8], keepsDigits: Bool, isPlain: Bool = false) {
    (self.bytes, self.keepsDigits, self.isPlain) = (bytes, keepsDigits, isPlain)
  }

  /// Returns whether a text is JSON of at most 512 levels, by the grammar of RFC 8259 alone.
  package static func isJSON(_ bytes: [UInt8]) -> Bool {
    var reader = JSONReader(bytes, keepsDigits: true, isPlain: true)
    guard String(validating: bytes, as: UTF8.self) != nil, (try? reader.value(depth: 0)) != nil
    else { return false }
    reader.skipSpace()
    return reader.position == bytes.count
  }

  /// Returns the value of a JSON text.
  ///
  /// - Parameters:
  ///   - bytes: The text.
  ///   - keepsDigits: Whether numbers that are not integers of 64 bits become ``ExactNumber`` items.
  /// - Throws: ``JSONParseError`` with the column of the error.
  package static func value(
    _ bytes: [UInt8], keepsDigits: Bool = false
  ) throws(JSONParseError) -> CBORValue {
    guard String(validating: bytes, as: UTF8.self) != nil else {
      throw JSONParseError(column: 1, message: "The line is not UTF-8.")
    }
    var reader = JSONReader(bytes, keepsDigits: keepsDigits)
    let value = try reader.value(depth: 0)
    reader.skipSpace()
    guard reader.position == bytes.count else {
      throw reader.flaw("The line continues after the value.")
    }
    return value
  }

  private func flaw(_ message: String) -> JSONParseError {
    JSONParseError(column: position + 1, message: message)
  }

  private var current: UInt8? { position < bytes.count ? bytes[position] : nil }

  private mutating func skipSpace() {
    while let byte = current, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { position += 1 }
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard current == UInt8(ascii: character) else { return false }
    position += 1
    return true
  }

  private mutating func value(depth: Int) throws(JSONParseError) -> CBORValue {
    skipSpace()
    guard let first = current else { throw flaw("A value is missing; the line is truncated.") }
    switch first {
    case UInt8(ascii: "{"), UInt8(ascii: "["):
      let limit = isPlain ? Self.plainDepth : Self.maximumDepth
      guard depth < limit else { throw flaw("This is more than \(limit) levels deep.") }
      return first == UInt8(ascii: "{") ? try object(depth + 1) : try array(depth + 1)
    case UInt8(ascii: "\""): return .text(try string())
    case UInt8(ascii: "t"): return try word("true", .boolean(true))
    case UInt8(ascii: "f"): return try word("false", .boolean(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return try number()
    default: throw flaw("This is not JSON.")
    }
  }

  private mutating func word(_ word: String, _ value: CBORValue) throws(JSONParseError) -> CBORValue
  {
    guard bytes[position...].starts(with: word.utf8) else { throw flaw("This is not JSON.") }
    position += word.utf8.count
    return value
  }

  private mutating func array(_ depth: Int) throws(JSONParseError) -> CBORValue {
    position += 1
    var values: [CBORValue] = []
    skipSpace()
    if take("]") { return .array(values) }
    repeat {
      values.append(try value(depth: depth))
      skipSpace()
    } while take(",")
    guard take("]") else { throw flaw("The array needs a comma or a closing bracket here.") }
    return .array(values)
  }

  private mutating func object(_ depth: Int) throws(JSONParseError) -> CBORValue {
    let start = position
    position += 1
    var pairs: [CBORValue.Pair] = []
    var names: Set<[UInt8]> = []
    skipSpace()
    if take("}") { return .map([]) }
    repeat {
      skipSpace()
      guard current == UInt8(ascii: "\"") else { throw flaw("The name of a field is missing.") }
      let name = try string()
      guard names.insert(Array(name.utf8)).inserted || isPlain else {
        throw flaw("The field \"\(name)\" occurs twice.")
      }
      skipSpace()
      guard take(":") else { throw flaw("A colon is missing after the name of a field.") }
      skipSpace()
      if name == "$date", pairs.isEmpty, !isPlain, let exact = try exactDate() { return exact }
      pairs.append(CBORValue.Pair(.text(name), try value(depth: depth)))
      skipSpace()
    } while take(",")
    guard take("}") else { throw flaw("The object needs a comma or a closing brace here.") }
    if !isPlain, pairs.count == 1, case .text(let name) = pairs[0].key, name.hasPrefix("$") {
      guard let special = Self.special(name, pairs[0].value) else {
        position = start
        throw flaw("\(name) is not $date, $uuid, $bytes or $cbor with a value of its kind.")
      }
      return special
    }
    return .map(pairs)
  }

  /// Parses the number of `$date` by its digits.
  private mutating func exactDate() throws(JSONParseError) -> CBORValue? {
    let start = position
    guard let first = current, first == UInt8(ascii: "-") || (48...57).contains(first) else {
      return nil
    }
    _ = try number()
    let digits = String(decoding: bytes[start..<position], as: UTF8.self)
    skipSpace()
    guard let date = ExactDate.stored(digits), take("}") else {
      throw flaw("$date needs the seconds since 1970 and no other field.")
    }
    return date
  }

  private static func special(_ name: String, _ value: CBORValue) -> CBORValue? {
    guard case .text(let text) = value else { return nil }
    switch name {
    case "$date": return CalendarDate.seconds(text).flatMap { ExactDate.stored($0) }
    case "$uuid": return ComparableValue.uuid(text).map { .tagged(37, .bytes($0)) }
    case "$bytes": return Base64.bytes(text).map { .bytes($0) }
    case "$cbor": return Base64.bytes(text).flatMap { try? CBORValue(parsing: $0) }
    default: return nil
    }
  }

  // MARK: Scalars

  private mutating func digits() -> Int {
    let start = position
    while let byte = current, (48...57).contains(byte) { position += 1 }
    return position - start
  }

  private mutating func number() throws(JSONParseError) -> CBORValue {
    let start = position
    _ = take("-")
    let leading = current
    let whole = digits()
    guard whole == 1 || whole > 1 && leading != UInt8(ascii: "0") else {
      throw flaw("This is not a JSON number.")
    }
    var isReal = false
    if take(".") {
      isReal = true
      guard digits() > 0 else { throw flaw("A digit is missing after the point.") }
    }
    if take("e") || take("E") {
      isReal = true
      if !take("+") { _ = take("-") }
      guard digits() > 0 else { throw flaw("A digit is missing in the exponent.") }
    }
    let text = String(decoding: bytes[start..<position], as: UTF8.self)
    if !isReal {
      if let number = UInt64(text) { return .unsigned(number) }
      if let number = Int128(text), number < 0, let magnitude = UInt64(exactly: -1 - number) {
        return .negative(magnitude)
      }
    }
    if keepsDigits { return ExactNumber.item(text) }
    guard let number = Double(text), number.isFinite else {
      position = start
      throw flaw("The number is too large.")
    }
    return .float(number)
  }

  private mutating func string() throws(JSONParseError) -> String {
    let start = position
    position += 1
    var content: [UInt8] = []
    while let byte = current {
      position += 1
      switch byte {
      case UInt8(ascii: "\""): return String(decoding: content, as: UTF8.self)
      case 0..<0x20: throw flaw("A control character in a string must be escaped.")
      case UInt8(ascii: "\\"): content += Array(String(try escape()).utf8)
      default: content.append(byte)
      }
    }
    position = start
    throw flaw("The string that begins here has no end; the line is truncated.")
  }

  private mutating func escape() throws(JSONParseError) -> Character {
    guard let byte = current else {
      throw flaw("The string ends in an escape; the line is truncated.")
    }
    position += 1
    switch byte {
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{C}"
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"):
      return Character(Unicode.Scalar(byte))
    case UInt8(ascii: "u"):
      let first = try unit()
      if let scalar = Unicode.Scalar(first) { return Character(scalar) }
      // The first half of a surrogate pair; the other must follow.
      if first < 0xDC00, take("\\"), take("u") {
        let second = try unit()
        if (0xDC00...0xDFFF).contains(second) {
          return Character(
            Unicode.Scalar(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))!)
        }
      }
      throw flaw("Half of a surrogate pair is not a character.")
    default: throw flaw("This is not an escape of JSON.")
    }
  }

  private mutating func unit() throws(JSONParseError) -> UInt32 {
    let digits = bytes[position...].prefix(4)
    let text = String(decoding: digits, as: UTF8.self)
    guard digits.count == 4, text.allSatisfy({ $0.isASCII && $0.isHexDigit }),
      let unit = UInt32(text, radix: 16)
    else { throw flaw("Four hexadecimal digits are missing after \\u.") }
    position += 4
    return unit
  }
}
