// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import Larder
import LarderEngine
import LarderPeer
import LarderRedis
import LarderTestSupport
import LarderTesting
import Testing

extension [WorkerReport] {
  /// The sum of a count. How the operations of a host fall on its workers depends on the scheduler.
  func total(_ count: KeyPath<WorkerReport, Int>) -> Int { reduce(0) { $0 + $1[keyPath: count] } }
}

/// Hosts with several processes, which read and write, and check what they read.
final class HostProcesses: Sendable {
  static let hosts = 2
  static let perHost = 2

  let directory: TemporaryDirectory
  let workers: [ChildProcess]
  private let name: RemoteName

  /// Starts the processes, and waits until all are ready.
  init(_ url: String, _ options: [String], staleness: Int = 500) throws {
    directory = try TemporaryDirectory()
    let peer = try TestExecutable.peer
    let count = Self.hosts * Self.perHost
    var workers: [ChildProcess] = []
    for index in 0..<count {
      workers.append(
        try peer.start(
          [
            "hosts", "worker", "--waits", "--store",
            directory.appending("host\(index % Self.hosts)"),
            "--url", url, "--oracle", directory.appending("oracle"), "--index", "\(index)",
            "--processes", "\(count)", "--keys", "200", "--writes", "0.1", "--tasks", "2",
            "--staleness", "\(staleness)", "--until-line",
          ] + options))
    }
    self.workers = workers
    name = RemoteName(try RedisLink(url: url, prefix: "hosts").description)
    for worker in workers {
      #expect(try worker.nextLine() == "ready")
    }
  }

  func begin() throws { for worker in workers { try worker.send("begin") } }

  /// The record of the link in the store of a host.
  func withRecord<R>(ofHost host: Int, _ body: (RemoteRecord) throws -> R) throws -> R {
    let store = try SharedStore(at: directory.appending("host\(host)"))
    defer { store.close() }
    return try body(try #require(store.core.generation().table.remoteRecord(name)))
  }

  /// Waits until each host has counted so many more events.
  func awaitMore(_ count: UInt64, of counter: RemoteCounter, hosts: [Int] = [0, 1]) async throws {
    for host in hosts {
      let store = try SharedStore(at: directory.appending("host\(host)"))
      defer { store.close() }
      func counted() throws -> UInt64 {
        try #require(store.core.generation().table.remoteRecord(name)).value(of: counter)
      }
      let before = try counted()
      try await awaitEventually("host \(host) has counted \(count) more \(counter)") {
        try counted() >= before + count
      }
    }
  }

  /// The worker with the link of a host.
  func holder(ofHost host: Int) throws -> ChildProcess {
    let pid = try withRecord(ofHost: host) { $0.pid }
    return try #require(workers.first { $0.processIdentifier == pid })
  }

  /// Stops a worker of a host while it has no transaction: in one, no other process of the host could write.
  func stop(_ worker: ChildProcess, ofHost host: Int) throws {
    let store = try SharedStore(at: directory.appending("host\(host)"))
    defer { store.close() }
    while true {
      try worker.stop()
      let table = try store.core.generation().table
      let writer = table.ticketHolder.flatMap { table.pid(process: $0) }
      if writer != worker.processIdentifier { return }
      worker.continue()
    }
  }

  /// Waits for the reports of all workers but the killed ones, and checks the stores.
  func reports(without killed: [ChildProcess] = []) throws -> [WorkerReport] {
    var result: [WorkerReport] = []
    let asked = workers.filter { worker in !killed.contains { $0 === worker } }
    for worker in asked { try worker.send("end") }
    for worker in asked {
      let line = try worker.nextLine()
      result.append(try WorkerReport(line))
      #expect(try worker.wait().isSuccess)
    }
    for host in 0..<Self.hosts {
      let store = try SharedStore(at: directory.appending("host\(host)"))
      #expect(try store.verify() == [])
      store.close()
    }
    return result
  }
}

@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)), .serialized)
struct HostFaultTests {
  /// Disturbs hosts, and checks that no read was older than its limit.
  private func run(
    _ server: RedisServer, _ options: [String] = [], isSound: Bool = true,
    _ disturb: (HostProcesses) async throws -> [ChildProcess]
  ) async throws -> [WorkerReport] {
    let hosts = try HostProcesses(
      "redis+unix://\(server.directory.appending("socket"))", options)
    try hosts.begin()
    let killed = try await disturb(hosts)
    let reports = try hosts.reports(without: killed)
    for report in reports where isSound {
      #expect(report.violations == 0, "the longest is \(report.longest_ms) ms")
    }
    #expect(reports.total(\.reads) > 50)
    return reports
  }

