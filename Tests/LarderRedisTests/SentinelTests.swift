// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import Larder
import LarderRedis
import LarderTesting
import Testing

@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)), .serialized)
struct SentinelTests {
  // MARK: Connecting

  @Test func `A value written through sentinels is on the primary, and reaches its replica`()
    async throws
  {
    let servers = try await SentinelServers()
    let connection = try await RedisConnection.connect(to: servers.configuration)
    try await connection.send(RedisCommand("SET", "k", "value"))
    #expect(try await connection.send(RedisCommand("ROLE")).elements?.first?.text == "master")
    let primary = try await servers.index { try await connection.send($0) }
    let replica = try await servers.connection(to: 1 - primary)
    try await awaitEventually("the replica has the value") {
      try await replica.send(RedisCommand("GET", "k")).text == "value"
    }
    #expect(connection.isOpen)
  }

  @Test func `With a stopped and a killed sentinel, the third one names the primary`() async throws
  {
    let servers = try await SentinelServers()
    try servers.sentinels.processes[0].stop()
    servers.sentinels.processes[1].kill()
    let client = RedisClient(servers.configuration)
    try await awaitEventually("a command succeeds") {
      await redisError { try await client.send(RedisCommand("SET", "k", "value")) } == nil
    }
    #expect(try await client.send(RedisCommand("GET", "k")).text == "value")
  }

  @Test func `A master name that no sentinel monitors is a typed error with each answer`()
    async throws
  {
    let server = try await RedisServer(hasPort: true)
    let sentinels = try SentinelProcesses(2, of: server.port)
    let addresses = sentinels.ports.map { RedisConfiguration.Endpoint("127.0.0.1", port: $0) }
    var other = RedisConfiguration(address: .sentinels(addresses, master: "other"))
    other.connectTimeout = .seconds(20)
    let configuration = other
    func attempt() async -> RedisError? {
      await redisError { _ = try await RedisConnection.connect(to: configuration) }
    }
    try await awaitEventually("both sentinels answer") {
      guard let error = await attempt(), error.code == .unknownMaster else { return false }
      return error.message.components("monitors no master \"other\"") == 2
    }
    let error = await attempt()
    #expect(error?.server == "\(configuration.address)")
    for port in sentinels.ports { #expect(error?.message.contains("127.0.0.1:\(port): ") == true) }
    // With one of them, the time of the other one passes, and the error is the same.
    sentinels.processes[0].kill()
    let late = await attempt()
    #expect(late?.code == .unknownMaster, "\(String(describing: late))")
  }

  @Test func `Sentinels that cannot be reached are a typed error within the timeout`() async throws
  {
    var configuration = try RedisConfiguration(
      url: "redis+sentinel://:hidden@127.0.0.1:1,127.0.0.1:2/larder?sentinel_password=hidden")
    configuration.connectTimeout = .seconds(20)
    let error = await redisError { _ = try await RedisConnection.connect(to: configuration) }
    #expect(error?.code == .unreachable)
    #expect(error?.server == "larder of sentinels 127.0.0.1:1,127.0.0.1:2")
    #expect(error.map { "\($0)".contains("127.0.0.1:1: No connection") } == true)
    #expect(error.map { "\($0)".contains("hidden") } == false)
    configuration.address = .sentinels([], master: "larder")
    #expect(
      await redisError { _ = try await RedisConnection.connect(to: configuration) }?.code
        == .invalidOption)
  }

  @Test func `A replica that a sentinel names as the primary is refused`()
    async throws
  {
    let server = try await RedisServer(["--replicaof", "127.0.0.1 1"], hasPort: true)
    let sentinels = try SentinelProcesses(1, of: server.port)
    let configuration = RedisConfiguration(address: sentinels.address)
    try await awaitEventually("the sentinel names the replica") {
      let error = await redisError { _ = try await RedisConnection.connect(to: configuration) }
      #expect(error?.code == .unreachable)
      return error?.message.contains("named 127.0.0.1:\(server.port): The role") == true
    }
    // A replica answers PING.
    let connection = try await RedisConnection.connect(to: server.tcp)
    try await connection.confirm(server.tcp.address)
    let error = await redisError { try await connection.confirm(sentinels.address) }
    #expect(error?.code == .notMaster)
    try await connection.send(RedisCommand("REPLICAOF", "NO", "ONE"))
    try await connection.confirm(sentinels.address)
  }

