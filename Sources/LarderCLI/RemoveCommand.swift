// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderCoding
import LarderEngine

/// `larder remove`: removes one entry.
struct RemoveCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove",
    abstract: "Remove a key, for every process.",
    discussion: """
      Ends with 1 if there was no such entry.

      EXAMPLE
        larder remove user/17 --namespace profiles
      """)

  @OptionGroup var key: KeyArguments
  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let encoded = try key.encodedKey()
      let store = try arguments.openExisting()
      defer { store.close() }
      let record = WriteRecord(.remove, space: try key.space(), key: encoded)
      guard case .done(_, true) = try store.core.submit(record) else {
        throw ToolError("notFound", "There is no entry for \(key.place).", exit: Exit.negative)
      }
      if arguments.json { Console.json(.object(key.fields + [("removed", .boolean(true))])) }
    }
  }
}

/// `larder clear`: removes all entries, of a namespace or of the store.
struct ClearCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "clear",
    abstract: "Remove all entries of a namespace, or of the whole store.",
    discussion: """
      They are gone for every process at once. The files stay as large as they are; their room is \
      used again.

      EXAMPLES
        larder clear --namespace thumbnails
        larder clear --yes                     everything
      """)

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "Only this namespace (\"\" is the one without a name).", valueName: "name"))
  var namespace: String?

  @Flag(name: .shortAndLong, help: "Do clear the whole store.")
  var yes = false

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard namespace != nil || yes else {
      throw ValidationError(
        "This would remove every entry of the store. Say --yes to do it, or name a --namespace.")
    }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openExisting()
      defer { store.close() }
      let before = try store.statistics()
      let entries: Int
      if let namespace {
        entries = before.namespaces.first { $0.name == namespace }?.entries ?? 0
        try store.removeAll(in: namespace)
      } else {
        entries = before.entries
        try store.removeAll()
      }
      if arguments.json {
        let scope = CBORValue(namespace)
        Console.json(.object([("namespace", scope), ("removed", CBORValue(entries))]))
      } else {
        Console.line(
          "Removed \(Columns.count(entries, "entry", "entries"))"
            + (namespace.map { " of namespace \"\($0)\"." } ?? "."))
      }
    }
  }
}
