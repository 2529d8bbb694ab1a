// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import LarderTesting
import Synchronization
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)))
struct RedisConnectionTests {
  @Test func `Commands get their replies, in each type`() async throws {
    let server = try await RedisServer(hasPort: true)
    for configuration in [server.socket, server.tcp] {
      let connection = try await RedisConnection.connect(to: configuration)
      try await connection.send(RedisCommand("FLUSHALL"))
      #expect(try await connection.send(RedisCommand("GET", "k")) == .null)
      let bytes: [UInt8] = [0, 13, 10, 255]
      #expect(try await connection.send(RedisCommand("SET", "k", bytes)).text == "OK")
      #expect(try await connection.send(RedisCommand("GET", "k")).bytes == bytes)
      #expect(try await connection.send(RedisCommand("INCRBY", "n", -7)).integer == -7)
      try await connection.send(RedisCommand("SADD", "s", "a"))
      #expect(try await connection.send(RedisCommand("SMEMBERS", "s")).elements?.count == 1)
      try await connection.send(RedisCommand("ZADD", "z", "1.5", "m"))
      #expect(try await connection.send(RedisCommand("ZSCORE", "z", "m")) == .double(1.5))
      let limit = try await connection.send(RedisCommand("CONFIG", "GET", "maxmemory"))
      #expect(limit["maxmemory"]?.text == "0")
      let error = await redisError { try await connection.send(RedisCommand("INCR", "k")) }
      #expect(error?.code == .command && error?.reply?.code == "ERR")
      #expect(connection.isOpen)
      await connection.close()
      #expect(!connection.isOpen)
      let closed = await redisError { try await connection.send(RedisCommand("PING")) }
      #expect(closed?.code == .closed)
    }
  }

  @Test func `A failed command of several leaves the others`() async throws {
    let server = try await RedisServer()
    let connection = try await RedisConnection.connect(to: server.socket)
    let replies = try await connection.send([
      RedisCommand("SET", "k", "text"), RedisCommand("INCR", "k"), RedisCommand("GET", "k"),
    ])
    #expect(replies[0].text == "OK" && replies[2].text == "text")
    guard case .error(let error) = replies[1] else {
      Issue.record("\(replies[1])")
      return
    }
    #expect(error.code == "ERR")
    #expect(try await connection.send([]) == [])
  }

  @Test func `Each of many tasks gets its own reply`() async throws {
    let server = try await RedisServer()
    let connection = try await RedisConnection.connect(to: server.socket)
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for task in 0..<200 {
        group.addTask {
          for step in 0..<50 {
            let text = "\(task)-\(step)"
            if step % 7 == 0 {
              let replies = try await connection.send([
                RedisCommand("ECHO", text), RedisCommand("ECHO", text + "!"),
              ])
              guard replies.map(\.text) == [text, text + "!"] else { return false }
            } else {
              guard try await connection.send(RedisCommand("ECHO", text)).text == text else {
                return false
              }
            }
          }
          return true
        }
      }
      for try await isOwn in group { #expect(isOwn) }
    }
  }

