// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// The fields of the line of an entry.
struct JSONLinesEntryParser {
  private var namespace = ""
  private var key: [UInt8]?
  private var keyType: String?
  private var keyTag: UInt8?
  private var keyBytes: [UInt8]?
  private var created: Int64 = 0
  private var expires = ExportedEntry.never
  private var codecName: String?
  private var codecNumber: UInt16?
  private var text: [UInt8]?
  private var bytes: [UInt8]?

  private enum Field: String {
    case namespace, key, keyType, keyTag, keyBase64, created, expires, codec, text, base64

    var bit: UInt16 {
      switch self {
      case .namespace: 1
      case .key: 2
      case .keyType: 4
      case .keyTag: 8
      case .keyBase64: 16
      case .created: 32
      case .expires: 64
      case .codec: 128
      case .text: 256
      case .base64: 512
      }
    }
  }

  init(_ line: ArraySlice<UInt8>) throws(JSONParseError) {
    var found: UInt16 = 0
    var scanner = FlatScanner(line)
    try scanner.begin()
    while let name = try scanner.nextName() {
      guard let field = Field(rawValue: name) else {
        throw scanner.flaw("\"\(name)\" is not a field of an entry.")
      }
      // Programs differ in whether the first or the last one applies.
      guard found & field.bit == 0 else {
        throw scanner.flaw("The field \"\(name)\" occurs twice.")
      }
      found |= field.bit
      switch field {
      case .namespace: namespace = String(decoding: try scanner.text(), as: UTF8.self)
      case .key: key = try scanner.text()
      case .keyType: keyType = String(decoding: try scanner.text(), as: UTF8.self)
      case .keyTag: keyTag = try scanner.integer(upTo: UInt8.max)
      case .keyBase64: keyBytes = try scanner.base64()
      case .created: created = try scanner.integer() ?? 0
      case .expires: expires = try scanner.integer() ?? ExportedEntry.never
      case .codec:
        if scanner.isAtText {
          codecName = String(decoding: try scanner.text(), as: UTF8.self)
        } else {
          codecNumber = try scanner.integer(upTo: UInt16.max)
        }
      case .text: text = try scanner.text()
      case .base64: bytes = try scanner.base64()
      }
    }
    try scanner.end()
  }

  mutating func entry(_ codec: (String) -> UInt16?) throws(JSONParseError) -> ExportedEntry {
    func flaw(_ message: String) -> JSONParseError { JSONParseError(column: 1, message: message) }
    let place: EncodedKey
    if keyTag != nil || keyBytes != nil {
      guard let keyTag, let keyBytes, key == nil, keyType == nil else {
        throw flaw(
          "\"keyTag\" and \"keyBase64\" must both be present, without \"key\" and \"keyType\".")
      }
      place = EncodedKey(tag: keyTag, bytes: keyBytes)
    } else if let key {
      if let keyType, keyType != "text" {
        guard let type = KeyTextFormat(rawValue: keyType),
          let encoded = try? type.encode(String(decoding: key, as: UTF8.self))
        else { throw flaw("The key is not a valid \(keyType).") }
        place = EncodedKey(tag: encoded.tag.rawValue, bytes: encoded.bytes)
      } else {
        place = EncodedKey(tag: KeyTag.text.rawValue, bytes: key)
      }
    } else {
      throw flaw("The field \"key\" is missing.")
    }
    guard let payload = text ?? bytes, text == nil || bytes == nil else {
      throw flaw("The line needs either \"text\" or \"base64\".")
    }
    var number =
      text == nil ? CodecIdentifier.plainBytes.rawValue : CodecIdentifier.plainText.rawValue
    if let codecName {
      guard let known = codec(codecName) else { throw flaw("There is no codec \"\(codecName)\".") }
      number = known
    } else if let codecNumber {
      number = codecNumber
    }
    return ExportedEntry(
      namespace: namespace, key: place, codec: number, created: created, expires: expires,
      payload: payload)
  }
}

/// A scanner of an object of strings and integers.
struct FlatScanner {
  private let bytes: ArraySlice<UInt8>
  private var position: Int
  private var isFirst = true

