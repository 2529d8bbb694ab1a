// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Metrics && Tools
import Larder
import LarderEngine
import LarderMetrics
import LarderTestSupport
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct HistogramTests {
  /// The store's thread begins no transaction that a test counts.
  private func quiet(_ latencies: StoreLatencies) -> StoreOptions {
    var options = StoreOptions()
    options.sweepsWhenIdle = false
    options.idleSyncDelay = nil
    return options.recordingLatencies(in: latencies)
  }

  @Test func `A duration belongs to the first bucket whose bound is not lower`() {
    let bounds = LatencyHistogram.bounds
    #expect(bounds.count == 28)
    #expect(bounds.prefix(5) == [100, 200, 500, 1000, 2000])
    #expect(bounds.last == 100_000_000_000)
    #expect(zip(bounds, bounds.dropFirst()).allSatisfy(<))
    for (index, bound) in bounds.enumerated() {
      #expect(LatencyHistogram.bucket(of: bound - 1) == index)
      #expect(LatencyHistogram.bucket(of: bound) == index)
      #expect(LatencyHistogram.bucket(of: bound + 1) == index + 1)
    }
    #expect(LatencyHistogram.bucket(of: 0) == 0)
    #expect(LatencyHistogram.bucket(of: .max) == 28)
  }

  @Test func `Counts and sums are exact, also of many threads`() {
    for stripes in [1, 8] {
      let histogram = LatencyHistogram(stripes: stripes)
      let threads = (0..<4).map { thread in
        JoinableThread {
          for value in 0..<10_000 { histogram.record(nanoseconds: UInt64(value * 4 + thread)) }
        }
      }
      for thread in threads { thread.join() }
      let snapshot = histogram.snapshot
      #expect(snapshot.count == 40_000)
      #expect(snapshot.sum == 39_999 * 40_000 / 2)
      // 0 to 100, 101 to 200, ... 20,001 to 39,999.
      #expect(
        snapshot.counts.prefix(10) == [101, 100, 300, 500, 1000, 3000, 5000, 10_000, 19_999, 0])
    }
  }

  @Test func `Seconds are written without rounding`() {
    #expect(PrometheusText.seconds(0) == "0")
    #expect(PrometheusText.seconds(100) == "0.0000001")
    #expect(PrometheusText.seconds(1_500_000_000) == "1.5")
    #expect(PrometheusText.seconds(100_000_000_000) == "100")
    #expect(PrometheusText.seconds(9_007_199_254_740_993) == "9007199.254740993")
  }

  @Test func `Every commit and computation is counted, and the text is Prometheus' format`()
    async throws
  {
    let latencies = StoreLatencies(readInterval: 1)
    #expect(latencies.prometheusText().isEmpty)
    let temporary = try TemporaryStore(quiet(latencies))
    let store = temporary.store
    let before = try store.statistics().commits
    for key in 0..<20 { try await store.setBytes([1], forKey: key) }
    for key in 0..<7 { _ = try store.bytes(forKey: key) }
    let cache = PersistentCache<String, Int>(storage: store, namespace: "values")
    for _ in 0..<3 { _ = try await cache.value(forKey: "a") { 1 } }
    try cache.sync()

    let committed = try store.statistics().commits - before
    let page = try HistogramPage(latencies.prometheusText())
    #expect(
      page.names == [
        "larder_read_duration_seconds", "larder_commit_duration_seconds",
        "larder_computation_duration_seconds", "larder_sync_duration_seconds",
      ])
    let labels = ["store": store.path]
    let commits = try page.histogram("larder_commit_duration_seconds", labels)
    // Transactions of the store's maintenance that commit nothing are measured as well.
    #expect(commits.count >= committed)
    #expect(commits.sum > 0)
    #expect(try page.histogram("larder_computation_duration_seconds", labels).count == 1)
    #expect(try page.histogram("larder_sync_duration_seconds", labels).count == 0)
    // Those of bytes, and of the key that was computed.
    #expect(try page.histogram("larder_read_duration_seconds", labels).count >= 8)
    for name in page.names {
      let histogram = try page.histogram(name, labels)
      #expect(histogram.buckets.count == 29)
      #expect(histogram.buckets.last?.bound == .infinity)
      #expect(histogram.buckets.last?.count == histogram.count)
      #expect(
        zip(histogram.buckets, histogram.buckets.dropFirst()).allSatisfy { pair in
          pair.0.bound < pair.1.bound && pair.0.count <= pair.1.count
        })
      let bounds = LatencyHistogram.bounds.map { Double($0) / 1e9 }
      #expect(histogram.buckets.dropLast().map(\.bound) == bounds)
    }
    // Both texts can be one page.
    let statistics = try store.statistics().prometheusText()
    #expect(page.names.allSatisfy { !statistics.contains($0) })
  }

  @Test(arguments: [(0, 0), (1, 4096), (16, 256), (-5, 0)])
  func `One of the given number of reads is timed, and no hit in memory`(
    interval: Int, timed: Int
  ) throws {
    let latencies = StoreLatencies(readInterval: interval)
    let temporary = try TemporaryStore(quiet(latencies))
    try temporary.store.setBytes([1], forKey: 1)
    for _ in 0..<4096 { _ = try temporary.store.bytes(forKey: 1) }
    func reads() throws -> Int {
      try HistogramPage(latencies.prometheusText())
        .histogram("larder_read_duration_seconds", ["store": temporary.store.path]).count
    }
    #expect(try reads() == timed)
    let cache = PersistentCache<Int, Int>(storage: temporary.store, namespace: "memory")
    try cache.setValue(7, forKey: 1)
    let before = try reads()
    for _ in 0..<1000 { #expect(cache[1] == 7) }
    #expect(try reads() == before)
  }

  @Test func `Paths of any characters are labels, and stores have separate histograms`() throws {
    let latencies = StoreLatencies()
    let directory = try TemporaryDirectory()
    let paths = ["a \"quoted\" \\ one", "two\nlines"].map { directory.appending($0) }
    let stores = try paths.map {
      try SharedStore(at: $0, quiet(latencies))
    }
    defer { for store in stores { store.close() } }
    for (index, store) in stores.enumerated() {
      for key in 0...index { try store.setBytes([1], forKey: key) }
    }
    let page = try HistogramPage(latencies.prometheusText())
    for (index, store) in stores.enumerated() {
      let commits = try page.histogram("larder_commit_duration_seconds", ["store": store.path])
      #expect(commits.count == index + 1)
    }
  }

  @Test func `A store that is opened again continues its histograms`() throws {
    let latencies = StoreLatencies()
    let temporary = try TemporaryStore(quiet(latencies))
    for _ in 0..<3 {
      try temporary.store.setBytes([1], forKey: 1)
      try temporary.reopen()
    }
    let page = try HistogramPage(latencies.prometheusText())
    #expect(
      try page.histogram("larder_commit_duration_seconds", ["store": temporary.store.path]).count
        >= 3)
  }

  @Test func `Histograms are of one process, counters of all, and waits for another are timed`()
    async throws
  {
    let latencies = StoreLatencies()
    let temporary = try TemporaryStore(quiet(latencies))
    let store = temporary.store
    let before = try store.statistics().commits
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(temporary.path)").hasPrefix("opened "))
    for key in 0..<5 { #expect(try peer.ask("set \(key) text") == "ok") }
    try await store.setBytes([1], forKey: 1, in: "own")
    #expect(try store.statistics().commits - before == 6)
    let labels = ["store": store.path]
    let first = try HistogramPage(latencies.prometheusText())
    #expect(try first.histogram("larder_commit_duration_seconds", labels).count == 1)
    #expect(!first.names.contains("larder_wait_duration_seconds"))

    #expect(try peer.ask("lock a").hasPrefix("holding "))
    let task = Task { try await store.lock("a").withLock(timeout: .seconds(600)) { _ in } }
    try await awaitEventually("the task waits") {
      try store.locks().first { $0.name == "a" }?.waiters.count == 1
    }
    try peer.send("go")
    try await task.value
    let second = try HistogramPage(latencies.prometheusText())
    let wait = ["store": store.path, "kind": "lock"]
    #expect(try second.histogram("larder_wait_duration_seconds", wait).count == 1)
    #expect(try second.histogram("larder_wait_duration_seconds", wait).sum > 0)
  }
}
#endif
