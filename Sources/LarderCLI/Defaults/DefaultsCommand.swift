// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding
import LarderDefaults
import LarderEngine

/// `larder defaults`: the defaults of programs.
struct DefaultsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "defaults",
    abstract: "Read, write and watch the defaults of programs.",
    discussion: """
      A suite is a name, such as com.example.app; the main suite of a program has the name of its \
      bundle or executable. A suite that a program opens by its directory, with Defaults(at:), is \
      that path, which begins with / or ./ here. Running programs see a written value with their \
      next read.

      EXAMPLES
        larder defaults list                              all suites
        larder defaults read com.example.app              all its values
        larder defaults write com.example.app volume 0.5 --type double
        larder defaults delete com.example.app volume
        larder defaults read ./document/settings          a suite by its directory
        larder defaults watch com.example.app theme       until interrupted
      """,
    subcommands: [
      DefaultsReadCommand.self, DefaultsWriteCommand.self, DefaultsDeleteCommand.self,
      DefaultsListCommand.self, DefaultsWatchCommand.self,
    ])
}

/// The suite argument.
struct SuiteArgument: ParsableArguments {
  @Argument(help: "The suite's name, or its directory, which begins with / or ./.")
  var suite: String

  @Flag(name: .long, help: "Write answers and errors as JSON.")
  var json = false

  /// Opens a suite that exists, to change it.
  ///
  /// - Throws: ``ToolError`` with exit status 2 if the suite is missing.
  func open() throws -> Defaults {
    guard try exists else { throw noSuite }
    return try openOrCreate()
  }

  /// Opens a suite that exists, only to read it.
  ///
  /// - Parameter follows: Whether the command waits for changes.
  /// - Throws: ``ToolError`` with exit status 2 if the suite is missing.
  func openForReading(follows: Bool = false) throws -> Defaults {
    guard try exists else { throw noSuite }
    return try Defaults(readingAt: path, follows: follows)
  }

  private var noSuite: ToolError {
    ToolError(
      "noStore",
      "There is no suite \(suite). `larder defaults list` prints all suites; a suite by its "
        + "directory begins with / or ./.",
      exit: Exit.noStore)
  }

  /// Whether the suite is a directory, not a name. Other texts with a slash are mistyped names.
  private var isPath: Bool { suite.hasPrefix("/") || suite.hasPrefix("./") }

  private var path: String {
    get throws { try isPath ? suite : DefaultsSuite.path(of: suite) }
  }

  /// Whether the suite exists.
  var exists: Bool {
    get throws { try SharedStore.durability(ofStoreAt: path) != nil }
  }

  /// Opens a suite, and creates it if it is missing.
  func openOrCreate() throws -> Defaults {
    try isPath ? Defaults(at: suite) : Defaults(suiteName: suite)
  }

  func missing(_ key: String) -> ToolError {
    ToolError("notFound", "There is no value for \"\(key)\" in \(suite).", exit: Exit.negative)
  }
}

extension EntryValue {
  init(_ stored: StoredValue) throws {
    try self.init(codec: CodecIdentifier(rawValue: stored.codec), payload: stored.payload)
  }

  /// The value on one line.
  var line: String {
    switch self {
    case .text(let text): text
    case .plain(let text, _): text
    default: jsonValue.jsonText(pretty: false)
    }
  }
}

/// `larder defaults read`: prints a value, or all.
struct DefaultsReadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "read", abstract: "Print the value of a key, or all values of a suite.")

  @OptionGroup var suite: SuiteArgument
  @Argument(help: "The key. (default: all)") var key: String?

  func run() throws {
    try Console.reporting(json: suite.json) {
      let defaults = try suite.openForReading()
      defer { defaults.close() }
      if let key {
        guard let stored = try defaults.storedValue(forKey: key) else { throw suite.missing(key) }
        let value = try EntryValue(stored)
        guard suite.json else { return Console.line(value.line) }
        let codec = CodecIdentifier(rawValue: stored.codec)
        Console.json(
          .object([
            ("suite", .text(suite.suite)), ("key", .text(key)),
            ("type", .text(EntryValue.name(of: codec))), ("value", value.jsonValue),
          ]))
        return
      }
      var values: [(String, CBORValue)] = []
      var unreadable: [String] = []
      for key in try defaults.keys() {
        do {
          guard let stored = try defaults.storedValue(forKey: key) else { continue }
          let value = try EntryValue(stored)
          if !suite.json { Console.line("\(key) = \(value.line)") }
          values.append((key, value.jsonValue))
        } catch  where error is CodecError || error is DefaultsError {
          unreadable.append(key)
        }
      }
      if suite.json { Console.json(.object(values)) }
      guard unreadable.isEmpty else {
        // The readable values were printed.
        throw ToolError(
          "unreadable",
          "Cannot read the value of \(unreadable.map { "\"\($0)\"" }.joined(separator: ", ")). "
            + "Write it again, or delete it.",
          exit: Exit.negative, details: [("keys", .array(unreadable.map(CBORValue.text)))])
      }
    }
  }
}

