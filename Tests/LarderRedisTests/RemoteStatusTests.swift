// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import Larder
import LarderEngine
import LarderRedis
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)))
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
    #expect(status.holder == getpid() && status.connections >= 1)
    #expect(status.writes == 1 && status.fetchedMisses == 1)
    #expect(try #require(status.age) < .seconds(600) && status.roundTrip > .zero)
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
    #expect(try await stale.item(forKey: "k")?.value == "x")
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

  @Test func `The tool prints a value of a server and the time of a round trip`() async throws {
    let server = try await RedisServer(["--requirepass", "hidden"])
    var configuration = server.socket
    configuration.password = "hidden"
    let host = try await Host(configuration)
    try await host.cache().setValue(
      "x", forKey: "k", expires: .after(.seconds(600)), tags: ["shelf"])
    let url = "redis+unix://:hidden@\(server.directory.appending("socket"))"
    func tool(_ words: String...) throws -> ChildProcess.Outcome {
      try ChildProcess.run(
        try TestExecutable.tool.path, ["remote"] + words,
        environment: ["LARDER_REMOTE_URL": url])
    }
    let get = ["--namespace", "values", "--prefix", "test"]
    let found = try tool("get", "k", get[0], get[1], get[2], get[3])
    #expect(found.lines == ["x"], "\(found)")
    let object = try tool("get", "k", get[0], get[1], get[2], get[3], "--json").output
    #expect(object.contains("\"lifetimeSeconds\": 5") && object.contains("shelf"))
    let none = try tool("get", "k", get[0], get[1])
    #expect(none.status == .exited(1) && none.standardError.contains("no value"))
    let ping = try tool("ping")
    #expect(ping.output.contains("master") && ping.output.contains("round trip"))
    let wrong = try tool(
      "ping", "--url", "redis+unix://:secret@\(server.directory.appending("socket"))")
    #expect(wrong.status == .exited(70) && wrong.standardError.contains("password"))
    for outcome in [none, ping, wrong] {
      let text = outcome.output + outcome.standardError
      #expect(!text.contains("hidden") && !text.contains("secret"))
    }
    #expect(try tool("ping", "--url", "http://x").status == .exited(64))
  }

  @Test func `Waits for the server are reported to the monitors of the store`() async throws {
    let server = try await RedisServer()
    let directory = try TemporaryDirectory()
    let log = WaitLog()
    var options = StoreOptions(budget: .megabytes(16))
    options.monitors = [{ _ in log }]
    let store = try SharedStore(at: directory.appending("store"), options)
    let cache = PersistentCache<String, Int>(
      storage: store, namespace: "values", remote: try RedisLink(server.socket, prefix: "test"))
    try await cache.setValue(1, forKey: "k")
    #expect(try await cache.value(forKey: "k", freshness: .latest) == 1)
    #expect(try await cache.removeValue(forKey: "k"))
    #expect(
      try await cache.value(forKey: "k", expires: .after(.seconds(60))) { 2 } == 2)
    let waits = log.all.filter { $0.wait.kind == .remote }
    // A write, a read, a removal; two reads, a claim, tags and the result.
    #expect(waits.count >= 7 && waits.allSatisfy { $0.error == nil })
    #expect(waits.contains { $0.wait.key?.namespace == "values" })
    server.process.kill()
    await #expect(throws: RedisError.self) { try await cache.setValue(3, forKey: "k") }
    #expect(log.all.last { $0.wait.kind == .remote }?.error is RedisError)
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

/// A monitor that keeps the waits.
private final class WaitLog: StoreMonitor {
  private let waits = Mutex<[WaitReport]>([])
  var all: [WaitReport] { waits.withLock { $0 } }
  func begin(_ computation: MonitoredComputation) -> (any ComputationMonitor)? { nil }
  func ended(_ wait: WaitReport) { waits.withLock { $0.append(wait) } }
  func ended(_ commit: CommitReport, contexts: [any Sendable]?) {}
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
#endif
