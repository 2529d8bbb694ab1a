// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import LarderCoding
import LarderDefaults
import LarderEngine

/// `larder defaults`: the properties programs keep.
struct DefaultsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "defaults",
    abstract: "Read, write and watch the defaults of programs.",
    discussion: """
      A suite is a name, such as com.example.app; a program's own suite has the name of its bundle \
      or its executable. Running programs see what is written here with their next read.

      EXAMPLES
        larder defaults list                              the suites there are
        larder defaults read com.example.app              all its values
        larder defaults write com.example.app volume 0.5 --type double
        larder defaults delete com.example.app volume
        larder defaults watch com.example.app theme       until you stop it
      """,
    subcommands: [
      DefaultsReadCommand.self, DefaultsWriteCommand.self, DefaultsDeleteCommand.self,
      DefaultsListCommand.self, DefaultsWatchCommand.self,
    ])
}

/// A suite that is named on the command line.
struct SuiteArgument: ParsableArguments {
  @Argument(help: "The suite's name.")
  var suite: String

  @Flag(name: .long, help: "Write answers and errors as JSON.")
  var json = false

  /// Opens a suite that exists.
  ///
  /// - Throws: ``ToolError`` with exit code 2 when there is none: looking creates nothing.
  func open() throws -> Defaults {
    let path = try DefaultsSuite.path(of: suite)
    guard try SharedStore.durability(ofStoreAt: path) != nil else {
      throw ToolError(
        "noStore",
        "There is no suite \(suite). `larder defaults list` shows which there are.",
        exit: Exit.noStore)
    }
    return try Defaults(suiteName: suite)
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
  @Argument(help: "The key; left out: all.") var key: String?

  func run() throws {
    try Console.reporting(json: suite.json) {
      let defaults = try suite.open()
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
        // The others were shown.
        throw ToolError(
          "unreadable",
          "There is a value that cannot be read for \(unreadable.map { "\"\($0)\"" }.joined(separator: ", ")). "
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
      When the command returns, the value is on the disk and every process sees it. A missing suite \
      is created. A program reads what is of the type it asks for: an integer where it keeps Int, \
      json where it keeps a structure or a list.

      Without --type, the value gets the type of the one it replaces, and is refused if it is none of \
      that type; what is new is text.

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
      "text, bytes, json, integer, double, float, boolean, uuid or date; left out: that of the "
        + "value there is, or text.", valueName: "kind"))
  var type: ValueKind?

  func run() throws {
    try Console.reporting(json: suite.json) {
      let path = try DefaultsSuite.path(of: suite.suite)
      // What makes no sense is refused before a suite is created for it.
      if try SharedStore.durability(ofStoreAt: path) == nil { _ = try encoded(as: type ?? .text) }
      let defaults = try Defaults(suiteName: suite.suite)
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

  /// The value as what was said, or else as what is there.
  private func encoded(
    in defaults: Defaults
  ) throws -> (codec: CodecIdentifier, payload: [UInt8]) {
    if let type { return try encoded(as: type) }
    // What cannot be read has no type that counts.
    let stored = try? defaults.storedValue(forKey: key)
    guard let codec = stored.map({ CodecIdentifier(rawValue: $0.codec) }),
      let kind = ValueKind(replacing: codec)
    else { return try encoded(as: .text) }
    do { return try encoded(as: kind) } catch let error as ToolError {
      throw ToolError.usage(
        "\"\(key)\" has a value of the type \(EntryValue.name(of: codec)). \(error.message) "
          + "With --type it can become another.")
    }
  }
}

extension ValueKind {
  /// The kind of value that may take the place of one of a codec; `nil`: any.
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
    if (key == nil) != all { throw ValidationError("Name a key, or say --all.") }
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
