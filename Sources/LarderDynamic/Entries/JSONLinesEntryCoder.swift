// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine

// ENTRIES AS LINES OF JSON
//
// One object a line, fields in any order:
//
//     namespace   text; left out: the one without a name
//     key         text: the key as `larder list` shows it
//     keyType     "integer", "uuid", "bytes", "described"; left out: text
//     keyTag, keyBase64   instead of the two, for keys the tool cannot form (composites)
//     created     milliseconds since 1970; told, not read: an imported entry is new
//     expires     milliseconds since 1970; left out: never
//     codec       "cbor", "json", "plist", "bytes", "text", "integer", "double", "float", "boolean",
//                 "uuid", "date", or a number; left out: text, or bytes with base64
//     text        the stored bytes as a text: of texts, and of values that are stored as JSON
//     base64      the stored bytes of anything else

/// Writes and reads entries as lines of JSON.
package enum JSONLinesEntryCoder {
  private static let codecs: [(name: String, codec: CodecIdentifier)] = [
    ("cbor", .cbor), ("json", .json), ("plist", .propertyList), ("bytes", .plainBytes),
    ("text", .plainText), ("integer", .plainInteger), ("double", .plainDouble),
    ("float", .plainFloat), ("boolean", .plainBoolean), ("uuid", .plainUUID),
    ("date", .plainDate),
  ]

  // MARK: Writing

  /// Appends an entry's line, with its end.
  package static func append(_ entry: borrowing ExportedEntry, to output: inout [UInt8]) {
    output += Array("{".utf8)
    if !entry.namespace.isEmpty {
      output += "\"namespace\":".utf8
      append(text: Array(entry.namespace.utf8), to: &output)
      output.append(UInt8(ascii: ","))
    }
    append(key: entry.key, to: &output)
    output += ",\"created\":\(entry.created)".utf8
    if entry.expires != ExportedEntry.never { output += ",\"expires\":\(entry.expires)".utf8 }
    let codec = CodecIdentifier(rawValue: entry.codec)
    if let name = codecs.first(where: { $0.codec == codec })?.name {
      output += ",\"codec\":\"\(name)\"".utf8
    } else {
      output += ",\"codec\":\(entry.codec)".utf8
    }
    if codec == .plainText || codec == .json, isText(entry.payload) {
      output += ",\"text\":".utf8
      append(text: entry.payload, to: &output)
    } else {
      output += ",\"base64\":\"".utf8
      Base64.append(entry.payload, to: &output)
      output.append(UInt8(ascii: "\""))
    }
    output += "}\n".utf8
  }

  private static func isText(_ bytes: [UInt8]) -> Bool {
    // Nearly all are ASCII.
    if bytes.allSatisfy({ $0 < 0x80 }) { return true }
    return String(validating: bytes, as: UTF8.self) != nil
  }

  private static func append(key: EncodedKey, to output: inout [UInt8]) {
    if key.tag == KeyTag.text.rawValue, isText(key.bytes) {
      output += "\"key\":".utf8
      return append(text: key.bytes, to: &output)
    }
    let shown = KeyTextFormat.display(tag: KeyTag(rawValue: key.tag), bytes: key.bytes)
    if let type = KeyTextFormat.allCases.first(where: { $0.tag.rawValue == key.tag }),
      let again = try? type.encode(shown), again.bytes == key.bytes
    {
      output += "\"keyType\":\"\(type.rawValue)\",\"key\":".utf8
      return append(text: Array(shown.utf8), to: &output)
    }
    output += "\"keyTag\":\(key.tag),\"keyBase64\":\"".utf8
    Base64.append(key.bytes, to: &output)
    output.append(UInt8(ascii: "\""))
  }

  private static func append(text: [UInt8], to output: inout [UInt8]) {
    output.append(UInt8(ascii: "\""))
    if text.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) {
      output += text
    } else {
      for byte in text {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): output += [UInt8(ascii: "\\"), byte]
        case 0x0A: output += "\\n".utf8
        case 0x09: output += "\\t".utf8
        case 0x0D: output += "\\r".utf8
        case ..<0x20: output += "\\u00\(byte < 16 ? "0" : "")\(String(byte, radix: 16))".utf8
        default: output.append(byte)
        }
      }
    }
    output.append(UInt8(ascii: "\""))
  }

  // MARK: Reading

  /// Reads a line.
  package static func entry(_ line: ArraySlice<UInt8>) throws(JSONParseError) -> ExportedEntry {
    var fields = try JSONLinesEntryParser(line)
    return try fields.entry { name in codecs.first { $0.name == name }?.codec.rawValue }
  }
}
