// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// A server or a cluster, with connections that are made when they are needed, and made again after they were
/// lost.
///
/// ```swift
/// let client = RedisClient(try RedisConfiguration(url: "redis://localhost"))
/// let answers = try await client.send([RedisCommand("PING")])
/// ```
///
/// All tasks share one connection to each server. A command is executed at most once. After five failures of a
/// server in a row, which may be timeouts, commands for it fail at once for about a second; then they are
/// sent, until the next failure. After a `READONLY` reply the server is a replica: the next command is
/// sent on a new connection.
///
/// In a cluster each command goes to the primary with its key. The key is the first argument, that of `OBJECT`,
/// `MEMORY` and `BITOP` the second, and that of scripts and functions the first one after their number. A
/// command whose other keys belong to other slots fails with `CROSSSLOT`. Commands without a key go to any
/// primary. After `MOVED`, `ASK` and `TRYAGAIN` a command is sent again: the server has not executed it. A
/// `WAIT` at the end of a call waits on each of its servers, and has the smallest of their replies.
public final class RedisClient: RedisSender {
  private enum Route {
    case server(RedisNode)
    case cluster(RedisCluster)
  }

  /// The address and the options.
  public let configuration: RedisConfiguration
  private let route: Route

  /// Creates a client. Nothing is sent yet.
  public init(_ configuration: RedisConfiguration) {
    self.configuration = configuration
    route =
      switch configuration.address {
      case .cluster: .cluster(RedisCluster(configuration))
      default: .server(RedisNode(configuration))
      }
  }

  /// Sends commands at once and returns their replies, in their order.
  ///
  /// In a cluster, commands for different servers are executed in any order.
  ///
  /// - Parameters:
  ///   - commands: The commands.
  ///   - timeout: The longest wait for the last reply.
  /// - Returns: The replies. That of a failed command is ``RedisValue/error(_:)``; the others are executed.
  /// - Throws: ``RedisError``, as ``RedisConnection``; ``RedisError/Code/unreachable`` at once after several
  ///   failures. `CancellationError`.
  public func send(
    _ commands: [RedisCommand], timeout: Duration? = nil
  ) async throws -> [RedisValue] {
    switch route {
    case .server(let node): try await node.send(commands, timeout: timeout)
    case .cluster(let cluster): try await cluster.send(commands, timeout: timeout)
    }
  }

  /// Closes the connections. Commands fail from now on.
  public func close() async {
    switch route {
    case .server(let node): await node.close()
    case .cluster(let cluster): await cluster.close()
    }
  }

  /// The cluster, if the address is that of one.
  var cluster: RedisCluster? {
    if case .cluster(let cluster) = route { cluster } else { nil }
  }

  /// The server, or all primaries of the cluster.
  func primaries() async throws -> [RedisNode] {
    switch route {
    case .server(let node): [node]
    case .cluster(let cluster): try await cluster.primaries()
    }
  }

  /// Sets the function that runs after the end of each connection to a server outside a cluster.
  func onEnd(_ body: @escaping @Sendable () -> Void) {
    if case .server(let node) = route { node.onEnd(body) }
  }
}
#endif
