// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension CBORValue {
  /// The item as JSON text, as far as JSON can express it (RFC 8949, 6.1).
  ///
  /// Byte strings become base64url without padding, or the form that a tag 21, 22 or 23 around them
  /// selects; big integers likewise, negative ones after a `~`. UUIDs (tag 37) become their usual
  /// text, decimal fractions (tag 4) numbers, extended times (tag 1001) their base time; other tags
  /// are dropped. Numbers that are not finite, `undefined` and unassigned simple values become
  /// `null`. A key that is not a text becomes the text of its JSON.
  public func jsonText(pretty: Bool = false) -> String {
    var printer = JSONPrinter(pretty: pretty)
    printer.print(self)
    return printer.text
  }
}

/// Collects the JSON text of an item.
private struct JSONPrinter {
  let pretty: Bool
  var text = ""
  private var indentation = 0

  /// The text form of byte strings, chosen by tags 21 to 23 for their contents.
  private var byteForm = ByteForm.base64URL

  private enum ByteForm {
    case base64URL
    case base64
    case base16
  }

  init(pretty: Bool) {
    self.pretty = pretty
  }

  mutating func print(_ value: CBORValue) {
    switch value {
    case .unsigned(let number): text += String(number)
    case .negative(let number): text += String(-1 - Int128(number))
    case .bytes(let bytes): quote(encoded(bytes))
    case .text(let string): quote(string)
    case .boolean(let value): text += value ? "true" : "false"
    case .float(let number) where number.isFinite: text += number.description
    case .null, .undefined, .simple, .float: text += "null"
    case .tagged(let tag, let content): print(tag: tag, content)
    case .array(let values):
      list("[", "]", values) { printer, value in printer.print(value) }
    case .map(let pairs):
      list("{", "}", pairs) { printer, pair in
        if case .text(let key) = pair.key {
          printer.quote(key)
        } else {
          printer.quote(pair.key.jsonText())
        }
        printer.text += printer.pretty ? ": " : ":"
        printer.print(pair.value)
      }
    }
  }

  private mutating func print(tag: UInt64, _ content: CBORValue) {
    switch (tag, content) {
    case (2, .bytes(let bytes)):
      quote(Base64.text(bytes, urlSafe: true))
    case (3, .bytes(let bytes)):
      quote("~" + Base64.text(bytes, urlSafe: true))
    case (4, .array(let parts)):
      if parts.count == 2, let exponent = parts[0].integerText, let digits = parts[1].integerText {
        text += "\(digits)e\(exponent)"
      } else {
        print(content)
      }
    case (37, .bytes(let bytes)) where bytes.count == 16:
      quote(KeyTextFormat.display(tag: .uuid, bytes: bytes))
    case (CBORTag.extendedTime, .map(let pairs)):
      print(pairs.first { $0.key == .unsigned(1) }?.value ?? content)
    case (21...23, _):
      let outer = byteForm
      byteForm = [.base64URL, .base64, .base16][Int(tag - 21)]
      print(content)
      byteForm = outer
    default:
      print(content)
    }
  }

  private mutating func list<Element>(
    _ open: String, _ close: String, _ elements: [Element],
    _ body: (inout JSONPrinter, Element) -> Void
  ) {
    text += open
    indentation += 1
    for (index, element) in elements.enumerated() {
      if index > 0 { text += "," }
      newLine()
      body(&self, element)
    }
    indentation -= 1
    if !elements.isEmpty { newLine() }
    text += close
  }

  private mutating func newLine() {
    guard pretty else { return }
    text += "\n"
    text += String(repeating: "  ", count: indentation)
  }

  private func encoded(_ bytes: [UInt8]) -> String {
    switch byteForm {
    case .base64URL: Base64.text(bytes, urlSafe: true)
    case .base64: Base64.text(bytes, urlSafe: false)
    case .base16: KeyTextFormat.display(tag: .bytes, bytes: bytes)
    }
  }

  private mutating func quote(_ string: String) {
    text += "\""
    for scalar in string.unicodeScalars {
      switch scalar {
      case "\"": text += "\\\""
      case "\\": text += "\\\\"
      case "\n": text += "\\n"
      case "\r": text += "\\r"
      case "\t": text += "\\t"
      case "\u{0}"..."\u{1f}":
        let digits = String(scalar.value, radix: 16)
        text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: text.unicodeScalars.append(scalar)
      }
    }
    text += "\""
  }
}

extension CBORValue {
  /// The decimal digits of an integer of 64 bits or, by tags 2 and 3, of up to 128.
  fileprivate var integerText: String? {
    switch self {
    case .unsigned(let number): String(number)
    case .negative(let number): String(-1 - Int128(number))
    case .tagged(2, .bytes(let bytes)) where bytes.count <= 16: String(Self.number(bytes))
    case .tagged(3, .bytes(let bytes)) where bytes.count < 16:
      String(-1 - Int128(Self.number(bytes)))
    default: nil
    }
  }

  private static func number(_ bytes: [UInt8]) -> UInt128 {
    bytes.reduce(0) { $0 << 8 | UInt128($1) }
  }
}
