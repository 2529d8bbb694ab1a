// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderRedis
import LarderTesting
import Testing

/// Calls while a server is lost, and after its return.
@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(15)))
struct LostServerTests {
  @Test func `After the return of a server no command fails that is sent a while later`()
    async throws
  {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.timeout = .milliseconds(50)
    // Connections to a stopped server are accepted, and get no answer.
    configuration.connectTimeout = .seconds(3)
    let client = RedisClient(configuration)
    try await client.send(RedisCommand("SET", "k", "x"))
    try server.process.stop()
    try await awaitEventually("commands are not sent") {
      let error = await redisError { try await client.send(RedisCommand("GET", "k")) }
      return error?.message.contains("Not asked") == true
    }
    let stopped = ContinuousClock.now
    try await awaitEventually("the pause of at most 1.3 s is over") {
      ContinuousClock.now - stopped > .seconds(1.5)
    }
    // All are sent, and not one to find out whether the server is back.
    let results = (0..<20).map { _ in
      Task { try await client.send(RedisCommand("GET", "k"), timeout: .seconds(600)).text }
    }
    server.process.continue()
    for result in results { #expect(try await result.value == "x") }
  }

  @Test func `A command may take longer than the limit of others`() async throws {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.timeout = .milliseconds(50)
    let client = RedisClient(configuration)
    // The server answers after a second, which is 20 times the usual limit.
    let reply = try await client.send(RedisCommand("BLPOP", "none", 1), timeout: .seconds(600))
    #expect(reply == .null)
  }

  @Test func `With a full server a computing read returns its result`() async throws {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache()
    try await host.linked()
    let connection = try await RedisConnection.connect(to: server.socket)
    try await connection.send(RedisCommand("CONFIG", "SET", "maxmemory", 1))
    let value = try await cache.value(forKey: "k", expires: .after(.seconds(60))) { "computed" }
    #expect(value == "computed")
    let error = await redisError { try await connection.send(RedisCommand("SET", "k", "x")) }
    #expect(error?.reply?.code == "OOM")
  }

  @Test func `The rights that the article names are enough`() async throws {
    let server = try await RedisServer()
    let admin = try await RedisConnection.connect(to: server.socket)
    let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
    let path =
      root.joined(separator: "/") + "/Sources/LarderRedis/LarderRedis.docc/ManyHosts.md"
    let article = String(decoding: try TestFiles.contents(of: path), as: UTF8.self)
    let line = try #require(article.split(separator: "\n").first { $0.hasPrefix("* ACL: `") })
    let rights = line.split(separator: "`")[1].split(separator: " ").map {
      $0 == "~PREFIX:*" ? "~test:*" : String($0)
    }
    let words: [any RedisArgument] = ["SETUSER", "shop", "on", ">secret"]
    try await admin.send(RedisCommand("ACL", words + rights))
    var configuration = server.socket
    (configuration.user, configuration.password) = ("shop", "secret")
    let host = try await Host(configuration)
    let cache = host.cache(of: Int.self)
    try await host.linked()
    try await cache.setValue(1, forKey: "k", expires: .after(.seconds(60)), tags: ["t"])
    #expect(try await cache.value(forKey: "k", freshness: .latest) == 1)
    #expect(try await cache.increment(forKey: "k", by: 2) == 3)
    #expect(try await cache.value(forKey: "new", expires: .after(.seconds(60))) { 5 } == 5)
    try await cache.removeAll(tagged: "t")
    #expect(try await cache.value(forKey: "k", freshness: .latest) == nil)
    try await cache.removeAll()
    #expect(try await host.link.withLock("job") { $0.fencingToken } > 0)
    #expect(host.errors.all == [])
  }

  @Test func `A write that was not sent leaves the copy, and a batch computes what is missing`()
    async throws
  {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache("values", RemoteOptions(onLoss: .serveStale(upTo: .seconds(600))))
    try await host.linked()
    try await cache.setValue("x", forKey: "k")
    // The message about the write may come before the copy is stored; a read then leaves one.
    try await awaitEventually("the host has a copy") {
      _ = try await cache.value(forKey: "k")
      return try host.store.namespace("values").bytes(forKey: "k") != nil
    }
    server.process.kill()
    try await awaitEventually("no connection is made") {
      await redisError { try await cache.setValue("y", forKey: "other") }?.code == .unreachable
    }
    let error = await redisError { try await cache.setValue("y", forKey: "k") }
    #expect(error?.code == .unreachable)
    #expect(try await cache.value(forKey: "k") == "x")
    let values = try await cache.values(forKeys: ["k", "new"], expires: .after(.seconds(60))) {
      Dictionary(uniqueKeysWithValues: $0.map { ($0, "computed") })
    }
    #expect(values == ["k": "x", "new": "computed"])
  }

  @Test func `An entry that a process has written without the server is not read`() async throws {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache()
    try await host.linked()
    try await cache.setValue("x", forKey: "k")
    let local = PersistentCache<String, String>(storage: host.store, namespace: "values")
    try await local.setValue("other", forKey: "k")
    try await local.setValue("other", forKey: "unknown")
    for _ in 0..<3 {
      #expect(try await cache.value(forKey: "k") == "x")
      #expect(try await cache.value(forKey: "unknown") == nil)
      cache.clearMemoryCache()
    }
    #expect(try cache.values(forKeys: ["k", "unknown"]) == ["k": "x"])
  }
}
