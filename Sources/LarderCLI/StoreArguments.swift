// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
// Public, because the two conformances below are.
public import ArgumentParser
import Foundation
import LarderCoding
public import LarderEngine
import LarderMemo

extension Durability: ExpressibleByArgument {}

extension EvictionPolicy: ExpressibleByArgument {
  /// Creates the policy with this name.
  public init?(argument: String) { self.init(argument) }
  /// The names, for the help.
  public static var allValueStrings: [String] { all.map(\.description) }
}

/// The default location of the store.
enum StoreLocation {
  /// Without the path of this user, because the manual contains it too.
  static let description = "$LARDER_STORE, else $XDG_CACHE_HOME/larder, else ~/.cache/larder"

  static let variable = "LARDER_STORE"

  /// Returns the given directory, else `LARDER_STORE`, else the default path.
  static func path(_ option: String?) -> String {
    if let option { return option }
    if isNamed, let named = environment(variable) { return named }
    return SharedStore.defaultPath
  }

  /// Whether `LARDER_STORE` names a directory.
  static var isNamed: Bool { environment(variable)?.isEmpty == false }

  static let queuesDescription =
    "$LARDER_STORE, else $XDG_DATA_HOME/larder/queues, else ~/.local/share/larder/queues"

  /// The default store of queues: `$XDG_DATA_HOME/larder/queues`, else `~/.local/share/larder/queues`.
  static var queues: String {
    let objects = URL(fileURLWithPath: StoreDirectory.defaultObjectPath)
    return objects.deletingLastPathComponent().path + "/queues"
  }

  private static func environment(_ name: String) -> String? {
    ProcessInfo.processInfo.environment[name]
  }
}

/// The options of every command: the store and the form of the answer.
struct StoreArguments: ParsableArguments {
  @Option(
    name: .long,
    help: ArgumentHelp(
      "The store's directory. (default: \(StoreLocation.description))", valueName: "path"),
    completion: .directory)
  var store: String?

  @Option(
    name: .long,
    help: ArgumentHelp(
      """
      cache, durable, durableStrict or relaxed: the durability of a store that this command creates, else cache. \
      An existing store keeps its own, and is refused if this option names another.
      """, valueName: "kind"))
  var durability: Durability?

  @OptionGroup var answer: AnswerArguments

  /// Whether answers and errors are JSON.
  var json: Bool { answer.json }

  var path: String { StoreLocation.path(store) }

  /// Returns these options for the directory of an argument.
  func at(_ path: String?) -> StoreArguments {
    var result = self
    if let path { result.store = path }
    return result
  }

  /// Rejects a command line that names the directory twice.
  func refuse(second path: String?) throws {
    if path != nil, store != nil {
      throw ValidationError("The store's directory is named twice. Pass either PATH or --store.")
    }
  }

  /// The error if there is no store at ``path``.
  var missing: ToolError {
    ToolError(
      "noStore",
      "There is no store at \(path). Name another directory with --store, or create one with "
        + "`larder set`.", exit: Exit.noStore)
  }

  /// Opens a store that exists, for a command that changes it.
  ///
  /// - Throws: ``ToolError`` with exit status 2 if the store is missing.
  func openExisting() throws -> SharedStore {
    guard let found = try SharedStore.durability(ofStoreAt: path) else { throw missing }
    return try SharedStore(at: path, options(durability ?? found))
  }

  /// Opens a store that exists, for a command that only reads. The store stays as it is: a damaged
  /// cache is an error here, where a program starts it empty. While no process has it open, none of its
  /// files is opened for writing.
  ///
  /// - Parameter awaitsOthers: Whether changes by other processes are awaited, also by those that come later.
  /// - Throws: ``ToolError`` with exit status 2 if the store is missing.
  func openForReading(awaitsOthers: Bool = false) throws -> SharedStore {
    guard let found = try SharedStore.durability(ofStoreAt: path) else { throw missing }
    var options = options(durability ?? found)
    options.readsOnly = true
    options.awaitsOthers = awaitsOthers
    return try SharedStore(at: path, options)
  }

  /// Opens a store, and creates it if it is missing.
  ///
  /// - Parameter missing: The durability of a created store, unless the command names one.
  func openOrCreate(_ missing: Durability = .cache) throws -> SharedStore {
    let found = try SharedStore.durability(ofStoreAt: path)
    return try SharedStore(at: path, options(durability ?? found ?? missing))
  }

  /// Makes the store the default one of the commands that this process starts.
  func export(_ store: SharedStore) {
    CommandProxy.export(URL(fileURLWithPath: store.path).path, as: StoreLocation.variable)
  }

  private func options(_ durability: Durability) -> StoreOptions {
    StoreOptions(
      durability: durability, onError: { Console.printError("larder: \($0)") },
      onEvent: { event in
        // A compaction by another process concerns no command.
        if case .generationChanged = event { return }
        Console.printError("larder: \(event)")
      })
  }
}

/// The namespace and the key type, for commands that name one entry.
struct KeyArguments: ParsableArguments {
  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "The namespace of the key. (default: the one without a name)", valueName: "name"))
  var namespace = ""

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      """
      The type of the key, as `larder list` names it: text, integer, uuid, bytes (hexadecimal \
      digits), real, date, boolean, described (the description of a Swift key), composite, such \
      as (text:home, integer:3), or raw (tag and bytes, such as 1:00ff). The text 1 and the integer 1 are \
      different keys.
      """, valueName: "type"))
  var keyType = KeyKind.text

  @Argument(help: "The key.")
  var key: String

  /// Returns the namespace handle of the engine.
  func space() throws -> NamespaceHandle { try NamespaceHandle(name: namespace) }

  /// Returns the encoded key.
  func encodedKey() throws -> EncodedKey {
    try keyType.key(key)
  }

  /// Returns the size of an entry with this key, as the budget counts it.
  func bytes(ofValue count: Int) throws -> Int {
    EntryHeader.size + (try encodedKey().bytes.count) + count
  }

  /// The key in quotes, and its namespace.
  var place: String {
    "\"\(key)\" in " + (namespace.isEmpty ? "the unnamed namespace" : "namespace \"\(namespace)\"")
  }

  /// Returns a sentence about an entry that may be meant by a key without one: the integer of its digits, or
  /// `list`'s and `watch`'s form with the namespace in front. Empty if there is none.
  func hint(in store: SharedStore) -> String {
    var places = [(namespace, key)]
    if namespace.isEmpty {
      for slash in key.indices.lazy.filter({ key[$0] == "/" }).prefix(8) {
        places.append((String(key[..<slash]), String(key[key.index(after: slash)...])))
      }
    }
    for (name, text) in places {
      guard let space = try? NamespaceHandle(name: name) else { continue }
      let kinds: [KeyKind] = [.text, .integer, KeyKind(tag: .composite)]
      for type in kinds where type != keyType || name != namespace {
        guard let encoded = try? type.key(text),
          let entry = try? store.core.description(of: encoded, in: space), !entry.isAbsent
        else { continue }
        let place = name.isEmpty ? "" : " in namespace \"\(name)\""
        let option = type == .text ? "" : " (--key-type \(type))"
        return " There is one of the \(type) \"\(text)\"\(place)\(option)."
      }
    }
    return ""
  }

  /// The first fields of every JSON answer about one key.
  var fields: [(String, CBORValue)] {
    [("key", .text(key)), ("keyType", .text(keyType.description)), ("namespace", .text(namespace))]
  }
}
#endif
