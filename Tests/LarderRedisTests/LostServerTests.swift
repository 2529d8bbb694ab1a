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
    let client = RedisClient(configuration)
    try await client.send(RedisCommand("SET", "k", "x"))
    try server.process.stop()
    try await awaitEventually("commands are not sent") {
      let error = await redisError { try await client.send(RedisCommand("GET", "k")) }
      return error?.message.contains("Not asked") == true
    }
    server.process.continue()
    // As many as the first one that is sent again, and those that come with it.
    try await awaitEventually("the pause is over") {
      try await withThrowingTaskGroup(of: RedisError?.self) { tasks in
        for _ in 0..<20 {
          tasks.addTask { await redisError { try await client.send(RedisCommand("GET", "k")) } }
        }
        let errors = try await tasks.reduce(into: []) { $0.append($1) }.compactMap { $0 }
        // All or none.
        #expect(errors.isEmpty || errors.count == 20, "\(errors.first?.message ?? "")")
        return errors.isEmpty
      }
    }
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
