// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import LarderTesting
import Testing

/// The servers of the hosts of a test.
enum ServerKind: CaseIterable {
  case server, cluster

  /// Starts the processes.
  func start() async throws -> any RemoteServers {
    switch self {
    case .server: try await RedisServer()
    case .cluster: try await ClusterServers(primaries: 3)
    }
  }
}

/// A server or a cluster.
protocol RemoteServers: Sendable {
  /// The options of a client.
  var socket: RedisConfiguration { get }
}

extension RedisServer: RemoteServers {}

/// Primaries with equal parts of the slots, each with the same number of replicas.
final class ClusterServers: RemoteServers {
  /// The primaries, and then their replicas, in the same order.
  let servers: [RedisServer]
  let primaries: Int
  static let slots = 16_384

  /// Starts the servers, and waits until the cluster is in order.
  ///
  /// - Parameters:
  ///   - empty: The number of further primaries, which have no slots.
  ///   - timeout: The time in milliseconds after which a server is taken for lost.
  init(
    primaries: Int, replicas: Int = 0, empty: Int = 0, timeout: Int = 60_000
  ) async throws {
    let count = primaries * (1 + replicas) + empty
    let buses = (0..<count).map { _ in RedisServer.nextPort() }
    servers = try await withThrowingTaskGroup(of: (Int, RedisServer).self) { tasks in
      for index in 0..<count {
        tasks.addTask {
          let server = try await RedisServer(
            [
              "--cluster-enabled", "yes", "--cluster-port", "\(buses[index])",
              "--cluster-node-timeout", "\(timeout)", "--repl-diskless-sync-delay", "0",
            ], hasPort: true)
          return (index, server)
        }
      }
      return try await tasks.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.map(\.1)
    }
    self.primaries = primaries
    for index in 0..<count {
      try await send("CLUSTER", "SET-CONFIG-EPOCH", index + 1, to: index)
      try await send("CLUSTER", "MEET", "127.0.0.1", servers[0].port, buses[0], to: index)
      if index < primaries {
        let (first, end) = (
          index * Self.slots / primaries, (index + 1) * Self.slots / primaries
        )
        try await send("CLUSTER", "ADDSLOTSRANGE", first, end - 1, to: index)
      }
    }
    try await awaitEventually("all servers know all others") {
      try await hasAll("cluster_known_nodes:\(count)\r\n")
    }
    for index in primaries..<(primaries * (1 + replicas)) {
      let primary = try await id(of: index % primaries)
      try await awaitEventually("the replica knows its primary") {
        await redisError { try await send("CLUSTER", "REPLICATE", primary, to: index) } == nil
      }
    }
    try await awaitEventually("the cluster is in order") {
      guard try await hasAll("cluster_state:ok") else { return false }
      for index in 0..<primaries where replicas > 0 {
        let info = try await send("INFO", "replication", to: index).text ?? ""
        guard info.ranges(of: "state=online").count == replicas else { return false }
      }
      return true
    }
  }

  private func hasAll(_ line: String) async throws -> Bool {
    for index in servers.indices {
      let info = try await send("CLUSTER", "INFO", to: index).text ?? ""
      if !info.contains(line) { return false }
    }
    return true
  }

  /// The options of a client, which has to find all servers but one.
  var socket: RedisConfiguration {
    var result = servers[0].socket
    result.address = .cluster([RedisConfiguration.Endpoint("127.0.0.1", port: servers[0].port)])
    return result
  }

  /// The URL with the ports of all primaries.
  var url: String {
    "redis+cluster://"
      + servers.prefix(primaries).map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
  }

  /// Sends a command to one server, which does not lead to another one.
  @discardableResult
  func send(
    _ name: String, _ arguments: any RedisArgument..., to index: Int
  ) async throws -> RedisValue {
    let connection = try await RedisConnection.connect(to: servers[index].socket)
    let reply = try await connection.send(RedisCommand(name, arguments))
    await connection.close()
    return reply
  }

  /// The name of a server in the cluster.
  func id(of index: Int) async throws -> String {
    try #require(try await send("CLUSTER", "MYID", to: index).text)
  }

  // MARK: Slots

  /// Begins to move a slot: commands for keys that the first server does not have go to the second one.
  func beginMove(of slot: Int, from: Int, to: Int) async throws {
    try await send("CLUSTER", "SETSLOT", slot, "IMPORTING", id(of: from), to: to)
    try await send("CLUSTER", "SETSLOT", slot, "MIGRATING", id(of: to), to: from)
  }

  /// Moves the keys of a slot.
  func moveKeys(of slot: Int, from: Int, to: Int) async throws {
    while true {
      let keys =
        try await send("CLUSTER", "GETKEYSINSLOT", slot, 10, to: from).elements?
        .compactMap(\.text) ?? []
      if keys.isEmpty { return }
      for key in keys {
        try await send(
          "MIGRATE", "127.0.0.1", servers[to].port, key, 0, 50_000, "REPLACE", to: from)
      }
    }
  }

  /// Ends the move of a slot.
  func endMove(of slot: Int, from: Int, to: Int) async throws {
    let id = try await id(of: to)
    for index in [to, from] {
      try await send("CLUSTER", "SETSLOT", slot, "NODE", id, to: index)
    }
  }

  func move(_ slot: Int, from: Int, to: Int) async throws {
    try await beginMove(of: slot, from: from, to: to)
    try await moveKeys(of: slot, from: from, to: to)
    try await endMove(of: slot, from: from, to: to)
  }

  /// The slot of a key, by a server.
  func slot(of key: String) async throws -> Int {
    try #require(try await send("CLUSTER", "KEYSLOT", key, to: 0).integer)
  }

  /// The index of the primary that has a slot at first.
  func primary(of slot: Int) -> Int {
    (0..<primaries).last { $0 * Self.slots / primaries <= slot } ?? 0
  }
}
#endif
