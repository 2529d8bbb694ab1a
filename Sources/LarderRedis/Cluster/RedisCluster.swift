// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderCache
internal import LarderEngine
internal import Synchronization

// THE SERVERS OF A CLUSTER
//
// The client has a map of slots, which it reads from the servers of the configuration and from those of the
// last map. It renews the map
//
//   - after a MOVED reply, and after a server was lost;
//   - when the link of the host has other servers (`RemoteService.refreshTopology()`).
//
// Several servers are queried at a time: one that is isolated may not have heard of a failover. Of their maps
// the one with the newest epoch counts, and of several those of servers that take commands.
//
// `topology` is the set of the primaries of the map, with a number that each change advances. Its rule: while
// it stays the same, every reply came from one of these primaries. For this it also changes when the client
// follows a redirection to another server. `SharedTable+Remote.swift` has its use (L4).

/// The client of a cluster.
final class RedisCluster: RedisSender {
  private struct State {
    var map: ClusterMap?
    /// The connections, also to servers that only redirections have named.
    var nodes: [RedisConfiguration.Address: RedisNode] = [:]
    var changes: UInt64 = 1
    var refresh: Task<ClusterMap, any Error>?
    var lastRefresh: ContinuousClock.Instant?
    var isClosed = false
  }

  let configuration: RedisConfiguration
  private let seeds: [RedisConfiguration.Address]
  private let state = Mutex(State())
  /// The shortest time between two maps.
  private static let period: Duration = .milliseconds(100)
  /// The most servers that are queried for a map.
  private static let queried = 6

  init(_ configuration: RedisConfiguration) {
    self.configuration = configuration
    seeds =
      if case .cluster(let servers) = configuration.address { servers.map(\.address) } else { [] }
  }

  // MARK: Commands

  func send(_ commands: [RedisCommand], timeout: Duration? = nil) async throws -> [RedisValue] {
    if commands.isEmpty { return [] }
    // Without a limit of the caller, that of a server applies to each request, with that to connect.
    let end =
      ContinuousClock.now + (timeout ?? configuration.connectTimeout + configuration.timeout)
    var batch = ClusterBatch(commands)
    while true {
      let map = try await map(until: end)
      var failures: [any Error] = []
      for (group, result) in await execute(
        try batch.groups(by: map, self),
        within: timeout.map { _ in max(end - .now, .milliseconds(1)) })
      {
        switch result {
        case .success(let replies): batch.take(replies, of: group)
        case .failure(let error): failures.append(error)
        }
      }
      if let failure = failures.first {
        // If nothing was sent, and a server has a successor, the commands go to the successor.
        guard failures.allSatisfy({ ($0 as? RedisError)?.code == .unreachable }), batch.mayRepeat,
          end > .now, let newer = try? await refresh(until: end), !newer.hasOwners(of: map)
        else {
          refreshLater()
          throw failure
        }
        continue
      }
      if batch.isOutdated { refreshLater() }
      guard !batch.isComplete, let pause = batch.pause, end - .now > pause else {
        return batch.result
      }
      if pause > .zero { try await BlockingWork.sleep(for: pause) }
    }
  }

  private func execute(
    _ groups: [ClusterBatch.Group], within timeout: Duration?
  ) async -> [(ClusterBatch.Group, Result<[RedisValue], any Error>)] {
    @Sendable func execute(_ group: ClusterBatch.Group) async -> Result<[RedisValue], any Error> {
      do {
        return .success(try await group.node.send(group.commands, timeout: timeout))
      } catch {
        return .failure(error)
      }
    }
    if groups.count == 1 { return [(groups[0], await execute(groups[0]))] }
    return await withTaskGroup(
      of: (ClusterBatch.Group, Result<[RedisValue], any Error>).self
    ) { tasks in
      for group in groups { tasks.addTask { (group, await execute(group)) } }
      return await tasks.reduce(into: []) { $0.append($1) }
    }
  }

  // MARK: Servers

  /// Returns the client of a server.
  ///
  /// - Parameter isRedirection: Whether the server was named instead of that of the map.
  func node(at address: RedisConfiguration.Address, isRedirection: Bool = false) -> RedisNode {
    state.withLock { state in
      let isPrimary = state.map?.primaries.contains { $0.address == address } ?? false
      if isRedirection, !isPrimary { state.changes += 1 }
      if let node = state.nodes[address] { return node }
      var options = configuration
      options.address = address
      let node = RedisNode(options, isClosed: state.isClosed)
      state.nodes[address] = node
      return node
    }
  }

  /// All primaries.
  func primaries() async throws -> [RedisNode] {
    try await map().primaries.map { node(at: $0.address) }
  }

  func close() async {
    let nodes = state.withLock { state in
      state.isClosed = true
      state.refresh?.cancel()
      return Array(state.nodes.values)
    }
    for node in nodes { await node.close() }
  }

  // MARK: The map

  /// The set of servers of which replies have come.
  var topology: RemoteTopology {
    state.withLock { RemoteTopology(servers: $0.map?.servers ?? 0, changes: $0.changes) }
  }

  /// Returns the map, and reads it first if there is none.
  func map(until end: ContinuousClock.Instant? = nil) async throws -> ClusterMap {
    if let map = state.withLock({ $0.map }) { return map }
    return try await refresh(until: end)
  }

  /// Begins to read the map, unless it is new.
  func refreshLater() { _ = try? task() }