/// `larder defaults write`: stores a value.
struct DefaultsWriteCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "write",
    abstract: "Store the value of a key.",
    discussion: """
      When the command returns, the value is on the disk and every process sees it. A missing \
      suite is created. A program reads a value of the type that it declares: an integer for Int, \
      json for a structure or a list.

      Without --type, the value gets the type of the value it replaces, and is rejected if it is \
      not valid for that type; a new value is text.

      EXAMPLES
        larder defaults write com.example.app theme dark
        larder defaults write com.example.app volume 0.5 --type double
        larder defaults write com.example.app volume 0.7
        larder defaults write com.example.app sizes '[1, 2, 3]' --type json
      """)

  @OptionGroup var suite: SuiteArgument
  @Argument(help: "The key.") var key: String
  @Argument(help: "The value. After `--` it may begin with a dash.") var value: String

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "text, bytes, json, integer, double, float, boolean, uuid or date. (default: the type of "
        + "the stored value, else text)", valueName: "kind"))
  var type: ValueKind?

  func run() throws {
    try Console.reporting(json: suite.json) {
      // An invalid value is rejected before a suite is created for it.
      if try !suite.exists { _ = try encoded(as: type ?? .text) }
      let defaults = try suite.openOrCreate()
      defer { defaults.close() }
      let (codec, payload) = try encoded(in: defaults)
      try defaults.setStored(codec: codec.rawValue, payload: payload, forKey: key)
      guard suite.json else { return }
      Console.json(
        .object([
          ("suite", .text(suite.suite)), ("key", .text(key)),
          ("type", .text(EntryValue.name(of: codec))),
        ]))
    }
  }
}

extension DefaultsWriteCommand {
  private func encoded(
    as kind: ValueKind
  ) throws -> (codec: CodecIdentifier, payload: [UInt8]) {
    try kind.encode(Array(value.utf8))
  }

  /// Encodes the value with the given type, else with the type of the stored value.
  private func encoded(
    in defaults: Defaults
  ) throws -> (codec: CodecIdentifier, payload: [UInt8]) {
    if let type { return try encoded(as: type) }
    // An unreadable value has no type.
    let stored = try? defaults.storedValue(forKey: key)
    guard let codec = stored.map({ CodecIdentifier(rawValue: $0.codec) }),
      let kind = ValueKind(replacing: codec)
    else { return try encoded(as: .text) }
    do { return try encoded(as: kind) } catch let error as ToolError {
      throw ToolError.usage(
        "\"\(key)\" has a value of the type \(EntryValue.name(of: codec)). \(error.message) "
          + "Pass --type to change the type.")
    }
  }
}

extension ValueKind {
  /// Returns the value type that replaces a value of a codec, or nil for any type.
  fileprivate init?(replacing codec: CodecIdentifier) {
    switch codec {
    case .cbor, .json, .propertyList: self = .json
    default: self.init(rawValue: EntryValue.name(of: codec))
    }
  }
}

/// `larder defaults delete`: removes a key.
struct DefaultsDeleteCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "delete", abstract: "Remove a key, or with --all every key.")

  @OptionGroup var suite: SuiteArgument
  @Argument(help: "The key.") var key: String?
  @Flag(help: "Remove every key of the suite.") var all = false

  func validate() throws {
    if (key == nil) != all { throw ValidationError("Pass a key or --all.") }
  }

  func run() throws {
    try Console.reporting(json: suite.json) {
      let defaults = try suite.open()
      defer { defaults.close() }
      let count: Int
      if let key {
        guard try defaults.removeValue(forKey: key) else { throw suite.missing(key) }
        count = 1
      } else {
        count = try defaults.keys().count
        try defaults.removeAll()
      }
      guard suite.json else { return }
      Console.json(.object([("suite", .text(suite.suite)), ("removed", CBORValue(count))]))
    }
  }
}
#endif
