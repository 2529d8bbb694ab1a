// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import Larder
import LarderEngine
import LarderRedis
import LarderTesting
import Synchronization
import Testing

/// Calls while a server is lost, and after its return.
@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)))
struct LostServerTests {
  private final class Counter: Sendable {
    private let count = Mutex(0)

    var value: Int { count.withLock { $0 } }
    func add() { count.withLock { $0 += 1 } }
  }

  @Test func `After the return of a server no command fails that is sent a while later`()
    async throws
  {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.timeout = .milliseconds(50)
    // Connections to a stopped server are accepted, and get no answer.
    configuration.connectTimeout = .seconds(60)
    let client = RedisClient(configuration)
    try await client.send(RedisCommand("SET", "k", "x"), timeout: .seconds(600))
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

  @Test func `A value that the link confirmed until the loss is served, however old it is`()
    async throws
  {
    let server = try await RedisServer()
    let clock = ManualClock()
    let host = try await Host(server.socket, clock: clock.storeClock)
    let options = RemoteOptions(
      onLoss: .serveStale(upTo: .seconds(600)), lifetime: .seconds(1_000_000))
    let cache = host.cache("values", options)
    try await host.linked()
    try await cache.setValue("x", forKey: "k")
    // The message about the write may come before the copy is stored; a read then leaves one.
    try await awaitEventually("the host has a copy") {
      _ = try await cache.value(forKey: "k")
      return try host.store.namespace("values").bytes(forKey: "k") != nil
    }
    try await host.settled()
    clock.advance(by: .seconds(3600))
    try await host.settled()
    server.process.kill()
    try await awaitEventually("no connection is made") {
      await redisError { try await cache.setValue("y", forKey: "other") }?.code == .unreachable
    }
    cache.clearMemoryCache()
    #expect(try await cache.value(forKey: "k") == "x")
    // The last confirmation is an hour old.
    clock.advance(by: .seconds(3600))
    #expect(await redisError { _ = try await cache.value(forKey: "k") }?.code == .unreachable)
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
    #expect(try await cache.values(forKeys: ["k", "unknown"]) == ["k": "x"])
  }

  @Test func `Reads of copies wait once for a lost server, and not one after the other`()
    async throws
  {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.timeout = .milliseconds(200)
    let host = try await Host(configuration)
    let options = RemoteOptions(
      maxStaleness: .milliseconds(250), onLoss: .serveStale(upTo: .seconds(600)))
    let cache = host.cache(of: String.self, "values", options)
    try await host.linked()
    let keys = (0..<40).map { "k\($0)" }
    // On a busy machine an answer takes longer than the limit of this test.
    for key in keys {
      try await awaitEventually("a value is stored") {
        await redisError { try await cache.setValue("x", forKey: key) } == nil
      }
    }
    try await awaitEventually("the host has copies") {
      _ = try? await cache.values(forKeys: keys)
      return try keys.allSatisfy { try host.store.namespace("values").bytes(forKey: $0) != nil }
    }
    try server.process.stop()
    let record = try host.record
    try await awaitEventually("a read has noticed the loss") {
      _ = try await cache.value(forKey: keys[0])
      return record.value(of: .failures) > 0
    }
    let failures = record.value(of: .failures)
    let start = ContinuousClock.now
    for key in keys {
      #expect(try await cache.value(forKey: key) == "x")
      #expect(try await cache.value(forKey: key, expires: .never) { "computed" } == "x")
    }
    #expect(try await cache.values(forKeys: keys).count == keys.count)
    // Of more than 80 reads one in a second finds out whether the server is back.
    let seconds = UInt64(start.duration(to: .now).components.seconds)
    #expect(record.value(of: .failures) - failures < max(40, 4 * seconds))
    server.process.continue()
    try await awaitEventually("the server is used again") {
      await redisError { try await cache.setValue("y", forKey: keys[0]) } == nil
    }
    try await awaitEventually("the new value is read") {
      (try? await cache.value(forKey: keys[0])) == "y"
    }
  }

  @Test func `Removals and batches that are cancelled do not wait for a stopped server`()
    async throws
  {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.timeout = .seconds(3600)
    let host = try await Host(configuration)
    let cache = host.cache()
    try await host.linked()
    try server.process.stop()
    let calls: [@Sendable () async throws -> Void] = [
      { try await cache.removeAll(tagged: "t") },
      { try await cache.removeAll() },
      { _ = try await cache.values(forKeys: ["a", "b"]) },
      { _ = try await cache.values(forKeys: ["c", "d"], expires: .never) { _ in [:] } },
    ]
    for call in calls {
      let begun = Counter()
      var tasks: [Task<Void, any Error>] = []
      for _ in 0..<10 {
        tasks.append(
          Task {
            begun.add()
            try await call()
          })
      }
      try await awaitEventually("the calls have begun") { begun.value == 10 }
      for task in tasks { task.cancel() }
      for task in tasks { await #expect(throws: CancellationError.self) { try await task.value } }
    }
    server.process.continue()
  }

  @Test func `Tasks of a process that increment one key take turns`() async throws {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache(of: Int.self)
    try await host.linked()
    let connection = try await RedisConnection.connect(to: server.socket)
    func scripts() async throws -> Int {
      let text = try await connection.send(RedisCommand("INFO", "commandstats")).text ?? ""
      let line = text.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_eval:calls=") }
      return line.flatMap { Int($0.split(separator: "=")[1].split(separator: ",")[0]) } ?? 0
    }
    let before = try await scripts()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<200 { group.addTask { try await cache.increment(forKey: "n") } }
      try await group.waitForAll()
    }
    #expect(try await cache.value(forKey: "n", freshness: .latest) == 200)
    // One for each, and some more on a busy machine; without turns there are thousands.
    let count = try await scripts() - before
    #expect(count < 1000, "\(count) scripts")
  }
}
#endif
