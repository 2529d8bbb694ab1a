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

/// Measures what a remote server costs, and what copies in the hosts save.
struct HostBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench",
    abstract: "Measure; print a table, or one line of JSON for each figure.")

  @Flag(help: "Print JSON.") var json = false
  @Flag(help: "Fewer rounds: a first estimate.") var quick = false
  @Argument(help: "The figures to measure, by name or by a part of it; all by default.")
  var figures: [String] = []

  /// One figure with its bar.
  struct Figure {
    let id: String
    let value: Double
    let unit: String
    let bar: String
    let isMet: Bool
    let own: String
    let rival: String
  }

  func run() async throws {
    let parts: [(String, () async throws -> [Figure])] = [
      ("hosts.hit", hits), ("hosts.hot_get", hits), ("hosts.miss", misses),
      ("hosts.pipeline", misses), ("hosts.invalidation", invalidations),
      ("hosts.redis_ratio", throughput), ("hosts.connections", connections),
      ("hosts.blind", blindness),
    ]
    var done: Set<String> = []
    for (name, measure) in parts {
      let isWanted = figures.isEmpty || figures.contains { name.hasPrefix($0) }
      guard isWanted, !done.contains(name) else { continue }
      for figure in try await measure() {
        done.insert(figure.id)
        show(figure)
      }
    }
  }

  private func show(_ figure: Figure) {
    let value = (figure.value * 1000).rounded() / 1000
    if json {
      print(
        """
        {"id": "\(figure.id)", "value": \(value), "unit": "\(figure.unit)", \
        "bar": "\(figure.bar)", "met": \(figure.isMet), "own": "\(figure.own)", \
        "rival": "\(figure.rival)"}
        """)
    } else {
      print(
        "\(figure.id): \(value) \(figure.unit) (bar \(figure.bar), "
          + "\(figure.isMet ? "met" : "NOT met"); larder \(figure.own); \(figure.rival))")
    }
    StandardOutput.flush()
  }

  static func median(_ values: [Double]) -> Double { quantile(values, 0.5) }

  static func quantile(_ values: [Double], _ part: Double) -> Double {
    let sorted = values.sorted()
    return sorted[min(Int(Double(sorted.count) * part), sorted.count - 1)]
  }

  static func rounded(_ value: Double) -> Double { (value * 10).rounded() / 10 }

  private static func nanoseconds(_ body: () throws -> Void) rethrows -> Double {
    let start = Clocks.monotonicNanoseconds()
    try body()
    return Double(Clocks.monotonicNanoseconds() - start)
  }

  // MARK: Local reads

  private func hits() async throws -> [Figure] {
    let server = try await PrivateServer()
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.appending("store"), .init(budget: .megabytes(64)))
    let link = try RedisLink(url: server.url, prefix: "bench")
    var figures: [Figure] = []
    for (id, options) in [
      ("hosts.hit", CacheOptions()), ("hosts.hot_get", CacheOptions(memoryCountLimit: 0)),
    ] {
      let remote = PersistentCache<Int, String>(
        storage: store, namespace: "remote" + id, remote: link, options: options)
      let local = PersistentCache<Int, String>(
        storage: store, namespace: "local" + id, options: options)
      let text = String(repeating: "x", count: 100)
      for key in 0..<1000 {
        try await remote.setValue(text, forKey: key, expires: .after(.seconds(600)))
        try await local.setValue(text, forKey: key, expires: .after(.seconds(600)))
      }
      let count = id == "hosts.hit" ? 2_000_000 : 300_000
      func measure(_ cache: PersistentCache<Int, String>) throws -> Double {
        try Self.nanoseconds {
          for number in 0..<count where try Self.read(cache, number % 1000) == nil {
            throw ValidationError("A value is missing.")
          }
        } / Double(count)
      }
      var pairs: [(own: Double, rival: Double)] = []
      for round in 0...(quick ? 5 : 15) {
        // Copies that are not verified are verified first.
        for key in 0..<1000 { _ = try await remote.value(forKey: key) }
        let pair = (try measure(remote), try measure(local))
        if round > 0 { pairs.append(pair) }
      }
      let ratio = Self.median(pairs.map { $0.own / $0.rival })
      figures.append(
        Figure(
          id: id, value: ratio, unit: "x", bar: "<= 1.3", isMet: ratio <= 1.3,
          own: "\(Self.rounded(Self.median(pairs.map(\.own)))) ns",
          rival:
            "without remote, same lifetime: \(Self.rounded(Self.median(pairs.map(\.rival)))) ns"))
    }
    return figures
  }

  @inline(never)
  private static func read(_ cache: PersistentCache<Int, String>, _ key: Int) throws -> String? {
    try cache.value(forKey: key)
  }

  // MARK: The server

  private func misses() async throws -> [Figure] {
    let server = try await PrivateServer()
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.appending("store"), .init(budget: .megabytes(256)))
    let cache = PersistentCache<Int, String>(
      storage: store, namespace: "values", remote: try RedisLink(url: server.url, prefix: "bench"))
    let text = String(repeating: "x", count: 100)
    let count = quick ? 4000 : 20_000
    try await cache.setValues((0..<count).map { ($0, text) })
    var (own, rival, ownBatch, rivalBatch): ([Double], [Double], [Double], [Double]) = (
      [], [], [], []
    )
    for _ in 0..<(quick ? 3 : 7) {
      try await store.namespace("values").removeAll()
      let time = try await Self.time {
        for key in 0..<(count / 4) { _ = try await cache.value(forKey: key) }
      }
      own.append(time / Double(count / 4) / 1000)
      rival.append(1e6 / (try server.benchmark(pipeline: 1, requests: count)))
      try await store.namespace("values").removeAll()
      let batches = try await Self.time {
        for start in stride(from: 0, to: count, by: 100) {
          _ = try cache.values(forKeys: start..<(start + 100))
        }
      }
      ownBatch.append(Double(count) / batches * 1e9)
      rivalBatch.append(try server.benchmark(pipeline: 100, requests: count * 10))
    }
    let miss = Self.median(zip(own, rival).map { $0 / $1 })
    let batch = Self.median(zip(ownBatch, rivalBatch).map { $0 / $1 })
    return [
      Figure(
        id: "hosts.miss", value: miss, unit: "x", bar: "<= 1.5", isMet: miss <= 1.5,
        own: "\(Self.rounded(Self.median(own))) us",
        rival: "redis-benchmark -P 1: \(Self.rounded(Self.median(rival))) us"),
      Figure(
        id: "hosts.pipeline", value: batch, unit: "x", bar: ">= 0.5", isMet: batch >= 0.5,
        own: "\(Int(Self.median(ownBatch))) values/s",
        rival: "redis-benchmark -P 100: \(Int(Self.median(rivalBatch))) /s"),
    ]
  }

  static func time(_ body: () async throws -> Void) async rethrows -> Double {
    let start = Clocks.monotonicNanoseconds()
    try await body()
    return Double(Clocks.monotonicNanoseconds() - start)
  }
}
#endif