  @Test func `Invalidations come in their order among the replies`() async throws {
    let server = try await RedisServer()
    let heard = Mutex<[[RedisValue]]>([])
    let connection = try await RedisConnection.connect(to: server.socket) { push in
      heard.withLock { $0.append(push) }
    }
    try await connection.send(RedisCommand("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "p:"))
    let writer = try await RedisConnection.connect(to: server.socket)
    for number in 0..<100 {
      try await writer.send(RedisCommand("SET", "p:\(number)", "x"))
      try await writer.send(RedisCommand("SET", "q:\(number)", "x"))
      // A reply to a later command comes after the invalidation.
      try await connection.send(RedisCommand("PING"))
      let last = heard.withLock { $0.last }
      #expect(last?.first?.text == "invalidate")
      #expect(last?.last?.elements?.last?.text == "p:\(number)")
    }
    try await writer.send(RedisCommand("FLUSHALL"))
    try await connection.send(RedisCommand("PING"))
    #expect(heard.withLock { $0.last } == [.bytes(Array("invalidate".utf8)), .null])
  }

  // MARK: Refusals

  @Test func `A wrong password and a missing permission are typed errors without the password`()
    async throws
  {
    let server = try await RedisServer()
    let setup = try await RedisConnection.connect(to: server.socket)
    try await setup.send(RedisCommand("CONFIG", "SET", "requirepass", "hidden-one"))
    try await setup.send(
      RedisCommand(
        "ACL", "SETUSER", "reader", "on", ">hidden-two", "~*", "+hello", "+ping", "+get", "+client")
    )
    func attempt(_ user: String?, _ password: String?, _ command: RedisCommand) async -> RedisError?
    {
      var configuration = server.socket
      configuration.user = user
      configuration.password = password
      return await redisError {
        let connection = try await RedisConnection.connect(to: configuration)
        try await connection.send(command)
      }
    }
    let ping = RedisCommand("PING")
    #expect(await attempt(nil, "hidden-one", ping) == nil)
    #expect(await attempt("reader", "hidden-two", ping) == nil)
    let errors = [
      await attempt(nil, nil, ping), await attempt(nil, "hidden-wrong", ping),
      await attempt("reader", "hidden-one", ping),
      await attempt("reader", "hidden-two", RedisCommand("SET", "k", "hidden-value")),
    ]
    #expect(
      errors.map(\.?.code) == [.authentication, .authentication, .authentication, .permission])
    for error in errors {
      #expect(error.map { !"\($0)".contains("hidden") && "\($0)".contains("socket") } == true)
    }
    let open = try await RedisServer()
    var configuration = open.socket
    configuration.user = "unknown"
    configuration.password = "hidden"
    let error = await redisError { _ = try await RedisConnection.connect(to: configuration) }
    #expect(error?.code == .authentication)
  }

  @Test func `A server without RESP3 is a typed error`() async throws {
    let server = try await RedisServer(["--rename-command", "HELLO", ""])
    let error = await redisError { _ = try await RedisConnection.connect(to: server.socket) }
    #expect(error?.code == .unsupportedServer)
  }

  @Test func `A server that cannot be reached is a typed error within the timeout`() async throws {
    let directory = try TemporaryDirectory()
    var configurations = [
      RedisConfiguration(address: .unixSocket(path: directory.appending("none"))),
      RedisConfiguration(address: .host("127.0.0.1", port: 1)),
      RedisConfiguration(address: .host("no-such-host.invalid", port: 6379)),
    ]
    for index in configurations.indices { configurations[index].connectTimeout = .seconds(20) }
    for configuration in configurations {
      let error = await redisError { _ = try await RedisConnection.connect(to: configuration) }
      #expect(error?.code == .unreachable)
      #expect(error?.server == "\(configuration.address)")
    }
  }

  // MARK: TLS

  @Test(.enabled(if: hasTLS, "needs the trait RedisTLS"))
  func `With TLS both sides prove their identity, and a wrong proof is a typed error`()
    async throws
  {
    let (certificates, others) = (try Certificates(), try Certificates())
    let server = try await RedisServer(certificates: certificates)
    func attempt(
      _ host: String = "localhost", authorities: Certificates, client: Certificates? = nil
    ) async throws -> RedisError.Code? {
      var url = "rediss://\(host):\(server.port)?ca=\(authorities.path("ca.pem"))"
      if let client { url += "&cert=\(client.path("client.pem"))&key=\(client.path("client.key"))" }
      var configuration = try RedisConfiguration(url: url)
      // Handshakes take seconds on a busy machine.
      (configuration.connectTimeout, configuration.timeout) = (.seconds(60), .seconds(60))
      let options = configuration
      return await redisError {
        let connection = try await RedisConnection.connect(to: options)
        #expect(try await connection.send(RedisCommand("ECHO", "secret")).text == "secret")
        await connection.close()
      }?.code
    }
    #expect(try await attempt(authorities: certificates, client: certificates) == nil)
    #expect(try await attempt("127.0.0.1", authorities: certificates, client: certificates) == nil)
    #expect(try await attempt(authorities: others, client: certificates) == .tls)
    // The server ends the connection after the handshake, which the client learns of at its first command.
    let refusals: [RedisError.Code?] = [.tls, .connectionLost]
    #expect(refusals.contains(try await attempt(authorities: certificates)))
    #expect(refusals.contains(try await attempt(authorities: certificates, client: others)))
    #expect(try await attempt("127.0.0.2", authorities: certificates, client: certificates) == .tls)
    var missing = RedisConfiguration(address: .host("localhost", port: server.port))
    missing.tls = RedisTLS()
    missing.tls?.authorities = certificates.path("none.pem")
    #expect(await redisError { _ = try await RedisConnection.connect(to: missing) }?.code == .tls)
  }

  @Test(.enabled(if: hasTLS, "needs the trait RedisTLS"))
  func `A port with TLS and a connection without it, or the reverse, are typed errors`()
    async throws
  {
    let certificates = try Certificates()
    let secure = try await RedisServer(certificates: certificates)
    let plain = try await RedisServer(hasPort: true)
    let error = await redisError { _ = try await RedisConnection.connect(to: secure.tcp) }
    #expect(error?.code == .connectionLost && error?.message.contains("rediss://") == true)
    var configuration = plain.tcp
    configuration.tls = RedisTLS()
    configuration.tls?.authorities = certificates.path("ca.pem")
    configuration.connectTimeout = .seconds(60)
    #expect(
      await redisError { _ = try await RedisConnection.connect(to: configuration) }?.code == .tls)
  }