  init(_ bytes: ArraySlice<UInt8>) {
    self.bytes = bytes
    position = bytes.startIndex
  }

  func flaw(_ message: String) -> JSONParseError {
    JSONParseError(column: position - bytes.startIndex + 1, message: message)
  }

  private mutating func skipSpace() {
    while position < bytes.endIndex, bytes[position] <= 0x20 { position += 1 }
  }

  private mutating func take(_ byte: UInt8) -> Bool {
    skipSpace()
    guard position < bytes.endIndex, bytes[position] == byte else { return false }
    position += 1
    return true
  }

  mutating func begin() throws(JSONParseError) {
    guard take(UInt8(ascii: "{")) else { throw flaw("The line is not a JSON object.") }
  }

  /// Returns the name of the next field, or `nil` after the last one.
  mutating func nextName() throws(JSONParseError) -> String? {
    if take(UInt8(ascii: "}")) { return nil }
    if !isFirst, !take(UInt8(ascii: ",")) {
      throw flaw("The object needs a comma or a closing brace here; the line may be truncated.")
    }
    isFirst = false
    let name = String(decoding: try text(), as: UTF8.self)
    guard take(UInt8(ascii: ":")) else {
      throw flaw("A colon is missing after the name of a field.")
    }
    return name
  }

  mutating func end() throws(JSONParseError) {
    skipSpace()
    guard position == bytes.endIndex else { throw flaw("The line continues after the object.") }
  }

  var isAtText: Bool {
    var copy = self
    copy.skipSpace()
    return copy.position < bytes.endIndex && bytes[copy.position] == UInt8(ascii: "\"")
  }

  /// Returns the UTF-8 bytes of a string.
  mutating func text() throws(JSONParseError) -> [UInt8] {
    let slice = try rawText()
    if slice.allSatisfy({ $0 != UInt8(ascii: "\\") && $0 >= 0x20 && $0 < 0x80 }) {
      return Array(slice)
    }
    // The complete parser handles the rare strings with escapes.
    let quote: [UInt8] = [UInt8(ascii: "\"")]
    do {
      guard case .text(let text) = try JSONReader.value(quote + slice + quote) else { return [] }
      return Array(text.utf8)
    } catch {
      throw flaw(error.message)
    }
  }

  mutating func base64() throws(JSONParseError) -> [UInt8] {
    guard let bytes = Base64.bytes(try rawText()) else { throw flaw("The string is not base64.") }
    return bytes
  }

  /// Returns the bytes between the quotes.
  private mutating func rawText() throws(JSONParseError) -> ArraySlice<UInt8> {
    guard take(UInt8(ascii: "\"")) else {
      throw flaw("A string is missing here; the line may be truncated.")
    }
    let start = position
    while position < bytes.endIndex {
      let byte = bytes[position]
      if byte == UInt8(ascii: "\"") {
        defer { position += 1 }
        return bytes[start..<position]
      }
      position += byte == UInt8(ascii: "\\") ? 2 : 1
    }
    position = start
    throw flaw("The string that begins here has no end; the line is truncated.")
  }

  /// Returns an integer from zero to `limit`, or `nil` for null.
  mutating func integer<T: FixedWidthInteger>(upTo limit: T) throws(JSONParseError) -> T? {
    skipSpace()
    let start = position
    guard let wide = try integer() else { return nil }
    guard let number = T(exactly: wide), number >= 0 else {
      position = start
      throw flaw("\(wide) is not a number from 0 to \(limit).")
    }
    return number
  }

  /// Returns an integer, or `nil` for null.
  mutating func integer() throws(JSONParseError) -> Int64? {
    skipSpace()
    let start = position
    while position < bytes.endIndex,
      bytes[position] == UInt8(ascii: "-")
        || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(bytes[position])
        || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position])
    {
      position += 1
    }
    let word = String(decoding: bytes[start..<position], as: UTF8.self)
    if word == "null" { return nil }
    guard let number = Int64(word) else {
      position = start
      throw flaw("An integer is missing here; the line may be truncated.")
    }
    return number
  }
}
