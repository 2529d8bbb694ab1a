// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Public, because the two conformances below are.
public import ArgumentParser
import Foundation
public import LarderCoding
public import LarderEngine

extension Durability: ExpressibleByArgument {}
extension KeyTextFormat: ExpressibleByArgument {}

/// Where the store is when nobody says.
enum StoreLocation {
  /// For the manual as well, which is not of this user alone.
  static let description = "$LARDER_STORE, else $XDG_CACHE_HOME/larder, else ~/.cache/larder"

  /// The directory given, else `LARDER_STORE`, else the default one.
  static func path(_ option: String?) -> String {
    if let option { return option }
    if let named = environment("LARDER_STORE"), !named.isEmpty { return named }
    return SharedStore.defaultPath
  }

  private static func environment(_ name: String) -> String? {
    ProcessInfo.processInfo.environment[name]
  }
}

/// Which store, and how the answer is to be written: options of every command.
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
      cache, durable or relaxed. Normally left out: an existing store says itself what it is. `set` creates \
      a missing store with it. (default: cache)
      """, valueName: "kind"))
  var durability: Durability?

  @Flag(name: .long, help: "Write answers and errors as JSON.")
  var json = false

  @Option(
    name: .long,
    help: ArgumentHelp(
      """
      auto, always or never: whether answers for people have colours. auto: on a terminal, unless \
      NO_COLOR is set or TERM is dumb.
      """, valueName: "when"))
  var color = ColorChoice.auto

  func validate() { Style.choose(color) }

  var path: String { StoreLocation.path(store) }

  /// The same with a directory that was named without an option.
  func at(_ path: String?) -> StoreArguments {
    var result = self
    if let path { result.store = path }
    return result
  }

  /// A directory is named once.
  func refuse(second path: String?) throws {
    if path != nil, store != nil {
      throw ValidationError("Name the store's directory either as PATH or with --store.")
    }
  }

  /// Opens a store that exists.
  ///
  /// - Throws: ``ToolError`` with exit code 2 when there is none: looking creates nothing.
  func openExisting() throws -> SharedStore {
    guard let found = try SharedStore.durability(ofStoreAt: path) else {
      throw ToolError(
        "noStore",
        "There is no store at \(path). Name another directory with --store, or create one with "
          + "`larder set`.", exit: Exit.noStore)
    }
    return try SharedStore(at: path, options(durability ?? found))
  }

  /// Opens a store, and creates it if there is none.
  ///
  /// - Parameter missing: The durability of a store that is created, if the command names none.
  func openOrCreate(_ missing: Durability = .cache) throws -> SharedStore {
    let found = try SharedStore.durability(ofStoreAt: path)
    return try SharedStore(at: path, options(durability ?? found ?? missing))
  }

  private func options(_ durability: Durability) -> StoreOptions {
    StoreOptions(
      durability: durability, onError: { Console.printError("larder: \($0)") },
      onEvent: { Console.printError("larder: \($0)") })
  }
}

/// The namespace and the kind of key, for commands that name one entry.
struct KeyArguments: ParsableArguments {
  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "The namespace of the key. Left out: the one without a name.", valueName: "name"))
  var namespace = ""

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      """
      What the key is: text, integer, uuid, bytes (as hexadecimal digits) or described (the text a \
      key describes itself with). The text 1 and the integer 1 are different keys.
      """, valueName: "type"))
  var keyType = KeyTextFormat.text

  @Argument(help: "The key.")
  var key: String

  /// The namespace as the engine knows it.
  func space() throws -> NamespaceHandle { try NamespaceHandle(name: namespace) }

  /// The key as the engine knows it.
  func encodedKey() throws -> EncodedKey {
    let (tag, bytes) = try keyType.encode(key)
    return EncodedKey(tag: tag.rawValue, bytes: bytes)
  }

  /// What an entry with this key counts against the budget.
  func bytes(ofValue count: Int) throws -> Int {
    EntryHeader.size + (try encodedKey().bytes.count) + count
  }

  /// `"key"`, and in which namespace.
  var place: String {
    "\"\(key)\"" + (namespace.isEmpty ? "" : " in namespace \"\(namespace)\"")
  }

  /// What every JSON answer about one key begins with.
  var fields: [(String, CBORValue)] {
    [("key", .text(key)), ("keyType", .text(keyType.rawValue)), ("namespace", .text(namespace))]
  }
}