  @Test func `Without faults nothing is older than its limit, and each host has one link`()
    async throws
  {
    let server = try await RedisServer()
    // On a busy machine an answer takes longer than the usual limit.
    let reports = try await run(server, ["--timeout", "30000"]) { hosts in
      try await hosts.awaitMore(500, of: .writes)
      // On a busy machine a deputy may have had one too, for a while.
      let connection = try await RedisConnection.connect(to: server.socket)
      try await awaitEventually("each host has one link") {
        let list = try await connection.send(RedisCommand("CLIENT", "LIST")).text ?? ""
        let links = list.split(separator: "\n").count { $0.contains(" name=larder-link ") }
        return links == HostProcesses.hosts
      }
      return []
    }
    #expect(reports.allSatisfy { $0.errors.isEmpty }, "\(reports.map(\.errors))")
    #expect(reports.total(\.writes) > 100)
  }

  @Test func `A stopped server makes reads fail and not stale, and ends with its return`()
    async throws
  {
    let server = try await RedisServer()
    let reports = try await run(server) { hosts in
      try await hosts.awaitMore(50, of: .writes)
      try server.process.stop()
      try await hosts.awaitMore(5, of: .failures)
      server.process.continue()
      try await hosts.awaitMore(50, of: .writes)
      return []
    }
    #expect(reports.contains { $0.errors["timeout", default: 0] > 0 })
  }

  @Test func `A server that is killed and starts empty makes nothing stale`() async throws {
    let server = try await RedisServer()
    var second: RedisServer?
    let reports = try await run(server) { hosts in
      try await hosts.awaitMore(50, of: .writes)
      server.process.kill()
      try await hosts.awaitMore(5, of: .failures)
      second = try await server.restarted()
      for host in 0..<HostProcesses.hosts {
        try await awaitEventually("the host has a link again") {
          try hosts.withRecord(ofHost: host) {
            $0.value(of: .connections) >= 2 && $0.age < .milliseconds(300)
          }
        }
      }
      try await hosts.awaitMore(50, of: .writes)
      return []
    }
    #expect(reports.allSatisfy { $0.links_of_host >= 2 })
    #expect(second != nil)
  }

  @Test func `When the process with the link is killed, another one of the host takes over`()
    async throws
  {
    let server = try await RedisServer()
    let reports = try await run(server) { hosts in
      try await hosts.awaitMore(50, of: .writes)
      let holder = try hosts.holder(ofHost: 0)
      holder.kill()
      try await awaitEventually("another process has the link") {
        try hosts.withRecord(ofHost: 0) {
          $0.pid != holder.processIdentifier && $0.age < .milliseconds(300)
        }
      }
      return [holder]
    }
    #expect(reports.contains { $0.links_of_host >= 2 })
  }

  @Test func `When the process with the link is stopped, a deputy takes its place`() async throws {
    let server = try await RedisServer()
    _ = try await run(server) { hosts in
      try await hosts.awaitMore(50, of: .writes)
      let holder = try hosts.holder(ofHost: 0)
      try hosts.stop(holder, ofHost: 0)
      try await awaitEventually("another process has the link") {
        try hosts.withRecord(ofHost: 0) {
          $0.pid != holder.processIdentifier && $0.age < .milliseconds(300)
        }
      }
      holder.continue()
      return []
    }
  }

  @Test func `A link that confirms changes before it has applied them is noticed`() async throws {
    let server = try await RedisServer()
    let reports = try await run(server, ["--lies"], isSound: false) { hosts in
      try await hosts.awaitMore(50, of: .writes)
      let holder = try hosts.holder(ofHost: 0)
      try hosts.stop(holder, ofHost: 0)
      let stopped = ContinuousClock.now
      // Longer than the limit of half a second: other processes write all the time.
      try await hosts.awaitMore(1500, of: .writes, hosts: [1])
      try await awaitEventually("the limit has passed several times") {
        ContinuousClock.now - stopped > .seconds(2)
      }
      holder.continue()
      return []
    }
    #expect(reports.contains { $0.violations > 0 })
  }

  @Test func `A server that remembers the readers of one key only makes nothing stale`()
    async throws
  {
    let server = try await RedisServer(["--tracking-table-max-keys", "1"])
    _ = try await run(server) { hosts in
      try await hosts.awaitMore(300, of: .writes)
      return []
    }
  }

  @Test func `Removals of all keys by the server make nothing stale`() async throws {
    let server = try await RedisServer()
    _ = try await run(server) { hosts in
      let connection = try await RedisConnection.connect(to: server.socket)
      for _ in 0..<20 {
        try await hosts.awaitMore(20, of: .writes)
        try await connection.send(RedisCommand("FLUSHALL"))
      }
      return []
    }
  }
}
#endif
