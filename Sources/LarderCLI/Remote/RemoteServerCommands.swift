// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
#if Redis
import ArgumentParser
import Foundation
import LarderCache
import LarderCoding
import LarderEngine
import LarderRedis

/// The server that a command asks.
struct RemoteServerArguments: ParsableArguments {
  private static let variable = "LARDER_REMOTE_URL"

  @Option(
    name: .long,
    help: ArgumentHelp(
      """
      The server, as in RedisLink: redis://, rediss://, redis+unix://, redis+sentinel:// or \
      redis+cluster://. (default: the variable \(variable), which other users cannot read in the \
      list of processes)
      """, valueName: "url"))
  var url: String?

  @Flag(name: .long, help: "Write answers and errors as JSON.")
  var json = false

  /// Runs a closure with the options of a client, and reports its errors.
  func run(_ body: @escaping @Sendable (RedisConfiguration) async throws -> Void) throws {
    try Console.reporting(json: json) {
      guard let url = url ?? ProcessInfo.processInfo.environment[Self.variable] else {
        throw ToolError.usage("There is no server. Pass --url, or set \(Self.variable).")
      }
      do {
        let configuration = try RedisConfiguration(url: url)
        try BlockingWork.wait { try await body(configuration) }
      } catch let error as RedisError {
        throw ToolError(
          error.code.rawValue, "\(error.server): \(error.message)",
          exit: error.code == .invalidOption ? Exit.usage : Exit.failure)
      }
    }
  }
}

/// `larder remote ping`: measures the round trip to a server.
struct RemotePingCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ping",
    abstract: "Connect to a server, and measure the round trip.",
    discussion: """
      EXAMPLES
        larder remote ping --url redis://cache.internal
        LARDER_REMOTE_URL=rediss://:secret@cache.internal larder remote ping --json
      """)

  @OptionGroup var server: RemoteServerArguments
  @Option(name: .long, help: ArgumentHelp("The number of round trips.", valueName: "number"))
  var count = 10

  func validate() throws {
    guard (1...10_000).contains(count) else {
      throw ValidationError("--count is 1 to 10000.")
    }
  }

  func run() throws {
    let (count, json) = (count, server.json)
    try server.run { configuration in
      let client = RedisClient(configuration)
      // A user of a cache need not have the right to these two.
      let about = try await client.send([RedisCommand("INFO", "server"), RedisCommand("ROLE")])
      let role = about[1].elements?.first?.text ?? "of an unknown role"
      var times: [Double] = []
      for _ in 0..<count {
        let start = ContinuousClock.now
        try await client.send(RedisCommand("PING"))
        times.append((ContinuousClock.now - start) / .milliseconds(1))
      }
      await client.close()
      times.sort()
      show(
        ("\(configuration)", Self.version(about[0].text ?? ""), role),
        (times[times.count / 2], times[times.count - 1]), json)
    }
  }

  private func show(
    _ server: (name: String, version: String, role: String),
    _ time: (median: Double, longest: Double), _ json: Bool
  ) {
    if json {
      return Console.json(
        .object([
          ("server", .text(server.name)), ("version", .text(server.version)),
          ("role", .text(server.role)), ("medianSeconds", .float(time.median / 1000)),
          ("longestSeconds", .float(time.longest / 1000)), ("count", CBORValue(count)),
        ]))
    }
    func rounded(_ time: Double) -> Double { (time * 1000).rounded() / 1000 }
    Console.line(server.name)
    Console.line("  server      \(server.version), \(server.role)")
    Console.line(
      "  round trip  \(rounded(time.median)) ms (median of \(count)), "
        + "\(rounded(time.longest)) ms at most")
  }

  /// Returns the name and version of a server from its answer to INFO.
  private static func version(_ info: String) -> String {
    var fields: [Substring: Substring] = [:]
    for line in info.split(whereSeparator: \.isNewline) {
      guard let colon = line.firstIndex(of: ":") else { continue }
      fields[line[..<colon]] = line[line.index(after: colon)...]
    }
    if let version = fields["valkey_version"] { return "Valkey \(version)" }
    return "Redis \(fields["redis_version"] ?? "of an unknown version")"
  }
}

/// `larder remote get`: prints what a server has for a key.
struct RemoteGetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "get",
    abstract: "Print the value that a server has for a key of a cache.",
    discussion: """
      The value is printed as by `larder get`, which prints the copy of this host. Nothing is stored.

      EXAMPLES
        larder remote get user/17 --namespace profiles --prefix shop --url redis://cache.internal
        larder remote get 42 --key-type integer --json | jq .lifetimeSeconds
      """)

  @OptionGroup var key: KeyArguments
  @OptionGroup var server: RemoteServerArguments
  @Option(
    name: .long,
    help: ArgumentHelp("The first part of the keys, as in RedisLink.", valueName: "prefix"))
  var prefix = "larder"

  func run() throws {
    let (key, prefix, json) = (key, prefix, server.json)
    try server.run { configuration in
      let encoded = try key.encodedKey()
      _ = try key.space()
      let link = try RedisLink(configuration, prefix: prefix)
      let found = try await link.tier.service.read([RemoteKey(key.namespace, encoded)])[0]
      await link.close()
      guard let found else {
        throw ToolError(
          "notFound", "The server has no value for \(key.place).", exit: Exit.negative)
      }
      if found.isAbsent {
        throw ToolError(
          "knownAbsent", "The server knows that \(key.place) has no value.", exit: Exit.negative)
      }
      try Self.show(found, key, json)
    }
  }

  private static func show(_ found: RemoteEntry, _ key: KeyArguments, _ json: Bool) throws {
    let codec = CodecIdentifier(rawValue: found.codec)
    let value = try EntryValue(codec: codec, payload: found.payload)
    guard json else { return value.show() }
    let lifetime = found.version.lifetime.map { CBORValue.float(Double($0) / 1000) }
    Console.json(
      .object(
        key.fields + [
          ("codec", .text(EntryValue.name(of: codec))),
          ("valueBytes", CBORValue(found.payload.count)),
          ("version", .text(String(found.version.version, radix: 16))),
          ("lifetimeSeconds", lifetime ?? .null),
          ("tags", .array(found.tags.map { .text($0) })), ("value", value.jsonValue),
        ]))
  }
}
#endif
#endif
