// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding
import LarderEngine

/// `larder get`: prints one value.
struct GetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "get",
    abstract: "Print the value of a key.",
    discussion: """
      Strings and bytes are written unchanged (bytes as a hex dump if the output is a terminal), \
      numbers, UUIDs and dates as text, JSON as it was stored, CBOR as JSON. With --json the \
      answer is one object: the value in "value", and the properties of the entry; bytes are \
      base64url.

      Reading updates the last use of the entry while a process has the store open. Otherwise it \
      changes nothing: see `larder --help`.

      EXAMPLES
        larder get greeting
        larder get 42 --key-type integer --namespace thumbnails > thumbnail.png
        larder get user/17 --json | jq .value.name
      """)

  @OptionGroup var key: KeyArguments
  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let encoded = try key.encodedKey()
      let store = try arguments.openForReading()
      defer { store.close() }
      switch try store.core.lookup(encoded, in: key.space()).outcome {
      case .found(let entry): try show(entry)
      case .unreadable(let text): throw StoreError.unreadable(text, in: key.namespace)
      case .knownAbsent:
        throw ToolError(
          "knownAbsent", "It is stored that \(key.place) has no value.", exit: Exit.negative)
      case .absent, .unchanged:
        throw ToolError(
          "notFound", "There is no entry for \(key.place)." + key.hint(in: store),
          exit: Exit.negative)
      }
    }
  }

  private func show(_ entry: StoredValue) throws {
    let codec = CodecIdentifier(rawValue: entry.codec)
    let value = try EntryValue(codec: codec, payload: entry.payload)
    if arguments.json {
      Console.json(
        .object(
          key.fields + [
            ("codec", .text(EntryValue.name(of: codec))),
            ("bytes", CBORValue(try key.bytes(ofValue: entry.payload.count))),
            ("valueBytes", CBORValue(entry.payload.count)),
            ("created", .text(Timestamp(entry.created).iso)),
            ("expires", CBORValue(Timestamp(ifSet: entry.expires)?.iso)),
            ("value", value.jsonValue),
          ]))
      return
    }
    value.show()
  }
}

extension EntryValue {
  /// Writes the value to the standard output.
  func show() {
    switch self {
    case .text(let text):
      // A pipe gets exactly the stored bytes; a terminal gets a complete line.
      Console.write(text + (Console.isTerminal && !text.hasSuffix("\n") ? "\n" : ""))
    case .bytes(let bytes):
      if Console.isTerminal {
        Console.write(HexDump.text(bytes, limit: 512))
      } else {
        Console.write(bytes)
      }
    case .plain(let text, _): Console.line(text)
    case .json(let text, _): Console.line(text)
    case .structure(let value): Console.json(value)
    }
  }
}

/// A hex dump: offset, 16 bytes, and the ASCII characters among them.
enum HexDump {
  static func text(_ bytes: [UInt8], limit: Int) -> String {
    var text = ""
    for start in stride(from: 0, to: min(bytes.count, limit), by: 16) {
      let row = bytes[start..<min(start + 16, bytes.count, limit)]
      let digits = row.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
      let ascii = row.map { (32..<127).contains($0) ? String(UnicodeScalar($0)) : "." }
      text += TextLayout.left(String(start, radix: 16), width: 6)
      text += TextLayout.left(digits.joined(separator: " "), width: 50)
      text += ascii.joined() + "\n"
    }
    if bytes.count > limit {
      text +=
        "… \(TextLayout.grouped(bytes.count - limit)) bytes more; redirect the output for all\n"
    }
    return text
  }
}
#endif
