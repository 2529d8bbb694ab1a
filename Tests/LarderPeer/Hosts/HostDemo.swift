// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Redis
import ArgumentParser
import Larder
import LarderEngine
import LarderRedis
import LarderSystem
import LarderTesting

/// Runs three hosts with a server, disturbs them, and prints what they have read.
struct HostDemo: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Run three hosts with four processes each, and disturb them.",
    discussion: """
      Each host is a network namespace and has one store. As root on Linux; otherwise all hosts \
      are on one network, and none is cut off.
      """)

  @Option(help: "The time in seconds.") var seconds = 9.0

  private static let hosts = 3
  private static let perHost = 4

  func run() async throws {
    let network = HostNetwork(hosts: Self.hosts)
    defer { network?.remove() }
    if network == nil {
      print("No network namespaces here (they need root and ip): all hosts are on one network.")
    }
    let server = try await PrivateServer(
      network.map { ["--bind", $0.address, "--protected-mode", "no"] } ?? [])
    let url = network == nil ? server.url : try await server.listen(at: network!.address)
    let oracle = try TemporaryDirectory()
    let group = try WorkerGroup(
      hosts: Self.hosts, perHost: Self.perHost, url: url,
      [
        "--oracle", oracle.appending("oracle"), "--keys", "2000", "--writes", "0.02",
        "--computes", "--seconds", "\(seconds)",
      ],
      command: { network?.command(inHost: $0) ?? [] })
    try group.begin()
    let start = Clocks.monotonicNanoseconds()
    func note(_ text: String) {
      let time = Double((Clocks.monotonicNanoseconds() - start) / 10_000_000) / 100
      print("\(time) s: \(text)")
      StandardOutput.flush()
    }
    try await awaitLinks(group)
    let killed = try await killHolder(group, url, note)
    try await awaitLinks(group)
    note("Redis is stopped until each host has lost its link")
    try server.process.stop()
    for host in 0..<Self.hosts { try await awaitLoss(group, host) }
    server.process.continue()
    try await awaitLinks(group)
    if let network {
      note("host 3 is cut off until it has lost its link")
      network.cut(host: 2, isCut: true)
      try await awaitLoss(group, 2)
      network.cut(host: 2, isCut: false)
      note("host 3 is back")
    }
    try show(group.reports(without: [killed]))
  }

  /// Returns what a host says of the server.
  private func status(_ group: WorkerGroup, _ host: Int) throws -> RemoteStatus? {
    let store = try SharedStore(at: group.directory.appending("host\(host)"))
    defer { store.close() }
    return try store.remotes().first
  }

  /// Waits until each host has a link that has confirmed all changes within the last 300 ms.
  private func awaitLinks(_ group: WorkerGroup) async throws {
    for host in 0..<Self.hosts {
      try await awaitEventually("host \(host + 1) has a link") {
        guard let status = try status(group, host), status.holder != nil else { return false }
        return status.age.map { $0 < .milliseconds(300) } ?? false
      }
    }
  }

  /// Waits until nothing has confirmed for a second that a host knows all changes: its reads fail then.
  private func awaitLoss(_ group: WorkerGroup, _ host: Int) async throws {
    try await awaitEventually("host \(host + 1) has lost its link") {
      try status(group, host)?.age.map { $0 > .seconds(1) } ?? true
    }
  }

  /// Kills the process with the link of the first host, and waits for the next one.
  private func killHolder(
    _ group: WorkerGroup, _ url: String, _ note: (String) -> Void
  ) async throws -> ChildProcess {
    let store = try SharedStore(at: group.directory.appending("host0"))
    defer { store.close() }
    let holder = try store.remotes().first?.holder ?? 0
    guard let process = group.workers.first(where: { $0.processIdentifier == holder }) else {
      throw ValidationError("No process of host 1 has the link.")
    }
    note("the process with the link of host 1 is killed")
    process.kill()
    let start = Clocks.monotonicNanoseconds()
    try await awaitEventually("another process has the link") {
      try store.remotes().first.map { $0.holder != nil && $0.holder != holder } ?? false
    }
    note("another process has it, after \((Clocks.monotonicNanoseconds() - start) / 1_000_000) ms")
    return process
  }

  private func show(_ reports: [WorkerReport]) throws {
    print("\nhost    reads   asked  writes  computed  errors  stale  longest age")
    var violations = 0
    for host in 0..<Self.hosts {
      let own = reports.filter { $0.index % Self.hosts == host }
      func sum(_ part: (WorkerReport) -> Int) -> String {
        Self.padded(own.reduce(0) { $0 + part($1) })
      }
      violations += own.reduce(0) { $0 + $1.violations }
      let asked = own.map { $0.fetched_by_host + $0.verified_by_host }.max() ?? 0
      let longest = own.map(\.longest_ms).max() ?? 0
      print(
        "\(host + 1)    " + sum(\.reads) + Self.padded(asked) + sum(\.writes)
          + "  " + sum(\.computations) + sum { $0.errors.values.reduce(0, +) }
          + sum(\.violations) + "     \(longest) ms")
    }
    print(
      "asked: reads that the server answered. stale: reads of a value that had been replaced for longer "
        + "than a second.")
    if violations > 0 { throw ExitCode.failure }
  }

  private static func padded(_ number: Int) -> String {
    let text = "\(number)"
    return String(repeating: " ", count: max(8 - text.count, 1)) + text
  }
}

