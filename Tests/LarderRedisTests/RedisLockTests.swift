// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import LarderTesting
import Synchronization
import Testing

@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)))
struct RedisLockTests {
  /// The closures that run, and the numbers of all of them.
  private final class Closures: Sendable {
    private let state = Mutex((inside: 0, numbers: [UInt64]()))

    var numbers: [UInt64] { state.withLock { $0.numbers } }
    var isAnyInside: Bool { state.withLock { $0.inside > 0 } }

    func enter(_ number: UInt64) {
      state.withLock {
        $0.inside += 1
        #expect($0.inside == 1)
        $0.numbers.append(number)
      }
    }

    func leave() { state.withLock { $0.inside -= 1 } }
  }

  @Test(arguments: ServerKind.allCases)
  func `Only one closure of all hosts runs with a lock, and each has a greater number`(
    _ kind: ServerKind
  ) async throws {
    let servers = try await kind.start()
    let links = try (0..<3).map { _ in try RedisLink(servers.socket, prefix: "locks") }
    let closures = Closures()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      for task in 0..<12 {
        tasks.addTask {
          try await links[task % 3].withLock("a/b {c}", timeout: .seconds(600)) { hold in
            closures.enter(hold.fencingToken)
            _ = try await links[0].ping()
            closures.leave()
          }
        }
      }
      try await tasks.waitForAll()
    }
    let numbers = closures.numbers
    #expect(numbers.count == 12 && Set(numbers).count == 12 && numbers == numbers.sorted())
  }

  @Test func `A held lock is renewed, and an error names its holder`() async throws {
    let server = try await RedisServer()
    let link = try RedisLink(server.socket, prefix: "locks")
    let connection = try await RedisConnection.connect(to: server.socket)
    let key = "locks:l:{job}"
    try await link.withLock("job", lease: .seconds(60)) { _ in
      let holder = try await connection.send(RedisCommand("GET", key))
      // The time that is left only grows when the lease is renewed, every 20 seconds.
      var left = Int.max
      try await awaitEventually("the lease is renewed") {
        let now = try await connection.send(RedisCommand("PTTL", key)).integer ?? 0
        defer { left = now }
        return now > left
      }
      let error = await redisError {
        try await link.withLock("job", timeout: .milliseconds(200)) { _ in }
      }
      #expect(error?.code == .lockTimeout && error?.message.contains("process") == true)
      #expect(try await connection.send(RedisCommand("GET", key)) == holder)
      // Another name is another lock.
      #expect(try await link.withLock("other") { $0.fencingToken } > 0)
    }
    #expect(try await connection.send(RedisCommand("EXISTS", key)).integer == 0)
    struct Failure: Error {}
    await #expect(throws: Failure.self) {
      try await link.withLock("job") { _ in throw Failure() }
    }
    #expect(try await link.withLock("job") { $0.fencingToken } > 0)
    let names = await redisError { try await link.withLock("") { _ in } }
    #expect(names?.code == .invalidOption)
  }

  @Test func `A closure is cancelled before another process can have its lock`() async throws {
    let server = try await RedisServer()
    let link = try RedisLink(server.socket, prefix: "locks")
    let start = ContinuousClock.now
    let error = await redisError {
      try await link.withLock("job", lease: .seconds(2)) { _ in
        try server.process.stop()
        // The wait itself ends with the task.
        try? await awaitEventually("the task is cancelled") { Task.isCancelled }
        server.process.continue()
      }
    }
    #expect(error?.code == .lockLost)
    #expect(ContinuousClock.now - start >= .seconds(1))
  }

  @Test func `A cancelled wait ends at once, and a cancelled closure ends its lock`() async throws {
    let server = try await RedisServer()
    let link = try RedisLink(server.socket, prefix: "locks")
    let closures = Closures()
    let holder = Task {
      try await link.withLock("job", lease: .seconds(3600)) { hold in
        closures.enter(hold.fencingToken)
        try await awaitEventually("the task is cancelled") { Task.isCancelled }
      }
    }
    try await awaitEventually("the lock is held") { closures.isAnyInside }
    let waiter = Task { try await link.withLock("job", timeout: .seconds(600)) { _ in } }
    waiter.cancel()
    await #expect(throws: CancellationError.self) { try await waiter.value }
    holder.cancel()
    _ = await holder.result
    // Long before the lease ends.
    #expect(try await link.withLock("job", timeout: .seconds(600)) { $0.fencingToken } > 0)
  }

  @Test func `A server that has lost a lock makes it an error, and later numbers are greater`()
    async throws
  {
    let server = try await RedisServer()
    let link = try RedisLink(server.socket, prefix: "locks")
    let connection = try await RedisConnection.connect(to: server.socket)
    let closures = Closures()
    let error = await redisError {
      try await link.withLock("job", lease: .seconds(600)) { first in
        try await connection.send(RedisCommand("FLUSHALL"))
        try await link.withLock("job") { second in
          #expect(second.fencingToken > first.fencingToken)
          closures.enter(second.fencingToken)
        }
      }
    }
    #expect(error?.code == .lockLost && closures.numbers.count == 1)
  }

  @Test func `A cancelled call does not wait for a stopped server to end its lock`() async throws {
    let server = try await RedisServer()
    var configuration = server.socket
    (configuration.timeout, configuration.connectTimeout) = (.seconds(1800), .seconds(1800))
    let link = try RedisLink(configuration, prefix: "locks")
    let isHeld = Mutex(false)
    let holder = Task {
      try await link.withLock("job", lease: .seconds(3600)) { _ in
        isHeld.withLock { $0 = true }
        try await awaitEventually("the task is cancelled") { Task.isCancelled }
        throw CancellationError()
      }
    }
    try await awaitEventually("the lock is held") { isHeld.withLock { $0 } }
    try server.process.stop()
    let waiter = Task { try await link.withLock("other") { _ in } }
    holder.cancel()
    await #expect(throws: CancellationError.self) { try await holder.value }
    waiter.cancel()
    await #expect(throws: CancellationError.self) { try await waiter.value }
    server.process.continue()
    // The end of the lock was sent nevertheless.
    try await link.withLock("job", timeout: .seconds(600)) { _ in }
  }
}
#endif