  /// Reads the map, unless it is new.
  ///
  /// - Parameter end: The end of the wait; `nil` for the time that two attempts to connect may take.
  func refresh(until end: ContinuousClock.Instant? = nil) async throws -> ClusterMap {
    guard let task = try task() else { return try await map() }
    let server = "\(configuration.address)"
    return try await SharedWait.value(
      of: task, until: end ?? .now + configuration.connectTimeout * 4,
      RedisError(
        .unreachable, server,
        "No server has sent a map of the cluster in time. Check the servers and the network."))
  }

  /// Returns the task that reads the map, or `nil` if it is new.
  private func task() throws -> Task<ClusterMap, any Error>? {
    try state.withLock { state in
      if state.isClosed {
        throw RedisError(
          .closed, "\(configuration.address)", "The client was closed. Create another one.")
      }
      if let task = state.refresh { return task }
      if state.map != nil, let last = state.lastRefresh, .now - last < Self.period { return nil }
      let task = BlockingWork.task {
        let result = await self.newest()
        self.adopt(result)
        return try result.get()
      }
      state.refresh = task
      return task
    }
  }

  /// Returns the map while no slot is moving.
  func settledMap(until end: ContinuousClock.Instant) async throws -> ClusterMap {
    while true {
      var isMoving = false
      for node in try await primaries() {
        guard let nodes = try await node.send(RedisCommand("CLUSTER", "NODES")).text else {
          throw RedisError(
            .protocolViolation, "\(node.configuration.address)",
            "The answer to CLUSTER NODES has another form.")
        }
        // The server's own slots, as [SLOT->-NODE] and [SLOT-<-NODE].
        if nodes.contains("->-") || nodes.contains("-<-") { isMoving = true }
      }
      // A map that is read after that, and not one that another caller has begun to read before.
      if !isMoving {
        _ = try await refresh(until: end)
        state.withLock { $0.lastRefresh = nil }
        return try await refresh(until: end)
      }
      if ContinuousClock.now >= end {
        throw RedisError(
          .timeout, "\(configuration.address)",
          "Slots of the cluster are being moved for a long time. Repeat the operation after that.")
      }
      try await BlockingWork.sleep(for: Self.period)
    }
  }

  private func adopt(_ result: Result<ClusterMap, any Error>) {
    state.withLock { state in
      state.refresh = nil
      state.lastRefresh = .now
      guard case .success(let map) = result else { return }
      if state.map?.servers != map.servers { state.changes += 1 }
      state.map = map
      let primaries = Set(map.primaries.map(\.address))
      state.nodes = state.nodes.filter { primaries.contains($0.key) }
    }
  }

  /// Queries servers for their maps: those of the last one, and if none answers those of the configuration.
  private func newest() async -> Result<ClusterMap, any Error> {
    if configuration.database != 0 || seeds.isEmpty {
      return .failure(
        RedisError(
          .invalidOption, "\(configuration.address)",
          seeds.isEmpty
            ? "The address has no server. Pass at least one."
            : "A cluster has the database 0 only. Leave the database out."))
    }
    let known = state.withLock { $0.map?.primaries.map(\.address) ?? [] }
    var answers: [Result<ClusterMap, any Error>] = []
    for servers in [Array(known.shuffled().prefix(Self.queried)), seeds] where !servers.isEmpty {
      answers += await self.answers(of: servers)
      if let best = best(answers), best.isOK { return .success(best) }
    }
    return best(answers).map { .success($0) } ?? .failure(error(answers))
  }

  private func best(_ answers: [Result<ClusterMap, any Error>]) -> ClusterMap? {
    answers.compactMap { try? $0.get() }.filter { !$0.primaries.isEmpty }
      .max { ($0.isOK ? 1 : 0, $0.epoch) < ($1.isOK ? 1 : 0, $1.epoch) }
  }

  private func answers(
    of servers: [RedisConfiguration.Address]
  ) async -> [Result<ClusterMap, any Error>] {
    await withTaskGroup(of: Result<ClusterMap, any Error>?.self) { tasks in
      for server in servers { tasks.addTask { await self.map(of: server) } }
      var answers: [Result<ClusterMap, any Error>] = []
      while answers.count < servers.count, let answer = await tasks.next(), let answer {
        answers.append(answer)
        // A server that does not answer holds the others up for a moment only.
        if case .success(let map) = answer, map.isOK {
          tasks.addTask {
            try? await BlockingWork.sleep(for: Self.period)
            return nil
          }
        }
      }
      tasks.cancelAll()
      return answers
    }
  }

  private func map(
    of server: RedisConfiguration.Address
  ) async -> Result<ClusterMap, any Error> {
    do {
      let limit = configuration.connectTimeout
      let replies = try await node(at: server).send(ClusterMap.commands, timeout: limit)
      return .success(try ClusterMap(replies, from: server))
    } catch {
      return .failure(error)
    }
  }

  /// Returns the error of servers of which none has a map.
  private func error(_ answers: [Result<ClusterMap, any Error>]) -> any Error {
    var errors: [RedisError] = []
    for case .failure(let error) in answers {
      guard let error = error as? RedisError else { return error }
      errors.append(error)
    }
    // A wrong password is more than a server that is not there.
    if let permanent = errors.first(where: { !$0.isLoss }) { return permanent }
    let texts = errors.map { "\($0.server): \($0.message)" }
    return RedisError(
      .unreachable, "\(configuration.address)",
      texts.isEmpty
        ? "The servers have no slots. Create the cluster with redis-cli --cluster create."
        : "No server has a map of the cluster. " + texts.joined(separator: " "))
  }
}
#endif
