// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine

// ENTRIES AS LINES OF JSON
//
// One object per line, fields in any order:
//
//     namespace   string; absent for the namespace without a name
//     key         string: the key as `larder list` shows it
//     keyType     "integer", "uuid", "bytes", "described"; absent for strings
//     keyTag, keyBase64   instead of both, for keys that the tool cannot form (composites)
//     created     milliseconds since 1970; ignored by the import, whose entries are new
//     expires     milliseconds since 1970; absent if the entry does not expire
//     codec       "cbor", "json", "plist", "bytes", "text", "integer", "double", "float",
//                 "boolean", "uuid", "date", or a number; absent for text, and for bytes with
//                 base64
//     text        the stored bytes as a string: of strings, and of values that are stored as JSON
//     base64      the stored bytes of other values

/// A writer and parser of entries as lines of JSON.
package enum JSONLinesEntryCoder {
  private static let codecs: [(name: String, codec: CodecIdentifier)] = [
    ("cbor", .cbor), ("json", .json), ("plist", .propertyList), ("bytes", .plainBytes),
    ("text", .plainText), ("integer", .plainInteger), ("double", .plainDouble),
    ("float", .plainFloat), ("boolean", .plainBoolean), ("uuid", .plainUUID),
    ("date", .plainDate),
  ]

  // MARK: Writing

  /// Appends the line of an entry, including its end.
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
    // Most strings are ASCII.
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

  /// Returns the entry of a line.
  ///
  /// - Throws: ``JSONParseError`` with the column of the error.
  package static func entry(_ line: ArraySlice<UInt8>) throws(JSONParseError) -> ExportedEntry {
    var fields = try JSONLinesEntryParser(line)
    return try fields.entry { name in codecs.first { $0.name == name }?.codec.rawValue }
  }
}
