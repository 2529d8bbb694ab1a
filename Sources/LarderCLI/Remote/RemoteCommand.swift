// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine

/// `larder remote`: shows the links of a store to remote servers, and asks the servers.
struct RemoteCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "remote",
    abstract: "Show the links to remote servers, and what a server has.",
    subcommands: subcommands, defaultSubcommand: RemoteStatusCommand.self)

  #if Redis
  private static let subcommands: [any ParsableCommand.Type] = [
    RemoteStatusCommand.self, RemotePingCommand.self, RemoteGetCommand.self,
  ]
  #else
  private static let subcommands: [any ParsableCommand.Type] = [RemoteStatusCommand.self]
  #endif
}

/// `larder remote status`: shows what the table of the store says about its links.
struct RemoteStatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Show the links of this host.",
    discussion: """
      The servers of caches that several hosts share: which process of this host has the link, how \
      old the store may be, and how many reads the server has answered. The command asks the store \
      and not the server.

      EXAMPLES
        larder remote
        larder remote status --json | jq '.[].ageSeconds'
      """)

  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.openForReading()
      defer { store.close() }
      let remotes = try store.remotes()
      if arguments.json { return Console.json(.array(remotes.map(\.json))) }
      if remotes.isEmpty { return Console.line("The store has no link to a server.") }
      for remote in remotes { show(remote) }
    }
  }

  private func show(_ remote: RemoteStatus) {
    Console.line(remote.server)
    Console.line(
      "  link        "
        + (remote.holder.map { "process \($0)" } ?? "none: values are not verified") + ", "
        + "\(remote.connections) connections so far")
    Console.line(
      "  verified    "
        + (remote.age.map { "all changes until \(Self.milliseconds($0)) ms ago" } ?? "never")
        + ", round trip \(Self.milliseconds(remote.roundTrip)) ms")
    Console.line(
      "  reads       \(remote.fetchedHits) fetched, \(remote.fetchedMisses) without a value, "
        + "\(remote.revalidations) confirmed, \(remote.staleHits) stale without the server")
    Console.line(
      "  changes     \(remote.writes) written, \(remote.invalidations) named by the server, "
        + "\(remote.failures) failures")
  }

  private static func milliseconds(_ time: Duration) -> Double {
    let parts = time.components
    let value = Double(parts.seconds) * 1000 + Double(parts.attoseconds) / 1e15
    return (value * 100).rounded() / 100
  }
}

extension RemoteStatus {
  /// The object of a link in JSON answers.
  var json: CBORValue {
    func seconds(_ time: Duration) -> CBORValue {
      let parts = time.components
      return .float(Double(parts.seconds) + Double(parts.attoseconds) / 1e18)
    }
    return .object([
      ("server", .text(server)), ("holder", holder.map { CBORValue(Int($0)) } ?? .null),
      ("ageSeconds", age.map(seconds) ?? .null), ("roundTripSeconds", seconds(roundTrip)),
      ("connections", .unsigned(connections)), ("invalidations", .unsigned(invalidations)),
      ("fetchedHits", .unsigned(fetchedHits)), ("fetchedMisses", .unsigned(fetchedMisses)),
      ("revalidations", .unsigned(revalidations)), ("staleHits", .unsigned(staleHits)),
      ("writes", .unsigned(writes)), ("failures", .unsigned(failures)),
    ])
  }
}
#endif
