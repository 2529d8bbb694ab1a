// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderEngine
internal import Synchronization

/// The connections of a link: to one server, or to each primary of a cluster.
final class TrackedServers {
  private let configuration: RedisConfiguration
  private var connections: [RedisConnection] = []
  private let map: ClusterMap?
  /// The times of the last comparison with the maps of the servers, and of the last change of an epoch.
  private var lastComparison = ContinuousClock.now
  private var lastElection: ContinuousClock.Instant?
  private var epoch = 0

  /// The longest time between two comparisons, and the time after an election with one for each PING: the
  /// server that was elected may take over at any time after that.
  private static let comparisonPeriod: Duration = .seconds(1)
  private static let electionPeriod: Duration = .seconds(30)

  /// The number of the set of servers; zero if there is one.
  var servers: UInt64 { map?.servers ?? 0 }

  private init(_ configuration: RedisConfiguration, _ map: ClusterMap?) {
    self.configuration = configuration
    self.map = map
    epoch = map?.epoch ?? 0
    // The map may be that of a server that has voted in an election, and has not heard of its end.
    lastElection = map == nil ? nil : .now
  }

  /// Connects, and has all keys with a prefix tracked.
  static func connect(
    _ client: RedisClient, prefix: String, onPush: @escaping @Sendable ([RedisValue]) -> Void
  ) async throws -> TrackedServers {
    var configuration = client.configuration
    configuration.name += "-link"
    // The map that the client has may be older than the loss of the link before.
    let map = try await client.cluster?.refresh()
    let servers = TrackedServers(configuration, map)
    do {
      for address in map?.primaries.map(\.address) ?? [configuration.address] {
        var options = configuration
        options.address = address
        servers.connections.append(try await RedisConnection.connect(to: options, onPush: onPush))
      }
      _ = try await servers.sendToAll { _ in
        [RedisCommand("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix)]
      }
      return servers
    } catch {
      await servers.close()
      throw error
    }
  }

  func close() async { for connection in connections { await connection.close() } }

  // MARK: Commands

  /// Sends commands to the servers that have their keys.
  ///
  /// - Returns: The replies; `MOVED` and other errors are among them.
  func send(_ commands: [RedisCommand]) async throws -> [RedisValue] {
    guard let map else { return try await connections[0].send(commands) }
    let owners = commands.map { command in
      command.key.map { Int(map.owners[RedisSlot.slot(of: $0)]) }
    }
    var replies = [RedisValue](repeating: .null, count: commands.count)
    for (server, connection) in connections.enumerated() {
      let indices = commands.indices.filter { owners[$0] == server }
      let values = try await connection.send(indices.map { commands[$0] })
      for (index, value) in zip(indices, values) { replies[index] = value }
    }
    return replies
  }

  private func sendToAll(
    _ commands: @Sendable @escaping (RedisConnection) -> [RedisCommand]
  ) async throws -> [[RedisValue]] {
    let replies = try await withThrowingTaskGroup(of: (Int, [RedisValue]).self) { tasks in
      for (index, connection) in connections.enumerated() {
        tasks.addTask { (index, try await connection.send(commands(connection))) }
      }
      var replies = [[RedisValue]](repeating: [], count: connections.count)
      for try await (index, values) in tasks { replies[index] = values }
      return replies
    }
    for (connection, values) in zip(connections, replies) {
      for case .error(let error) in values {
        throw RedisError.reply(error, from: "\(connection.configuration.address)")
      }
    }
    return replies
  }

  // MARK: Confirmation

  /// Waits until every server has answered a PING. Its messages about changes before that have come.
  ///
  /// - Throws: ``RedisError``, also if the primaries are others by now.
  func confirm() async throws {
    guard map != nil else {
      return try await connections[0].confirm(configuration.address)
    }
    let now = ContinuousClock.now
    let hasElection = lastElection.map { now - $0 < Self.electionPeriod } ?? false
    let compares = hasElection || now - lastComparison >= Self.comparisonPeriod
    let replies = try await sendToAll { _ in
      (compares ? ClusterMap.commands : [ClusterMap.commands[0]]) + [RedisCommand("PING")]
    }
    var isElection = false
    for (connection, values) in zip(connections, replies) {
      let address = connection.configuration.address
      let state = try ClusterState(values[0], from: address)
      guard state.isOK else {
        throw RedisError(
          .clusterChanged, "\(address)",
          "The cluster is not in order. Check CLUSTER INFO and CLUSTER NODES on the server.")
      }
      if state.epoch > epoch {
        epoch = state.epoch
        isElection = true
      }
      if compares { try compare(ClusterMap(values, from: address), address) }
    }
    if compares { lastComparison = now }
    guard isElection else { return }
    lastElection = now
    // What was elected may have begun before the PING.
    if !compares { try await confirm() }
  }

  private func compare(
    _ other: ClusterMap, _ address: RedisConfiguration.Address
  ) throws(RedisError) {
    // A server that loses a slot without a move of its keys removes them, and names no change.
    guard let map, other.hasOwners(of: map) else {
      throw RedisError(
        .clusterChanged, "\(address)",
        "The slots of the cluster have other primaries than for the link. The link begins again.")
    }
  }
}
#endif
