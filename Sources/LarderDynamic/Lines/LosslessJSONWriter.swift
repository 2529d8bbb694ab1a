// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderCoding

// LOSSLESS JSON LINES
//
// JSON has fewer kinds of values than CBOR. A value of another kind is written as an object with
// one field whose name begins with a dollar:
//
//     {"$date": 1700000000.25}   seconds since 1970, with the digits that identify the date exactly
//     {"$uuid": "…"}             a UUID
//     {"$bytes": "…"}            a byte string, in base64
//     {"$cbor": "…"}             any other item (decimals, tags, NaN, a map with a key that is not
//                                a string or begins with a dollar), as its CBOR bytes in base64
//
// A number with a point or an exponent is a floating-point number, any other number an integer, in
// both directions. So an export followed by an import gives the same bytes.

/// A writer of lossless JSON lines.
package enum LosslessJSONWriter {
  /// Returns a value as one line of JSON, without its end.
  package static func text(_ value: CBORValue) -> String {
    var text = ""
    write(value, to: &text)
    return text
  }

  private static func write(_ value: CBORValue, to text: inout String) {
    switch value {
    case .unsigned, .negative, .text, .boolean, .null: text += value.jsonText()
    case .float(let number) where number.isFinite: text += number.description
    case .bytes(let bytes): text += "{\"$bytes\":\"\(Base64.text(bytes))\"}"
    case .tagged(37, .bytes(let bytes)) where bytes.count == 16:
      text += "{\"$uuid\":\"\(KeyTextFormat.display(tag: .uuid, bytes: bytes))\"}"
    case .tagged(1, .float), .tagged(1001, _):
      if let digits = ExactDate.digits(value) {
        text += "{\"$date\":\(digits)}"
      } else {
        writeBytes(value, to: &text)
      }
    case .array(let values):
      text += "["
      for (position, value) in values.enumerated() {
        if position > 0 { text += "," }
        write(value, to: &text)
      }
      text += "]"
    case .map(let pairs) where isPlain(pairs):
      text += "{"
      for (position, pair) in pairs.enumerated() {
        if position > 0 { text += "," }
        text += pair.key.jsonText() + ":"
        write(pair.value, to: &text)
      }
      text += "}"
    default: writeBytes(value, to: &text)
    }
  }

  private static func isPlain(_ pairs: [CBORValue.Pair]) -> Bool {
    pairs.allSatisfy { pair in
      guard case .text(let name) = pair.key else { return false }
      return !name.hasPrefix("$")
    }
  }

  private static func writeBytes(_ value: CBORValue, to text: inout String) {
    text += "{\"$cbor\":\"\(Base64.text(value.encoded))\"}"
  }
}
