// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding
import LarderDynamic
import LarderEngine

/// The value types of `larder set`, with the names that answers use.
enum ValueKind: String, CaseIterable, ExpressibleByArgument {
  case text, bytes, json, integer, double, float, boolean, uuid, date

  /// Accepts the name, or the name in Swift and other tools.
  init?(argument: String) {
    let others: [String: ValueKind] = [
      "string": .text, "data": .bytes, "int": .integer, "bool": .boolean,
    ]
    guard let kind = ValueKind(rawValue: argument) ?? others[argument] else { return nil }
    self = kind
  }

  /// Returns the codec and the payload of a value that is passed as bytes.
  func encode(_ input: [UInt8]) throws -> (codec: CodecIdentifier, payload: [UInt8]) {
    if self == .bytes { return (.plainBytes, input) }
    guard let text = String(validating: input, as: UTF8.self) else {
      throw ToolError.usage("The value is not UTF-8 text. Store it with --as bytes.")
    }
    let word = text.trimmingCharacters(in: .whitespacesAndNewlines)
    switch self {
    case .bytes, .text: return try plain(text)
    case .json:
      // Foundation's decoder also accepts a byte order mark and commas at the end.
      guard JSONReader.isJSON(Array(word.utf8)), !text.hasPrefix("\u{FEFF}"),
        (try? JSONDecoder().decode(AnyValue.self, from: Data(input))) != nil
      else {
        throw ToolError.usage(
          "The value is not JSON. Strings in JSON have quotes; or store it with --as text.")
      }
      return (.json, Array(word.utf8))
    case .integer:
      if let number = Int128(word) { return try plain(number) }
      return try plain(wanted(UInt128(word), "an integer of at most 128 bits, such as -42"))
    case .double: return try plain(wanted(Double(word), "a number, such as 2.5"))
    case .float: return try plain(wanted(Float(word), "a number, such as 2.5"))
    case .boolean:
      let words = ["true": true, "yes": true, "false": false, "no": false]
      return try plain(wanted(words[word.lowercased()], "true or false, yes or no"))
    case .uuid:
      let form = "a UUID, such as 123E4567-E89B-42D3-A456-426614174000"
      return try plain(wanted(UUID(uuidString: word), form))
    case .date:
      let whole = try? Date.ISO8601FormatStyle().parse(word)
      let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
      let date = whole ?? (try? style.parse(word))
      return try plain(wanted(date, "a date, such as 2027-01-31T12:00:00Z"))
    }
  }

  private func plain<Value: Encodable>(
    _ value: Value
  ) throws -> (codec: CodecIdentifier, payload: [UInt8]) {
    let (codec, payload) = try StandardCoding.encode(value, codec: CBORCodec())
    return (codec, payload)
  }

  private func wanted<Value>(_ value: Value?, _ form: String) throws -> Value {
    guard let value else { throw ToolError.usage("The value is not \(form).") }
    return value
  }
}

/// `larder set`: stores one value.
struct SetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "set",
    abstract: "Store a value for a key.",
    discussion: """
      The value is the argument or, without one, all of standard input: strings and bytes \
      unchanged, a final newline included. When the command returns, the value is committed and \
      every process sees it. A missing store is created.

      --as selects the stored type: a program with a cache of Int reads values stored as integer, \
      one with a cache of structures reads json.

      EXAMPLES
        larder set greeting "Hello"
        larder set 42 --key-type integer --as bytes < image.png
        larder set limits '{"perMinute": 60}' --as json --expires 1h30m
        larder set page/7 --tag user:7 --tag team:3 < page.html
        larder set user/8 --absent --expires 30s     there is no such user
      """)

  @OptionGroup var key: KeyArguments

  @Argument(help: "The value. (default: standard input) After `--` it may begin with a dash.")
  var value: String?

  @Option(
    name: [.customLong("as")],
    help: ArgumentHelp(
      "text, bytes, json, integer, double, float, boolean, uuid or date.", valueName: "kind"))
  var kind = ValueKind.text

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "The time to live: 90s, 10m, 2h, 7d, 1h30m. (default: until it is evicted)",
      valueName: "time"),
    transform: Timestamp.duration)
  var expires: Duration?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "A tag by which `larder remove --tag` removes the entry. Can be repeated.",
      valueName: "tag"))
  var tag: [String] = []

  @Flag(name: .long, help: "Never evict the entry.")
  var pin = false

  @Flag(name: .long, help: "Record that the key has no value; requires --expires.")
  var absent = false

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    if absent, expires == nil || value != nil || pin {
      throw ValidationError("--absent requires --expires, and takes neither a value nor --pin.")
    }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let encoded = try key.encodedKey()
      if absent { return try store(encoded, codec: .plainBytes, payload: []) }
      if value == nil, Console.isInputTerminal {
        Console.printError("larder: Reading the value from the terminal. End it with Control-D.")
      }
      let input = try value.map { Array($0.utf8) } ?? Console.readInput()
      let (codec, payload) = try kind.encode(input)
      try store(encoded, codec: codec, payload: payload)
    }
  }

  private func store(_ encoded: EncodedKey, codec: CodecIdentifier, payload: [UInt8]) throws {
    let store = try arguments.openOrCreate()
    defer { store.close() }
    let content = try EntryContent(
      key: encoded, codec: codec.rawValue, payload: payload,
      EntryAttributes(
        expires.map { .after($0) } ?? .never, tags: tag, isPinned: pin, isAbsent: absent),
      now: Timestamp.now.milliseconds)
    try store.core.submit(WriteRequest(.put(content), space: key.space(), key: encoded))
    guard arguments.json else { return }
    Console.json(
      .object(
        key.fields + [
          ("codec", .text(EntryValue.name(of: codec))),
          (
            "bytes",
            CBORValue(content.overhead + encoded.bytes.count + payload.count)
          ),
          ("valueBytes", CBORValue(payload.count)),
          ("expires", CBORValue(Timestamp(ifSet: content.expires)?.iso)),
        ]))
  }
}
#endif