/// Network namespaces that are joined by a bridge.
struct HostNetwork {
  let address = "10.177.0.254"
  private let hosts: Int
  private static let bridge = "larder-br"

  /// Makes them.
  ///
  /// - Returns: `nil` if that is not possible here.
  init?(hosts: Int) {
    self.hosts = hosts
    remove()
    var commands = [
      "link add \(Self.bridge) type bridge", "addr add \(address)/24 dev \(Self.bridge)",
      "link set \(Self.bridge) up",
    ]
    for host in 0..<hosts {
      let (name, pair) = ("larder-h\(host)", "larder-v\(host)")
      commands += [
        "netns add \(name)", "link add \(pair) type veth peer name eth0 netns \(name)",
        "link set \(pair) master \(Self.bridge)", "link set \(pair) up",
        "-n \(name) addr add 10.177.0.\(host + 1)/24 dev eth0", "-n \(name) link set eth0 up",
        "-n \(name) link set lo up",
      ]
    }
    for command in commands where !Self.run(command) {
      remove()
      return nil
    }
  }

  private static func run(_ command: String) -> Bool {
    let outcome = try? ChildProcess.run("ip", command.split(separator: " ").map(String.init))
    return outcome?.status.isSuccess ?? false
  }

  /// Returns what starts a program in a host.
  func command(inHost host: Int) -> [String] { ["ip", "netns", "exec", "larder-h\(host)"] }

  /// Takes the connection of a host away, or gives it back.
  func cut(host: Int, isCut: Bool) {
    _ = Self.run("link set larder-v\(host) \(isCut ? "down" : "up")")
  }

  func remove() {
    for host in 0..<hosts {
      _ = Self.run("link del larder-v\(host)")
      _ = Self.run("netns del larder-h\(host)")
    }
    _ = Self.run("link del \(Self.bridge)")
  }
}

extension PrivateServer {
  /// Opens a port at an address, and returns the URL of it.
  func listen(at address: String) async throws -> String {
    let client = try client()
    for _ in 0..<50 {
      let port = Int.random(in: 20_000..<32_000)
      do {
        try await client.send(RedisCommand("CONFIG", "SET", "port", "\(port)"))
        return "redis://\(address):\(port)"
      } catch let error as RedisError where error.code == .command {
        continue  // Another program has the port.
      }
    }
    throw ValidationError("No port is free.")
  }
}
#endif
