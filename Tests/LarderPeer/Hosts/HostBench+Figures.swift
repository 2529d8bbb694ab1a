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

/// Figures of several hosts.
extension HostBench {
  func invalidations() async throws -> [Figure] {
    let server = try await PrivateServer()
    let directory = try TemporaryDirectory()
    let caches = try (0..<2).map { host in
      PersistentCache<String, Int>(
        storage: try SharedStore(at: directory.appending("host\(host)")), namespace: "values",
        remote: try RedisLink(url: server.url, prefix: "bench"))
    }
    var times: [Double] = []
    var previous: Int?
    for number in 0..<(quick ? 300 : 2000) {
      // Not in step with the heartbeat of the link.
      for _ in 0..<Int.random(in: 10...30) {
        _ = try await caches[0].value(forKey: "none \(number)")
      }
      while try await caches[1].value(forKey: "k") != previous {}
      let start = Clocks.monotonicNanoseconds()
      try await caches[0].setValue(number, forKey: "k")
      while try await caches[1].value(forKey: "k") != number {}
      if number >= 50 { times.append(Double(Clocks.monotonicNanoseconds() - start) / 1e6) }
      previous = number
    }
    let (median, high) = (Self.median(times), Self.quantile(times, 0.99))
    let way = "from the call of setValue to the read of it on the other host"
    return [
      Figure(
        id: "hosts.invalidation_p50", value: median, unit: "ms", bar: "<= 1", isMet: median <= 1,
        own: "\(times.count) writes", rival: way),
      Figure(
        id: "hosts.invalidation_p99", value: high, unit: "ms", bar: "<= 10", isMet: high <= 10,
        own: "\(times.count) writes", rival: way),
    ]
  }

  func throughput() async throws -> [Figure] {
    var (own, rival): ([Double], [Double]) = ([], [])
    for _ in 0..<(quick ? 1 : 3) {
      for mode in HostWorker.Mode.allCases {
        let server = try await PrivateServer()
        let group = try WorkerGroup(
          hosts: 3, perHost: 4, url: server.url,
          [
            "--mode", mode.rawValue, "--keys", "10000", "--writes", "0.05", "--tasks", "4",
            "--fills", "--seconds", quick ? "2" : "4",
          ])
        try group.begin()
        let rate = try group.reports().reduce(0.0) { sum, report in
          sum + Double(report.reads + report.writes) / report.seconds
        }
        if mode == .larder { own.append(rate) } else { rival.append(rate) }
      }
    }
    let ratio = Self.median(zip(own, rival).map { $0 / $1 })
    return [
      Figure(
        id: "hosts.redis_ratio", value: ratio, unit: "x", bar: ">= 20", isMet: ratio >= 20,
        own: "\(Int(Self.median(own))) operations/s",
        rival: "Redis alone: \(Int(Self.median(rival))) /s; 5 % of the operations are writes")
    ]
  }

  func connections() async throws -> [Figure] {
    let server = try await PrivateServer()
    let group = try WorkerGroup(
      hosts: 1, perHost: 16, url: server.url, ["--seconds", "1", "--tasks", "2"])
    let client = try server.client()
    func names() async throws -> [String] {
      let list = try await client.send(RedisCommand("CLIENT", "LIST")).text ?? ""
      return list.split(separator: "\n").compactMap { line in
        line.split(separator: " ").first { $0.hasPrefix("name=") }.map { String($0.dropFirst(5)) }
      }
    }
    let idle = try await names()
    try group.begin()
    // As many as there are at any time of the work.
    let end = EndMark()
    async let work: Void = BlockingWork.run {
      defer { end.store(true) }
      _ = try group.reports()
    }
    var busy = idle
    while !end.value {
      let now = try await names()
      if now.count > busy.count { busy = now }
    }
    try await work
    let links = busy.count { $0 == "larder-link" }
    // One of the others is that of this process.
    let (others, early) = (busy.count - links - 1, idle.count - links - 1)
    return [
      Figure(
        id: "hosts.connections", value: Double(links), unit: "link", bar: "1, and <= 16 others",
        isMet: links == 1 && others <= 16,
        own: "\(others) for commands, \(early) before the first", rival: "16 processes of a host")
    ]
  }

  /// The reads that went to the server.
  private static func asked(_ store: SharedStore) throws -> UInt64 {
    try store.remotes().reduce(0) { $0 + $1.fetchedHits + $1.fetchedMisses + $1.revalidations }
  }

  func blindness() async throws -> [Figure] {
    let server = try await PrivateServer()
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.appending("store"))
    var configuration = try RedisConfiguration(url: server.url)
    configuration.timeout = .milliseconds(200)
    let cache = PersistentCache<String, Int>(
      storage: store, namespace: "values", remote: try RedisLink(configuration, prefix: "bench"),
      remoteOptions: RemoteOptions(maxStaleness: .seconds(1), onLoss: .fail))
    var longest = 0.0
    for _ in 0..<(quick ? 2 : 5) {
      let end = ContinuousClock.now.advanced(by: .seconds(20))
      while ContinuousClock.now < end {
        do {
          try await cache.setValue(1, forKey: "k")
          if try await cache.value(forKey: "k") == 1 { break }
        } catch is RedisError {}
      }
      // Reads ask the server until the message about the write has come; then one leaves a copy.
      var count: UInt64
      repeat {
        count = try Self.asked(store)
        _ = try await cache.value(forKey: "k")
      } while try Self.asked(store) != count && ContinuousClock.now < end
      try server.process.stop()
      let start = Clocks.monotonicNanoseconds()
      var last = start
      // Until the second error: the first may be that of a single read.
      var errors = 0
      while errors < 2 {
        do {
          if try await cache.value(forKey: "k") == 1 { last = Clocks.monotonicNanoseconds() }
        } catch is RedisError { errors += 1 }
      }
      longest = max(longest, Double(last - start) / 1e6)
      server.process.continue()
    }
    return [
      Figure(
        id: "hosts.blind", value: longest, unit: "ms", bar: "<= 1000",
        isMet: longest > 0 && longest <= 1000,
        own: "the last hit after the server was stopped", rival: "maxStaleness is 1 s")
    ]
  }
}
#endif
