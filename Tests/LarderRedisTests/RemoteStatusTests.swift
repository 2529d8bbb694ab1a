// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderRedis
import LarderTesting
import Testing

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(15)))
struct RemoteStatusTests {
  @Test func `A store shows its link, without the password`() async throws {
    let server = try await RedisServer(["--requirepass", "hidden"])
    var configuration = server.socket
    configuration.password = "hidden"
    let host = try await Host(configuration)
    let cache = host.cache()
    try await host.linked()
    try await cache.setValue("x", forKey: "k")
    #expect(try await cache.value(forKey: "none") == nil)
    let status = try #require(try host.store.remotes().first)
    #expect(status.server.contains("prefix test") && !status.server.contains("hidden"))
    #expect(status.holder == getpid() && status.connections == 1)
    #expect(status.writes == 1 && status.fetchedMisses == 1)
    #expect(try #require(status.age) < .seconds(5) && status.roundTrip > .zero)
    let text = try ChildProcess.run(
      try TestExecutable.tool.path, ["remote", "--store", host.store.path])
    #expect(text.output.contains("prefix test") && text.output.contains("process \(getpid())"))
    #expect(!text.output.contains("hidden"))
    let page = try host.store.statistics().prometheusText()
    #expect(page.contains(",outcome=\"none\"} 1\n") && !page.contains("hidden"))
    #expect(page.contains("larder_remote_age_milliseconds{"))
    await host.link.close()
    try await awaitEventually("the link ends") { try host.store.remotes().first?.holder == nil }
    let error = await redisError { _ = try await cache.value(forKey: "other") }
    #expect(error?.code == .closed)
  }

  @Test func `Without the server reads follow onLoss, and writes are typed errors`()
    async throws
  {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let stale = host.cache()
    let failing = host.cache(of: String.self, "values", RemoteOptions(onLoss: .fail))
    try await host.linked()
    try await stale.setValue("x", forKey: "k")
    try await host.settled()
    try await awaitEventually("the host has a copy") {
      try await stale.value(forKey: "k") == "x"
        && host.store.namespace("values").bytes(forKey: "k") != nil
    }
    server.process.kill()
    try await awaitEventually("the copy is not verified any more") {
      try host.record.age > .milliseconds(1100) && host.record.link == 0
    }
    #expect(try await stale.value(forKey: "k") == "x")
    #expect(try stale.item(forKey: "k")?.value == "x")
    #expect(try host.record.value(of: .staleHits) >= 2)
    let losses = [
      await redisError { _ = try await failing.value(forKey: "k") },
      await redisError { _ = try await stale.value(forKey: "unknown") },
      await redisError { _ = try await stale.value(forKey: "k", freshness: .latest) },
      await redisError { try await stale.setValue("y", forKey: "k2") },
      await redisError { try await stale.removeValue(forKey: "k2") },
      await redisError { _ = try await failing.value(forKey: "c") { "computed" } },
    ]
    #expect(losses.allSatisfy { [.unreachable, .connectionLost].contains($0?.code) }, "\(losses)")
    #expect(try await stale.value(forKey: "c") { "computed" } == "computed")
    // Kept for the host: the second computation does not run.
    #expect(try await stale.value(forKey: "c") { "again" } == "computed")

    let second = try await server.restarted()
    defer { second.process.kill() }
    try await host.linked()
    try await awaitEventually("commands are sent again") {
      await redisError { try await stale.setValue("z", forKey: "k") } == nil
    }
    #expect(try await failing.value(forKey: "k") == "z")
    // The server has never had it.
    #expect(try await failing.value(forKey: "c") == nil)
    #expect(try host.store.verify() == [])
  }

  @Test func `Options without meaning are errors of each use`() async throws {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache(of: String.self, "values", RemoteOptions(maxStaleness: .zero))
    let error = #expect(throws: StoreError.self) { try cache.versionedValue(forKey: "k") }
    #expect(error?.code == .invalidOption)
    #expect(redisErrorOf { try RedisLink(url: "redis://h", prefix: "a:b") }?.code == .invalidOption)
    let pinned = await #expect(throws: StoreError.self) {
      try await host.cache().setValue("x", forKey: "k", pinned: true)
    }
    #expect(pinned?.code == .unsupportedByStorage)
  }

  @Test func `Bytes that no link has written are an error that names the key`() async throws {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache()
    try await host.linked()
    try await cache.setValue("x", forKey: "k")
    let connection = try await RedisConnection.connect(to: server.socket)
    let keys = try await connection.send(RedisCommand("KEYS", "*")).elements ?? []
    #expect(keys.count == 1)
    let key = try #require(keys.first?.text)
    for bytes in ["", "L", "garbage of another program"] {
      try await connection.send(RedisCommand("SET", key, bytes))
      let error = await redisError { _ = try await cache.value(forKey: "k", freshness: .latest) }
      #expect(error?.code == .unreadableValue && error?.message.contains(key) == true)
    }
    try await connection.send(RedisCommand("DEL", key))
    try await connection.send(RedisCommand("LPUSH", key, "list"))
    let error = await redisError { _ = try await cache.value(forKey: "k", freshness: .latest) }
    #expect(error?.code == .command && error?.reply?.code == "WRONGTYPE")
    try await cache.setValue("y", forKey: "k")
    #expect(try await cache.value(forKey: "k", freshness: .latest) == "y")
  }

  @Test func `A server without permission for tracking leaves reads to the server`() async throws {
    let server = try await RedisServer()
    let setup = try await RedisConnection.connect(to: server.socket)
    try await setup.send(
      RedisCommand(
        "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-client|tracking"))
    var configuration = server.socket
    configuration.user = "reader"
    configuration.password = "secret"
    let host = try await Host(configuration)
    let cache = host.cache()
    try await awaitEventually("the missing permission is reported") {
      host.errors.all.contains { $0.contains("client|tracking") && !$0.contains("secret") }
    }
    try await cache.setValue("x", forKey: "k")
    for _ in 0..<3 { #expect(try await cache.value(forKey: "k") == "x") }
    #expect(try host.record.value(of: .fetchedHits) == 3)
  }
}

/// Returns the error of a synchronous operation.
private func redisErrorOf(_ body: () throws -> Any) -> RedisError? {
  do {
    _ = try body()
    return nil
  } catch {
    return error as? RedisError
  }
}