  // MARK: Stopped and killed servers

  @Test func `A stopped server is a timeout, and later replies are those of later commands`()
    async throws
  {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.timeout = .seconds(600)
    let connection = try await RedisConnection.connect(to: configuration)
    try server.process.stop()
    let error = await redisError {
      try await connection.send(RedisCommand("ECHO", "first"), timeout: .milliseconds(50))
    }
    #expect(error?.code == .timeout)
    let cancelled = Task { try await connection.send(RedisCommand("ECHO", "second")) }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    let waiting = Task { try await connection.send(RedisCommand("ECHO", "third")).text }
    server.process.continue()
    #expect(try await waiting.value == "third")
    #expect(try await connection.send(RedisCommand("ECHO", "fourth")).text == "fourth")
  }

  @Test func `A connection to a server that stays silent ends`() async throws {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.timeout = .milliseconds(30)
    let connection = try await RedisConnection.connect(to: configuration)
    try server.process.stop()
    var codes: Set<RedisError.Code> = []
    while connection.isOpen {
      let error = await redisError {
        try await connection.send(RedisCommand("PING"))
      }
      if let error { codes.insert(error.code) }
    }
    #expect(codes.contains(.timeout))
    server.process.continue()
    let error = await redisError { try await connection.send(RedisCommand("PING")) }
    #expect(error?.code == .connectionLost)
  }

  @Test func `A connection does not hold more commands than its limit`() async throws {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.pendingLimit = 10
    configuration.timeout = .seconds(600)
    let connection = try await RedisConnection.connect(to: configuration)
    try server.process.stop()
    let ping = RedisCommand("PING")
    func attempt(_ count: Int) async -> RedisError.Code? {
      let commands = [RedisCommand](repeating: ping, count: count)
      return await redisError {
        _ = try await connection.send(commands, timeout: .milliseconds(1))
      }?
      .code
    }
    #expect(await attempt(11) == .overloaded)
    #expect(await attempt(4) == .timeout)
    #expect(await attempt(7) == .overloaded)
    #expect(await attempt(6) == .timeout)
    #expect(await attempt(1) == .overloaded)
    server.process.continue()
    try await awaitEventually("the server has answered") { await attempt(10) == nil }
    #expect(try await connection.send(ping).text == "PONG")
  }

  @Test func `Commands of a killed server and of a closed connection fail at once`() async throws {
    let server = try await RedisServer()
    var configuration = server.socket
    configuration.timeout = .seconds(300)
    let connection = try await RedisConnection.connect(to: configuration)
    let other = try await RedisConnection.connect(to: configuration)
    try server.process.stop()
    let lost = Task { await redisError { try await connection.send(RedisCommand("PING")) } }
    let closed = Task { await redisError { try await other.send(RedisCommand("PING")) } }
    await other.close()
    #expect(await closed.value?.code == .closed)
    server.process.kill()
    #expect(await lost.value?.code == .connectionLost)
    try await awaitEventually("the connection has ended") { !connection.isOpen }
  }
}
#endif
