// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding
import LarderDefaults
import LarderEngine

/// `larder defaults list`: the suites, or the keys of one.
struct DefaultsListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "Show all suites, or the keys of one.")

  @Argument(help: "The name of the suite. (default: all suites)") var suite: String?
  @Flag(name: .long, help: "Write answers and errors as JSON.") var json = false

  func run() throws {
    try Console.reporting(json: json) {
      guard let suite else { return try listSuites() }
      let argument = SuiteArgument.named(suite, json: json)
      let defaults = try argument.openForReading()
      defer { defaults.close() }
      var rows: [(key: String, type: String, bytes: Int)] = []
      for key in try defaults.keys() {
        guard let stored = try defaults.storedValue(forKey: key) else { continue }
        let type = EntryValue.name(of: CodecIdentifier(rawValue: stored.codec))
        rows.append((key, type, stored.payload.count))
      }
      if json {
        for row in rows {
          Console.json(
            .object([
              ("key", .text(row.key)), ("type", .text(row.type)), ("bytes", CBORValue(row.bytes)),
            ]), pretty: false)
        }
        return
      }
      guard !rows.isEmpty else {
        return Console.printError("larder: There is no value in \(suite).")
      }
      let width = max(3, rows.map(\.key.count).max() ?? 0) + 2
      Console.line(
        TextLayout.left("KEY", width: width) + TextLayout.left("TYPE", width: 9)
          + TextLayout.right("SIZE", width: 9))
      for row in rows {
        Console.line(
          TextLayout.left(row.key, width: width) + TextLayout.left(row.type, width: 9)
            + TextLayout.right("\(ByteCount(bytes: row.bytes))", width: 9))
      }
    }
  }

  private func listSuites() throws {
    let directory = DefaultsSuite.directory
    let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    let suites = names.filter {
      // Suites of other users are omitted.
      (try? SharedStore.durability(ofStoreAt: directory + "/" + $0)) != nil
    }
    if json {
      Console.json(.array(suites.sorted().map(CBORValue.text)))
    } else if suites.isEmpty {
      Console.printError("larder: There is no suite in \(directory).")
    } else {
      for suite in suites.sorted() { Console.line(suite) }
    }
  }
}

extension SuiteArgument {
  static func named(_ suite: String, json: Bool) -> SuiteArgument {
    var argument = SuiteArgument()
    argument.suite = suite
    argument.json = json
    return argument
  }
}

/// `larder defaults watch`: prints a value now and after each change.
struct DefaultsWatchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch",
    abstract: "Print the value of a key now and after each change by any process.",
    discussion: """
      Each value is one line; a missing value is an empty line, or null with --json. The command \
      ends when it is interrupted, or after --count values.
      """)

  @OptionGroup var suite: SuiteArgument
  @Argument(help: "The key.") var key: String
  @Option(help: ArgumentHelp("End after this number of values.", valueName: "number")) var count:
    Int?

  func run() async throws {
    try await Console.reporting(json: suite.json) {
      let defaults = try suite.openForReading(follows: true)
      defer { defaults.close() }
      var left = count ?? .max
      guard left > 0 else { return }
      for try await stored in defaults.entries(forKey: key) {
        let value = try stored.map { try EntryValue($0) }
        if suite.json {
          Console.json(value?.jsonValue ?? .null, pretty: false)
        } else {
          Console.line(value?.line ?? "")
        }
        left -= 1
        if left == 0 { return }
      }
    }
  }
}
#endif
