// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import LarderTesting
import Testing

/// Processes of Redis Sentinel that monitor one server.
final class SentinelProcesses: Sendable {
  static let master = "larder"
  let directory: TemporaryDirectory
  let ports: [Int]
  let processes: [ChildProcess]

  /// Starts sentinels. More than half of them decide about a failover.
  ///
  /// - Parameters:
  ///   - count: The number of sentinels.
  ///   - server: The port of the server.
  ///   - secure: The certificates of sentinels that use TLS.
  ///   - options: Further lines of the configuration.
  init(
    _ count: Int, of server: Int, secure: Certificates? = nil, _ options: [String] = []
  ) throws {
    directory = try TemporaryDirectory()
    let ports = (0..<count).map { _ in RedisServer.nextPort() }
    var processes: [ChildProcess] = []
    for port in ports {
      let path = directory.appending("\(port).conf")
      var lines = ["bind 127.0.0.1", "port \(secure == nil ? port : 0)", "dir \(directory.path)"]
      if let secure {
        lines += [
          "tls-port \(port)", "tls-replication yes", "tls-ca-cert-file \(secure.path("ca.pem"))",
          "tls-cert-file \(secure.path("server.pem"))", "tls-key-file \(secure.path("server.key"))",
        ]
      }
      lines += [
        "logfile \(port).log",
        "sentinel monitor \(Self.master) 127.0.0.1 \(server) \(count / 2 + 1)",
        "sentinel down-after-milliseconds \(Self.master) 2000",
        "sentinel failover-timeout \(Self.master) 2000",
      ]
      let text = (lines + options).joined(separator: "\n") + "\n"
      try TestFiles.write(Array(text.utf8), to: path)
      processes.append(try ChildProcess("redis-server", [path, "--sentinel"]))
    }
    self.ports = Array(ports)
    self.processes = processes
  }

  /// The address of the primary.
  var address: RedisConfiguration.Address {
    .sentinels(
      ports.map { RedisConfiguration.Endpoint("127.0.0.1", port: $0) }, master: Self.master)
  }

  /// Returns the reply of one sentinel.
  func reply(of index: Int, _ command: RedisCommand) async throws -> RedisValue {
    let address = RedisConfiguration.Address.host("127.0.0.1", port: ports[index])
    var configuration = RedisConfiguration(address: address)
    (configuration.connectTimeout, configuration.timeout) = (.seconds(60), .seconds(60))
    let connection = try await RedisConnection.connect(to: configuration)
    return try await connection.send(command)
  }
}

/// A primary and a replica, with three sentinels. The sentinels are the default user of the servers, and
/// clients are the user `app`.
final class SentinelServers: Sendable {
  let servers: [RedisServer]
  let sentinels: SentinelProcesses

  /// Starts the processes, and waits until a failover is possible.
  init() async throws {
    let first = try await RedisServer(hasPort: true)
    let second = try await RedisServer(
      ["--replicaof", "127.0.0.1 \(first.port)"], hasPort: true)
    servers = [first, second]
    let sentinels = try SentinelProcesses(3, of: first.port)
    self.sentinels = sentinels
    for server in servers {
      let connection = try await RedisConnection.connect(to: server.tcp)
      try await connection.send(
        RedisCommand("ACL", "SETUSER", "app", "on", ">hidden", "~*", "&*", "+@all"))
    }
    try await awaitEventually("the sentinels know one another and the replica") {
      for index in 0..<3 {
        let state = try? await sentinels.reply(
          of: index, RedisCommand("SENTINEL", "MASTER", SentinelProcesses.master))
        guard state?["num-slaves"]?.text == "1", state?["num-other-sentinels"]?.text == "2" else {
          return false
        }
      }
      return true
    }
  }

  /// The options of a client.
  var configuration: RedisConfiguration {
    var result = RedisConfiguration(address: sentinels.address)
    result.user = "app"
    result.password = "hidden"
    // Connections take longer on a busy machine.
    (result.connectTimeout, result.timeout) = (.seconds(60), .seconds(60))
    return result
  }

  /// Connects to a server, not through the sentinels.
  func connection(to index: Int) async throws -> RedisConnection {
    var options = configuration
    options.address = servers[index].tcp.address
    return try await RedisConnection.connect(to: options)
  }

  /// Returns the index of the server at the other end of a connection.
  func index(_ send: (RedisCommand) async throws -> RedisValue) async throws -> Int {
    let reply = try await send(RedisCommand("CONFIG", "GET", "port"))
    return try #require(servers.firstIndex { "\($0.port)" == reply["port"]?.text })
  }

  /// Returns the index of the present primary.
  func primary() async throws -> Int {
    let connection = try await RedisConnection.connect(to: configuration)
    return try await index { try await connection.send($0) }
  }

  /// Waits until a sentinel names a server: the others follow within two seconds.
  func awaitFailover(to index: Int) async throws {
    let port = "\(servers[index].port)"
    let command = RedisCommand("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelProcesses.master)
    try await awaitEventually("a sentinel names the other server") {
      for sentinel in 0..<3 {
        let reply = try? await self.sentinels.reply(of: sentinel, command)
        if reply?.elements?.last?.text == port { return true }
      }
      return false
    }
  }
}
#endif
