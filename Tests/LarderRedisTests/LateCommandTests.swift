// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import LarderTesting
import Testing

/// Commands that reach the server after the client has given up their connection.
@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)))
struct LateCommandTests {
  /// Sets the key to the number of the attempt until the server acknowledges it.
  private func set(_ client: RedisClient, from first: Int) async throws -> Int {
    var number = first
    try await awaitEventually("a write is acknowledged") {
      number += 1
      return (try? await client.send(RedisCommand("SET", "k", number))) != nil
    }
    return number
  }

  private func connections(_ name: String, _ direct: RedisConnection) async throws -> Int {
    let list = try await direct.send(RedisCommand("CLIENT", "LIST")).text ?? ""
    return list.split(separator: "\n").count { $0.contains(" name=\(name) ") }
  }

  @Test func `A write that was given up does not replace a later one that was acknowledged`()
    async throws
  {
    let server = try await RedisServer()
    let proxy = try await RedisProxy(server)
    let direct = try await RedisConnection.connect(to: server.socket)
    var options = proxy.socket("writer")
    // The connection is given up after four times this.
    options.timeout = .milliseconds(100)
    let client = RedisClient(options)
    var number = 0
    for _ in 0..<5 {
      number = try await set(client, from: number)
      proxy.holdRequests("writer")
      // All attempts until the connection is given up are held back.
      number = try await set(client, from: number)
      #expect(try await direct.send(RedisCommand("GET", "k")).text == "\(number)")
      proxy.releaseRequests("writer")
      try await awaitEventually("the server has read the lost connection to its end") {
        try await connections("writer", direct) == 1
      }
      #expect(try await direct.send(RedisCommand("GET", "k")).text == "\(number)")
      #expect(try await client.send(RedisCommand("GET", "k")).text == "\(number)")
    }
    await client.close()
  }

  @Test func `A server that refuses to end connections is used nevertheless`() async throws {
    let server = try await RedisServer()
    let proxy = try await RedisProxy(server)
    let direct = try await RedisConnection.connect(to: server.socket)
    try await direct.send(
      RedisCommand("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-client|kill"))
    var options = proxy.socket("limited")
    options.user = "limited"
    options.password = "secret"
    options.timeout = .milliseconds(100)
    let client = RedisClient(options)
    let first = try await set(client, from: 0)
    proxy.holdRequests("limited")
    let second = try await set(client, from: first)
    #expect(try await direct.send(RedisCommand("GET", "k")).text == "\(second)")
    await client.close()
    proxy.releaseRequests("limited")
  }
}
#endif
