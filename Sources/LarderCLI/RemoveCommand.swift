// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine

/// `larder remove`: removes entries by their keys.
struct RemoveCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove",
    abstract: "Remove keys, for every process.",
    discussion: """
      The keys are arguments, or with --stdin the lines of standard input, or with --prefix all \
      that begin with a text. A line of `larder list --json`, `watch --json` or an export names namespace \
      and type as well. Each key is removed by a separate transaction. With --tag the entries \
      of all namespaces that were stored with the tag are removed, or those of --namespace, by one \
      small write.

      The exit status is 1 if a key has no entry; the other keys are removed. With --json "missing" has \
      key, keyType and namespace of each. A --prefix or --tag without entries is not an error.

      EXAMPLES
        larder remove user/17 --namespace profiles
        larder remove a b c
        larder remove --prefix user/ --json
        larder remove --tag user:7
        larder list --json | jq -c 'select(.bytes > 1000000)' | larder remove --stdin
      """)

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "The namespace of the keys. (default: the one without a name; with --tag, all)",
      valueName: "name"))
  var namespace: String?

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "The type of the keys, as `larder list` names it: text, integer, composite, ...",
      valueName: "type"))
  var keyType = KeyKind.text

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Remove every key whose text begins with this prefix.", valueName: "text"))
  var prefix: String?

  @Option(
    name: .long, help: ArgumentHelp("Remove the entries with this tag.", valueName: "tag"))
  var tag: String?

  @Flag(name: .long, help: "Read keys from standard input, one a line.")
  var stdin = false

  @Argument(help: "The keys.")
  var keys: [String] = []

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    let ways = [!keys.isEmpty, stdin, prefix != nil, tag != nil].filter { $0 }.count
    guard ways == 1 else {
      throw ValidationError("Pass keys, --stdin, --prefix or --tag, and only one of the four.")
    }
    if prefix == "" {
      throw ValidationError(
        "--prefix must not be empty. To remove all entries, run `larder clear`.")
    }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let space = try NamespaceHandle(name: namespace ?? "")
      if let tag { return try remove(tag, namespace == nil ? nil : space) }
      // All keys are parsed before the first is removed: a usage error removes nothing.
      var named = keys
      if stdin {
        named = try Console.readLines().filter { !$0.isEmpty }
      }
      let wanted = try named.map { key in
        let name = namespace ?? ""
        // An argument is always the text of a key.
        guard !stdin else { return try PrintedKey(line: key, kind: keyType, namespace: namespace) }
        return PrintedKey(text: key, namespace: name, key: try keyType.key(key))
      }
      // An invalid namespace is a usage error, too.
      let spaces = try wanted.map { try NamespaceHandle(name: $0.namespace) }
      let store = try arguments.openExisting()
      defer { store.close() }
      if let prefix { return report(removed: try removeAll(prefix, space, store.core), []) }
      var missing: [PrintedKey] = []
      for (key, space) in zip(wanted, spaces) where try !remove(key.key, space, store.core) {
        missing.append(key)
      }
      report(removed: wanted.count - missing.count, missing)
      if !missing.isEmpty { throw Exit.negative }
    }
  }

  private func remove(_ tag: String, _ space: NamespaceHandle?) throws {
    let store = try arguments.openExisting()
    defer { store.close() }
    try store.core.removeAll(tagged: tag, in: space)
    if arguments.json {
      Console.json(
        .object([("tag", .text(tag)), ("namespace", CBORValue(namespace))]))
    } else {
      Console.line(
        "Removed the entries with tag \"\(tag)\""
          + (namespace.map { " of namespace \"\($0)\"." } ?? "."))
    }
  }

  private func remove(_ key: EncodedKey, _ space: NamespaceHandle, _ core: StoreCore) throws -> Bool
  {
    let result = try core.submit(WriteRequest(.remove, space: space, key: key))
    if case .done(_, true) = result { return true }
    return false
  }

  private func removeAll(_ prefix: String, _ space: NamespaceHandle, _ core: StoreCore) throws
    -> Int
  {
    var position: UInt64? = 0
    var removed = 0
    while let start = position {
      let (entries, next) = try core.page(of: space, from: start, limit: 256)
      for entry in entries where keyType.isRaw || entry.key.tag == keyType.tag.rawValue {
        let (text, kind) = KeyKind.shown(entry.key)
        if kind == keyType, text.hasPrefix(prefix), try remove(entry.key, space, core) {
          removed += 1
        }
      }
      position = next
    }
    return removed
  }

  private func report(removed: Int, _ missing: [PrintedKey]) {
    let namespace = namespace ?? ""
    let place =
      " in " + (namespace.isEmpty ? "the unnamed namespace" : "namespace \"\(namespace)\"")
    guard arguments.json else {
      for key in missing { Console.printError("larder: There is no entry for \(key.place).") }
      if prefix != nil {
        Console.line("Removed \(TextLayout.count(removed, "entry", "entries"))\(place).")
      }
      return
    }
    if prefix == nil, !stdin, keys.count == 1, missing.isEmpty {
      return Console.json(
        .object([
          ("key", .text(keys[0])), ("keyType", .text(keyType.description)),
          ("namespace", .text(namespace)), ("removed", .boolean(true)),
        ]))
    }
    if missing.isEmpty || removed > 0 {
      Console.json(
        .object([
          ("removed", CBORValue(removed)), ("missing", .array(missing.map(\.json))),
        ]))
    }
    guard !missing.isEmpty else { return }
    Console.printError(
      CBORValue.object([
        ("error", .text("notFound")),
        (
          "message",
          .text("There is no entry for \(missing.map(\.place).joined(separator: ", ")).")
        ), ("missing", .array(missing.map(\.json))),
      ]).jsonText())
  }
}

/// `larder clear`: removes all entries, of a namespace or of the store.
struct ClearCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "clear",
    abstract: "Remove all entries of a namespace, or of the whole store.",
    discussion: """
      Every process sees the removal at once. The files keep their size; free pages are reused.

      EXAMPLES
        larder clear --namespace thumbnails
        larder clear --yes                     all entries
      """)

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "Only this namespace (\"\" is the one without a name).", valueName: "name"))
  var namespace: String?

  @Flag(name: .shortAndLong, help: "Confirm clearing the whole store.")
  var yes = false

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard namespace != nil || yes else {
      throw ValidationError(
        "Clearing the whole store requires --yes. To clear one namespace, pass --namespace NAME.")
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
          "Removed \(TextLayout.count(entries, "entry", "entries"))"
            + (namespace.map { " of namespace \"\($0)\"." } ?? "."))
      }
    }
  }
}
#endif