  @Test(.enabled(if: hasTLS, "needs the trait RedisTLS"))
  func `With TLS and passwords the primary is found, and a wrong password is a typed error`()
    async throws
  {
    let certificates = try Certificates()
    let server = try await RedisServer(
      ["--requirepass", "hidden-one", "--tls-replication", "yes"], certificates: certificates)
    let sentinels = try SentinelProcesses(
      1, of: server.port, secure: certificates,
      ["requirepass hidden-two", "sentinel auth-pass larder hidden-one"])
    func attempt(_ server: String, _ sentinel: String, _ tls: String = "1") async -> RedisError? {
      await redisError {
        let url =
          "redis+sentinel://:\(server)@localhost:\(sentinels.ports[0])/larder/2?sentinel_password="
          + "\(sentinel)&tls=\(tls)&ca=\(certificates.path("ca.pem"))"
          + "&cert=\(certificates.path("client.pem"))&key=\(certificates.path("client.key"))"
        var configuration = try RedisConfiguration(url: url)
        // On a machine with other work the handshakes of TLS take seconds.
        configuration.connectTimeout = .seconds(60)
        configuration.timeout = .seconds(60)
        let connection = try await RedisConnection.connect(to: configuration)
        try await connection.send(RedisCommand("SET", "k", "value"))
      }
    }
    try await awaitEventually("the sentinel names the primary") {
      await attempt("hidden-one", "hidden-two") == nil
    }
    let wrong = [
      await attempt("hidden-one", "hidden-one"), await attempt("hidden-two", "hidden-two"),
    ]
    #expect(wrong.map(\.?.code) == [.authentication, .authentication])
    #expect(wrong.allSatisfy { $0?.reply?.code == "WRONGPASS" })
    #expect(wrong.allSatisfy { $0.map { "\($0)".contains("hidden") } == false })
  }

  // MARK: Failovers

  @Test func `When the primary is killed, a client writes to the new primary`() async throws {
    let servers = try await SentinelServers()
    let client = RedisClient(servers.configuration)
    try await client.send(RedisCommand("SET", "k", "before"))
    let old = try await servers.index { try await client.send($0) }
    servers.servers[old].process.kill()
    try await awaitEventually("a write succeeds") {
      await redisError { try await client.send(RedisCommand("SET", "k", "after")) } == nil
    }
    #expect(try await servers.index { try await client.send($0) } == 1 - old)
    #expect(try await client.send(RedisCommand("GET", "k")).text == "after")
  }

  @Test func `After a write to a replica a client sends on another connection`() async throws {
    let server = try await RedisServer()
    let client = RedisClient(server.socket)
    let first = try await client.send(RedisCommand("CLIENT", "ID")).integer
    #expect(try await client.send(RedisCommand("CLIENT", "ID")).integer == first)
    try await client.send(RedisCommand("REPLICAOF", "127.0.0.1", "1"))
    let error = await redisError { try await client.send(RedisCommand("SET", "k", "value")) }
    #expect(error?.reply?.code == "READONLY")
    let second = try await client.send(RedisCommand("CLIENT", "ID")).integer
    #expect(second != first && second != nil)
  }

  /// The two servers are independent, and the sentinel names one after the other: no write is replicated.
  @Test func `A value that only the former primary has is not served after the clients have moved`()
    async throws
  {
    let servers = [try await RedisServer(hasPort: true), try await RedisServer(hasPort: true)]
    let sentinels = try SentinelProcesses(1, of: servers[0].port)
    let host = try await Host(RedisConfiguration(address: sentinels.address))
    let cache = host.cache()
    try await host.linked()
    try await cache.setValue("before", forKey: "k")
    let (name, link) = (SentinelProcesses.master, try host.record.link)
    _ = try await sentinels.reply(of: 0, RedisCommand("SENTINEL", "REMOVE", name))
    _ = try await sentinels.reply(
      of: 0, RedisCommand("SENTINEL", "MONITOR", name, "127.0.0.1", servers[1].port, 1))
    // The link moves at once, unless it already has, and the connection for commands within a second.
    let former = try await RedisConnection.connect(to: servers[0].socket)
    let list = try await former.send(RedisCommand("CLIENT", "LIST")).text ?? ""
    if let line = list.split(separator: "\n").first(where: { $0.contains(" name=larder-link ") }) {
      let id = try #require(line.split(separator: " ").first?.dropFirst("id=".count))
      try await former.send(RedisCommand("CLIENT", "KILL", "ID", String(id)))
    }
    try await awaitEventually("the link moves") {
      let record = try host.record
      return record.link != link && record.link != 0 && record.age < .milliseconds(300)
    }
    // The connection for commands may move during the write, which fails then.
    try await awaitEventually("a value is stored") {
      await redisError { try await cache.setValue("late", forKey: "late") } == nil
    }
    try await awaitEventually("the value is that of the new primary") {
      let connection = try await RedisConnection.connect(to: servers[1].socket)
      let isLost = try await connection.send(RedisCommand("DBSIZE")).integer == 0
      let values = (try? await cache.value(forKey: "k"), try? await cache.value(forKey: "late"))
      return values == (nil, isLost ? nil : "late")
    }
  }

