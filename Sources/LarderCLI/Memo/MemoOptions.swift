// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderEngine
import LarderMemo

/// Which command is remembered, and how: what `memo` and `warm` have in common.
struct MemoOptions: ParsableArguments {
  @Option(
    name: .long,
    help: ArgumentHelp(
      "How old a result may be: 500ms, 90s, 10m, 2h, 7d, 1h30m, or never, for any age. (default: 10m)",
      valueName: "time"),
    transform: Lifetime.init)
  var ttl = Lifetime(milliseconds: 600_000)

  @Option(
    name: .long,
    help: ArgumentHelp(
      "How much older it may be while another process runs the command anew, in the background.",
      valueName: "time"),
    transform: Timestamp.duration)
  var stale: Duration?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "A variable of the environment whose value tells results apart. May be repeated.",
      valueName: "name"))
  var env: [String] = []

  @Flag(name: .long, help: "Results of different working directories are different.")
  var cwd = false

  @Flag(name: .long, help: "Keep results of commands that fail as well, and use them.")
  var keepFailures = false

  @Flag(
    name: .long, help: "Let the command read standard input. What it reads is no part of the key.")
  var stdin = false

  @Option(
    name: .long,
    help: ArgumentHelp(
      "Output of more than this is passed on and not kept. (default: 64M)", valueName: "size"),
    transform: ByteSize.init)
  var maxSize = ByteSize(bytes: 64 << 20)

  @Option(
    name: .long,
    help: ArgumentHelp(
      "How long to wait for another process that runs the command. (default: 1h)",
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
    help: "The command and its arguments, behind --. It is found as a shell finds it.",
    completion: .file())
  var command: [String] = []

  func validate() throws {
    guard command.first?.isEmpty == false else {
      throw ValidationError("Say which command, behind --: larder memo -- git describe")
    }
    if stdin, stale != nil {
      throw ValidationError(
        "--stdin and --stale do not go together: the run in the background has no input.")
    }
    for name in env where name.isEmpty || name.contains("=") {
      throw ValidationError("\"\(name)\" is no name of a variable. Write --env LANG.")
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

  /// Opens the store, and creates it if there is none. Nobody waits long for it: the command can be
  /// run without.
  func openStore() throws -> SharedStore {
    let path = StoreLocation.path(store)
    return try SharedStore(
      at: path,
      StoreOptions(
        durability: SharedStore.durability(ofStoreAt: path) ?? .cache, openTimeout: .seconds(3),
        writeTimeout: .seconds(5)))
  }

  /// What is said when the command cannot be run.
  static func refuse(_ error: CommandInvocation.CommandNotFound) -> ExitCode {
    Console.printError("larder: \(error.message)")
    return ExitCode(error.code)
  }
}

/// A time a result lives; `never` has no end.
struct Lifetime: CustomStringConvertible {
  /// `nil`: without end.
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
    let units: [Character: Int] = ["K": 10, "M": 20, "G": 30]
    var digits = text.uppercased()
    if digits.hasSuffix("B") { digits.removeLast() }
    var shift = 0
    if let last = digits.last, let unit = units[last] {
      shift = unit
      digits.removeLast()
    }
    guard let number = Int(digits), number > 0, number <= (1 << 30) >> shift else {
      throw ValidationError(
        "\"\(text)\" is not a size up to 1G. Write 500K, 64M or a number of bytes.")
    }
    bytes = number << shift
  }

  var description: String {
    bytes % (1 << 20) == 0 ? "\(bytes >> 20)M" : "\(bytes)"
  }
}
