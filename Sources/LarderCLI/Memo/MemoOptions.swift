// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderEngine
import LarderMemo

/// The options that `memo` and `warm` share.
struct MemoOptions: ParsableArguments {
  @Option(
    name: .long,
    help: ArgumentHelp(
      "The maximum age of a result: 500ms, 90s, 10m, 1h30m, or never for any age. (default: 10m)",
      valueName: "time"),
    transform: Lifetime.init)
  var ttl = Lifetime(milliseconds: 600_000)

  @Option(
    name: .long,
    help: ArgumentHelp(
      "Serve an expired result for this long while a background process refreshes it.",
      valueName: "time"),
    transform: Timestamp.duration)
  var stale: Duration?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "An environment variable that is a part of the key. May be repeated.",
      valueName: "name"))
  var env: [String] = []

  @Flag(name: .long, help: "Make the working directory a part of the key.")
  var cwd = false

  @Flag(name: .long, help: "Store and replay results of commands that fail too.")
  var keepFailures = false

  @Flag(
    name: .long, help: "Let the command read standard input, which is not a part of the key.")
  var stdin = false

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The maximum size of stored output. (default: 64M)", valueName: "size"),
    transform: ByteSize.init)
  var maxSize = ByteSize(bytes: 64 << 20)

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The time to wait for another process that runs the command. (default: 1h)",
      valueName: "time"),
    transform: Timestamp.duration)
  var wait: Duration?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The store's directory. (default: \(StoreLocation.description))", valueName: "path"),
    completion: .directory)
  var store: String?

  @Argument(
    parsing: .postTerminator,
    help: "The command and its arguments, after --. It is searched in PATH.",
    completion: .file())
  var command: [String] = []

  func validate() throws {
    guard command.first?.isEmpty == false else {
      throw ValidationError("Missing command: larder memo [options] -- COMMAND [argument ...]")
    }
    if stdin, stale != nil {
      throw ValidationError(
        "--stdin and --stale exclude each other: the background process has no input.")
    }
    for name in env where name.isEmpty || name.contains("=") {
      throw ValidationError("Invalid variable name \"\(name)\". Example: --env LANG.")
    }
  }

  func call() throws(CommandInvocation.CommandNotFound) -> CommandInvocation {
    try CommandInvocation(
      command[0], lastArguments: command.count, environment: env, isOfDirectory: cwd,
      readsInput: stdin)
  }

  var policy: Memo.Policy {
    var policy = Memo.Policy()
    policy.freshFor = ttl.milliseconds
    policy.staleFor = stale?.milliseconds ?? 0
    policy.keepsFailures = keepFailures
    policy.limit = maxSize.bytes
    if let wait { policy.waitsFor = wait }
    return policy
  }

  /// Opens the store, and creates it if it is missing. The timeouts are short, because the command
  /// can run without a store.
  func openStore() throws -> SharedStore {
    let path = StoreLocation.path(store)
    return try SharedStore(
      at: path,
      StoreOptions(
        durability: SharedStore.durability(ofStoreAt: path) ?? .cache, openTimeout: .seconds(3),
        writeTimeout: .seconds(5)))
  }

  /// Prints the error of a command that cannot be run, and returns the exit status.
  static func refuse(_ error: CommandInvocation.CommandNotFound) -> ExitCode {
    Console.printError("larder: \(error.message)")
    return ExitCode(error.code)
  }
}

/// The time to live of a result, or `never`.
struct Lifetime: CustomStringConvertible {
  /// The time to live, or nil for an unlimited one.
  let milliseconds: Int64?

  init(milliseconds: Int64?) { self.milliseconds = milliseconds }

  init(_ text: String) throws {
    milliseconds = text.lowercased() == "never" ? nil : try Timestamp.duration(text).milliseconds
  }

  var description: String {
    guard let milliseconds else { return "never" }
    return milliseconds % 60_000 == 0 ? "\(milliseconds / 60_000)m" : "\(milliseconds)ms"
  }
}

/// A size on the command line: `500K`, `64M`, `1G`, or bytes.
struct ByteSize: CustomStringConvertible {
  let bytes: Int

  init(bytes: Int) { self.bytes = bytes }

  init(_ text: String) throws {
    guard let bytes = Self.parse(text), (1...1 << 30).contains(bytes) else {
      throw ValidationError(
        "Invalid size \"\(text)\": the range is 1 byte to 1G. Examples: 500K, 64M, 1000000.")
    }
    self.bytes = bytes
  }

  /// Returns the bytes of a text such as 500K, 64M or 2T, or `nil` if it is no size below 2^60.
  static func parse(_ text: String) -> Int? {
    let units: [Character: Int] = ["K": 10, "M": 20, "G": 30, "T": 40]
    var digits = text.uppercased()
    if digits.hasSuffix("B") { digits.removeLast() }
    var shift = 0
    if let last = digits.last, let unit = units[last] {
      shift = unit
      digits.removeLast()
    }
    guard let number = Int(digits), number > 0, number <= (1 << 60) >> shift else { return nil }
    return number << shift
  }

  var description: String {
    bytes % (1 << 20) == 0 ? "\(bytes >> 20)M" : "\(bytes)"
  }
}
#endif