  /// The sentinels lose their rights on the primary, so that they cannot make it a replica after the
  /// failover: it answers as a master until the end of the test. With the long time limit of commands, the
  /// connections to it outlast the stop.
  @Test(arguments: [1, 60])
  func `A primary stopped during a failover is not confirmed, and hosts read the newest value`(
    seconds: Int
  ) async throws {
    let servers = try await SentinelServers()
    var configuration = servers.configuration
    configuration.timeout = .seconds(seconds)
    let hosts = [try await Host(configuration), try await Host(configuration)]
    let caches = hosts.map { $0.cache(of: Int.self) }
    for host in hosts { try await host.linked() }
    // On a busy machine a command can exceed the short limit.
    func untilAnswered<R: Sendable>(_ body: () async throws -> R) async throws -> R {
      var result: R?
      try await awaitEventually("the server answers in time") {
        do {
          result = try await body()
        } catch let error as RedisError
          where [.timeout, .unreachable, .connectionLost].contains(error.code)
        {
          return false
        }
        return true
      }
      return try #require(result)
    }
    try await untilAnswered { try await caches[0].setValue(0, forKey: "k") }
    #expect(try await untilAnswered { try await caches[1].value(forKey: "k") } == 0)
    let old = try await servers.primary()
    let links = try hosts.map { try $0.record.link }
    let control = try await servers.connection(to: old)
    try await control.send(RedisCommand("ACL", "SETUSER", "default", "-@all"))
    try servers.servers[old].process.stop()
    try await servers.awaitFailover(to: 1 - old)
    servers.servers[old].process.continue()
    #expect(try await control.send(RedisCommand("ROLE")).elements?.first?.text == "master")

    let primary = try await servers.connection(to: 1 - old)
    func size() async throws -> Int? {
      try await primary.send(RedisCommand("DBSIZE")).integer
    }
    try await awaitEventually("both hosts have links to the new primary") {
      try zip(hosts, links).allSatisfy { host, link in
        let record = try host.record
        return record.link != 0 && record.link != link && record.age < .milliseconds(300)
      }
    }
    // The link of a host leaves the former primary first. Until its client leaves too, writes are
    // acknowledged there, and lost.
    var number = 0
    for cache in caches {
      try await awaitEventually("a host writes to the new primary") {
        number += 1
        let before = try await size()
        _ = try? await cache.setValue(number, forKey: "k\(number)")
        return try await size() != before
      }
    }
    for key in (1...number).map({ "k\($0)" }) {
      try await awaitEventually("the hosts agree on \(key)") {
        try await untilAnswered {
          try await caches[0].value(forKey: key) == caches[1].value(forKey: key)
        }
      }
      for cache in caches {
        let newest = try await untilAnswered {
          try await cache.value(forKey: key, freshness: .latest)
        }
        #expect(try await untilAnswered { try await caches[0].value(forKey: key) } == newest)
      }
    }
    for round in 0..<20 {
      try await untilAnswered { try await caches[round % 2].setValue(-round, forKey: "k") }
      try await awaitEventually("the other host reads it") {
        try await untilAnswered { try await caches[(round + 1) % 2].value(forKey: "k") } == -round
      }
    }
    // The former primary is still one by its own account.
    #expect(try await control.send(RedisCommand("ROLE")).elements?.first?.text == "master")
    for host in hosts { #expect(try host.store.verify() == []) }
  }
}

extension String {
  /// Returns the number of occurrences of a text.
  fileprivate func components(_ text: String) -> Int { ranges(of: text).count }
}
#endif
