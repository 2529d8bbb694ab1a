// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import Larder
import LarderPeer
import LarderRedis
import LarderTesting
import Testing

@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)), .serialized)
struct ClusterTests {
  @Test func `Commands of one call go to the servers of their keys`() async throws {
    let servers = try await ClusterServers(primaries: 3)
    let client = RedisClient(servers.socket)
    var keys = ["", "{", "{}a", "a{}b", "a{b}c", "{a}{b}", "a}b{c", "{{a}}", "1{é}2"]
    keys += (0..<300).map { "key \($0)" }
    let replies = try await client.send(
      keys.map { RedisCommand("SET", $0, "of \($0)") } + keys.map { RedisCommand("GET", $0) })
    #expect(replies.suffix(keys.count).map(\.text) == keys.map { "of \($0)" })
    var counts: [Int] = []
    for index in 0..<3 {
      counts.append(try #require(try await servers.send("DBSIZE", to: index).integer))
      let info = try await servers.send("INFO", "errorstats", to: index).text ?? ""
      #expect(!info.contains("MOVED"), "the client knew the server of each key")
    }
    #expect(counts.reduce(0, +) == keys.count && counts.allSatisfy { $0 > 50 }, "\(counts)")
    let script = RedisCommand("EVAL", "return redis.call('GET', KEYS[1])", 1, "key 7")
    #expect(try await client.send(script).text == "of key 7")
    #expect(try await client.send(RedisCommand("EVAL", "return 5", 0)).integer == 5)
    #expect(try await client.send(RedisCommand("PING")).text == "PONG")
    let error = await redisError { try await client.send(RedisCommand("MGET", "key 1", "key 2")) }
    #expect(error?.reply?.code == "CROSSSLOT")
  }

  @Test func `A client follows a slot that moves, and executes no command twice`() async throws {
    let servers = try await ClusterServers(primaries: 3)
    let slot = try await servers.slot(of: "{k}")
    let from = servers.primary(of: slot)
    let to = (from + 1) % 3
    let client = RedisClient(servers.socket)
    let other = RedisClient(servers.socket)
    let increments = (0..<10).map { RedisCommand("INCR", "{k}\($0 % 5)") }
    func values() async throws -> [Int?] { try await client.send(increments).map(\.integer) }
    #expect(try await values() == [1, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    #expect(try await other.send(RedisCommand("GET", "{k}0")).text == "2")
    try await servers.beginMove(of: slot, from: from, to: to)
    // Some keys are on one server, and some on the other.
    for key in ["{k}0", "{k}1"] {
      try await servers.send(
        "MIGRATE", "127.0.0.1", servers.servers[to].port, key, 0, 50_000, to: from)
    }
    #expect(try await values() == [3, 3, 3, 3, 3, 4, 4, 4, 4, 4])
    #expect(try await client.send(RedisCommand("INCR", "{k}new")).integer == 1)
    // The server has one of two keys until the slot has moved.
    async let both = client.send(RedisCommand("MGET", "{k}0", "{k}3"), timeout: .seconds(600))
    try await servers.moveKeys(of: slot, from: from, to: to)
    try await servers.endMove(of: slot, from: from, to: to)
    #expect(try await both.elements?.map(\.text) == ["4", "4"])
    #expect(try await values() == [5, 5, 5, 5, 5, 6, 6, 6, 6, 6])
    // A client that has sent nothing during the move.
    #expect(try await other.send(RedisCommand("INCR", "{k}new")).integer == 2)
  }

  @Test func `When a primary is killed, commands reach its replica after the election`()
    async throws
  {
    let servers = try await ClusterServers(primaries: 3, replicas: 1, timeout: 1000)
    let client = RedisClient(servers.socket)
    let slot = try await servers.slot(of: "k")
    let primary = servers.primary(of: slot)
    let set = RedisCommand("SET", "k", "before")
    let replies = try await client.send([set, RedisCommand("WAIT", 1, 50_000)])
    #expect(replies.last?.integer == 1)
    servers.servers[primary].process.kill()
    try await awaitEventually("a write succeeds") {
      await redisError { try await client.send(RedisCommand("APPEND", "k", "+")) } == nil
    }
    let text = try await client.send(RedisCommand("GET", "k")).text
    #expect(text?.hasPrefix("before+") == true)
    #expect(try await servers.send("ROLE", to: 3 + primary).elements?.first?.text == "master")
  }

  @Test func `A cluster that cannot be used is a typed error`() async throws {
    let server = try await RedisServer(hasPort: true)
    func code(_ configuration: RedisConfiguration) async -> RedisError.Code? {
      let client = RedisClient(configuration)
      return await redisError { try await client.send(RedisCommand("GET", "k")) }?.code
    }
    var configuration = server.socket
    configuration.address = .cluster([RedisConfiguration.Endpoint("127.0.0.1", port: server.port)])
    #expect(await code(configuration) == .invalidOption)
    let connecting = await redisError { [configuration] in
      _ = try await RedisConnection.connect(to: configuration)
    }
    #expect(connecting?.code == .invalidOption)
    configuration.address = .cluster([])
    #expect(await code(configuration) == .invalidOption)
    configuration.address = .cluster([RedisConfiguration.Endpoint("127.0.0.1", port: 1)])
    #expect(await code(configuration) == .unreachable)
    let servers = try await ClusterServers(primaries: 1, empty: 1)
    var other = servers.socket
    other.database = 3
    #expect(await code(other) == .invalidOption)
    other.database = 0
    other.password = "hidden"
    other.user = "app"
    #expect(await code(other) == .authentication)
    (other.user, other.password) = (nil, nil)
    // One of two servers is enough.
    other = servers.socket
    other.address = .cluster([
      RedisConfiguration.Endpoint("127.0.0.1", port: 1),
      RedisConfiguration.Endpoint("127.0.0.1", port: servers.servers[1].port),
    ])
    #expect(await code(other) == nil)
    // A slot without a server.
    try await servers.send("CLUSTER", "DELSLOTS", servers.slot(of: "k"), to: 0)
    let lost = await code(other)
    #expect(lost == .command || lost == .unreachable)
  }

  @Test func `A write is acknowledged by as many replicas as its options require`() async throws {
    let servers = try await ClusterServers(primaries: 2, replicas: 1)
    let host = try await Host(servers.socket)
    var options = RemoteOptions(acknowledgement: .replicas(1))
    let cache = host.cache(of: Int.self, "values", options)
    try await host.linked()
    try await cache.setValues(Dictionary(uniqueKeysWithValues: (0..<20).map { ("k\($0)", $0) }))
    #expect(try await cache.value(forKey: "k7", freshness: .latest) == 7)
    #expect(try await cache.removeValue(forKey: "k7"))
    options.acknowledgement = .replicas(2)
    let strict = host.cache(of: Int.self, "values", options)
    let error = await redisError { try await strict.setValue(1, forKey: "k7") }
    #expect(error?.code == .notReplicated)
    // The server has it, and no older value is served.
    #expect(try await cache.value(forKey: "k7") == 1)
  }
}

/// Hosts that share a cluster.
@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)), .serialized)
struct ClusterHostTests {
  private func moveSlots(
    _ servers: ClusterServers, _ hosts: HostProcesses, _ slots: Int, from: Int, to: Int
  ) async throws {
    for _ in 0..<slots {
      let key = try await servers.send("RANDOMKEY", to: from).text
      let slot = try await servers.slot(of: #require(key))
      try await servers.beginMove(of: slot, from: from, to: to)
      try await hosts.awaitMore(10, of: .writes)
      try await servers.moveKeys(of: slot, from: from, to: to)
      try await hosts.awaitMore(10, of: .writes)
      try await servers.endMove(of: slot, from: from, to: to)
    }
  }

  @Test func `Slots that move to a server without slots make nothing stale`() async throws {
    let servers = try await ClusterServers(primaries: 2, empty: 1)
    let hosts = try HostProcesses(servers.url, ["--timeout", "30000"])
    try hosts.begin()
    try await hosts.awaitMore(100, of: .writes)
    try await moveSlots(servers, hosts, 3, from: 0, to: 2)
    try await hosts.awaitMore(100, of: .writes)
    try await moveSlots(servers, hosts, 2, from: 2, to: 1)
    try await hosts.awaitMore(100, of: .writes)
    for host in 0..<HostProcesses.hosts {
      // The set of servers has changed with the first slot.
      try await awaitEventually("copies are found without the servers, by another link") {
        try hosts.withRecord(ofHost: host) {
          $0.value(of: .connections) >= 2 && $0.age < .milliseconds(300)
        }
      }
    }
    let reports = try hosts.reports()
    for report in reports {
      #expect(report.violations == 0, "the longest is \(report.longest_ms) ms")
    }
    #expect(reports.total(\.reads) > 50 && reports.total(\.writes) > 10)
  }

  @Test func `A value of a slot that was taken from its server is not served`() async throws {
    let servers = try await ClusterServers(primaries: 2)
    let host = try await Host(servers.socket)
    let cache = host.cache()
    try await host.linked()
    for number in 0..<40 { try await cache.setValue("old", forKey: "k\(number)") }
    try await host.settled()
    try await awaitEventually("the host has copies of all values") {
      let fetched = try host.record.value(of: .fetchedHits)
      for number in 0..<40 {
        #expect(try await cache.value(forKey: "k\(number)") == "old")
      }
      return try host.record.value(of: .fetchedHits) == fetched
    }
    // Without its keys: the server removes them, and sends no message about it.
    let key = try await servers.send("RANDOMKEY", to: 0).text
    let slot = try await servers.slot(of: #require(key))
    let (from, to) = (try await servers.id(of: 0), try await servers.id(of: 1))
    try await servers.send("CLUSTER", "SETSLOT", slot, "IMPORTING", from, to: 1)
    try await servers.send("CLUSTER", "SETSLOT", slot, "NODE", to, to: 1)
    try await awaitEventually("one of the values is gone, without another write") {
      var values: [String?] = []
      for number in 0..<40 { values.append(try await cache.value(forKey: "k\(number)")) }
      return values.filter { $0 == nil }.count == 1
    }
    // By another link: no server has named the change.
    #expect(try host.record.value(of: .connections) >= 2)
  }

  @Test func `A value of a server without a link is not kept`() async throws {
    let servers = try await ClusterServers(primaries: 1, empty: 1)
    let host = try await Host(servers.socket)
    let cache = host.cache()
    try await host.linked()
    try await cache.setValue("x", forKey: "k")
    let key = try #require(try await servers.send("RANDOMKEY", to: 0).text)
    let slot = try await servers.slot(of: key)
    try await servers.beginMove(of: slot, from: 0, to: 1)
    try await servers.moveKeys(of: slot, from: 0, to: 1)
    try await host.settled()
    // The link is to the first server, until the second one has a slot.
    let fetched = try host.record.value(of: .fetchedHits)
    for _ in 0..<20 { #expect(try await cache.value(forKey: "k") == "x") }
    #expect(try host.record.value(of: .fetchedHits) == fetched + 20)
    let second = try await RedisConnection.connect(to: servers.servers[1].socket)
    _ = try await second.send([RedisCommand("ASKING"), RedisCommand("UNLINK", key)])
    #expect(try await cache.value(forKey: "k") == nil)
  }

  @Test func `A failover of a cluster makes nothing stale`() async throws {
    let servers = try await ClusterServers(primaries: 3, replicas: 1, timeout: 1000)
    // Redis loses what a primary has acknowledged without its replica.
    let hosts = try HostProcesses(servers.url, ["--replicas", "1"])
    try hosts.begin()
    try await hosts.awaitMore(100, of: .writes)
    // Stopped and not killed: it continues as a primary for a moment.
    try servers.servers[0].process.stop()
    try await awaitEventually("the replica takes over") {
      try await servers.send("ROLE", to: 3).elements?.first?.text == "master"
    }
    try await hosts.awaitMore(100, of: .writes)
    servers.servers[0].process.continue()
    try await hosts.awaitMore(100, of: .writes)
    let reports = try hosts.reports()
    for report in reports {
      #expect(report.violations == 0, "the longest is \(report.longest_ms) ms")
    }
    #expect(reports.total(\.reads) > 50 && reports.total(\.writes) > 10)
  }
}
#endif
