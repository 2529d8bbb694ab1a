// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Metrics && Tools
import CoreMetrics
import Larder
import LarderEngine
import LarderMetrics
import LarderTestSupport
import LarderTesting
import MetricsTestKit
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60)))
struct MetricsTests {
  let temporary: TemporaryStore
  let factory = TestMetrics()

  init() throws {
    // The store's thread commits nothing between two reads of the statistics.
    var options = StoreOptions(budget: .megabytes(16))
    options.sweepsWhenIdle = false
    options.idleSyncDelay = nil
    temporary = try TemporaryStore(options)
  }

  private func dimensions(_ more: (String, String)...) -> [(String, String)] {
    [("store", temporary.store.path)] + more
  }

  /// The sum a counter was increased by.
  private func total(_ name: String, _ more: (String, String)...) throws -> Int64 {
    try factory.expectCounter(name, [("store", temporary.store.path)] + more).totalValue
  }

  @Test func `Counters count what happens from now on, gauges are those of the statistics`()
    async throws
  {
    let store = temporary.store
    for key in 0..<5 { try await store.setBytes([1], forKey: key, in: "n") }
    _ = try store.bytes(forKey: 0, in: "n")
    let metrics = try StoreMetrics(store, factory: factory)
    try metrics.record()
    #expect(try total("larder_sets_total") == 0)
    #expect(try total("larder_hits_total", ("tier", "store")) == 0)

    let before = try store.statistics()
    for key in 0..<3 { try await store.setBytes([2], forKey: key, in: "n") }
    for key in 0..<9 { _ = try store.bytes(forKey: key, in: "n") }
    try await store.remove(forKey: 4, in: "n")
    let cache = PersistentCache<String, Int>(storage: store, namespace: "values")
    _ = try await cache.value(forKey: "sum") { 42 }
    try await store.sync()
    let after = try store.statistics()
    try metrics.record()
    try metrics.record()  // Nothing is counted twice.

    func grown(_ count: KeyPath<StoreStatistics, Int>) -> Int64 {
      Int64(after[keyPath: count] - before[keyPath: count])
    }
    #expect([grown(\.sets), grown(\.storeHits), grown(\.removals)] == [4, 5, 1])
    #expect(try total("larder_sets_total") == grown(\.sets))
    #expect(try total("larder_hits_total", ("tier", "store")) == grown(\.storeHits))
    #expect(try total("larder_hits_total", ("tier", "memory")) == grown(\.memoryHits))
    #expect(try total("larder_misses_total") == grown(\.misses))
    #expect(try total("larder_removals_total") == grown(\.removals))
    #expect(try total("larder_commits_total") == grown(\.commits))
    #expect(try total("larder_computations_total") == 1)

    func gauge(_ name: String, _ more: (String, String)...) throws -> Int? {
      try factory.expectGauge(name, [("store", store.path)] + more).lastValue.map { Int($0) }
    }
    #expect(try gauge("larder_entries") == after.entries)
    #expect(try gauge("larder_stored_bytes") == after.bytes)
    #expect(try gauge("larder_budget_bytes") == 16 << 20)
    #expect(try gauge("larder_file_bytes") == after.fileBytes)
    #expect(try gauge("larder_processes") == 1)
    #expect(try gauge("larder_pending_writes") == 0)
    #expect(try gauge("larder_namespace_entries", ("namespace", "n")) == 4)
    #expect(try gauge("larder_namespace_entries", ("namespace", "values")) == 1)
  }

  @Test func `What another process does counts as well`() throws {
    let store = temporary.store
    let metrics = try StoreMetrics(store, factory: factory)
    let tool = try TestExecutable.tool
    for key in ["a", "b"] {
      let outcome = try ChildProcess.run(
        tool.path, ["set", "--store", temporary.path, key, "value"])
      #expect(outcome.status.isSuccess, "\(outcome.standardError)")
    }
    try metrics.record()
    #expect(try total("larder_sets_total") == 2)
  }

  @Test func `Every name of the list is recorded and no other, with the dimensions given`() throws {
    try temporary.store.setBytes([1], forKey: 1)
    let metrics = try StoreMetrics(
      temporary.store, dimensions: [("service", "mail")], factory: factory)
    try metrics.record()
    let recorded = factory.counters.map(\.label) + factory.recorders.map(\.label)
    #expect(Set(recorded) == Set(StoreMetric.all.filter { !$0.isOfSomeStores }.map(\.name)))
    for counter in factory.counters {
      #expect(counter.label.hasSuffix("_total"))
      #expect(counter.dimensions.map(\.0).prefix(2) == ["store", "service"])
    }
    for gauge in factory.recorders {
      #expect(!gauge.label.hasSuffix("_total"))
      #expect(gauge.dimensions.map(\.1).prefix(2) == [temporary.store.path, "mail"])
    }
  }

  @Test func `What is not on the disk of a relaxed store is a gauge`() throws {
    var options = StoreOptions(durability: .relaxed, syncInterval: .seconds(3600))
    options.idleSyncDelay = nil
    let relaxed = try TemporaryStore(options)
    let metrics = try StoreMetrics(relaxed.store, factory: factory)
    func gauge(_ name: String) throws -> Int? {
      try metrics.record()
      return try factory.expectGauge(name, [("store", relaxed.store.path)]).lastValue.map {
        Int($0)
      }
    }
    // The log begins after the first commit, which needs a checkpoint.
    try relaxed.store.setBytes([0], forKey: 0)
    try relaxed.store.sync()
    #expect(try gauge("larder_unsynced_commits") == 0)
    for key in 0..<3 { try relaxed.store.setBytes([1], forKey: key) }
    #expect(try gauge("larder_unsynced_commits") == 3)
    #expect(try gauge("larder_sync_interval_milliseconds") == 3_600_000)
    try relaxed.store.sync()
    #expect(try gauge("larder_unsynced_commits") == 0)
  }

  @Test func `The article lists every name with its kind`() throws {
    let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
    let article =
      root.joined(separator: "/") + "/Sources/LarderMetrics/LarderMetrics.docc/LarderMetrics.md"
    let text = String(decoding: try TestFiles.contents(of: article), as: UTF8.self)
    let rows = text.split(separator: "\n").filter { $0.hasPrefix("| `larder_") }
    let named = rows.map { row in
      row.split(separator: "|").prefix(2).map {
        $0.filter { $0 != " " && $0 != "`" }
      }
    }
    let timers = ["commit", "sync", "computation", "wait"].map {
      ["larder_\($0)_duration", "timer"]
    }
    let histograms = ["read", "commit", "wait", "computation", "sync"].map {
      ["larder_\($0)_duration_seconds", "histogram"]
    }
    #expect(named == StoreMetric.all.map { [$0.name, $0.kind.rawValue] } + timers + histograms)
  }

  @Test func `Replaced files do not make counters count again`() throws {
    let store = temporary.store
    let metrics = try StoreMetrics(store, factory: factory)
    for key in 0..<10 { try store.setBytes([1], forKey: key) }
    try metrics.record()
    try store.compact()
    try metrics.record()
    #expect(try total("larder_sets_total") == 10)
    try store.setBytes([1], forKey: 1)
    try metrics.record()
    #expect(try total("larder_sets_total") == 11)
    let generation = try factory.expectGauge("larder_generation", dimensions())
    #expect(generation.values == [1, 2, 2])
  }

  @Test func `A budget set later and namespaces that are removed`() throws {
    let temporary = try TemporaryStore(StoreOptions(durability: .durable))
    try temporary.store.setBytes([1], forKey: 1, in: "n")
    let metrics = try StoreMetrics(temporary.store, namespaces: false, factory: factory)
    try metrics.record()
    let names = Set(factory.recorders.map(\.label))
    #expect(!names.contains("larder_budget_bytes"))
    #expect(!names.contains { $0.hasPrefix("larder_namespace_") })
    let other = try SharedStore(
      at: temporary.path, StoreOptions(durability: .durable, budget: .megabytes(4)))
    defer { other.close() }
    try metrics.record()
    let budget = try #require(factory.recorders(label: "larder_budget_bytes").first)
    #expect(budget.lastValue == Double(4 << 20))
  }

  @Test func `With the recorder its metrics go`() throws {
    do {
      let metrics = try StoreMetrics(temporary.store, factory: factory)
      try metrics.record()
      #expect(!factory.counters.isEmpty && !factory.recorders.isEmpty)
    }
    #expect(factory.counters.isEmpty && factory.recorders.isEmpty)
  }

  @Test func `A closed store is an error of a record and the end of a run`() async throws {
    let store = temporary.store
    let metrics = try StoreMetrics(store, factory: factory)
    let turns = Turns { turn in
      if turn < 3 { try store.setBytes([1], forKey: turn) } else { store.close() }
    }
    try await metrics.run(every: .seconds(15), pause: { try turns.pass($0) })
    #expect(turns.waited == [.seconds(15), .seconds(15), .seconds(15)])
    #expect(try total("larder_sets_total") == 2)
    let error = #expect(throws: StoreError.self) { try metrics.record() }
    #expect(error?.code == .closed)
  }

  @Test func `A run ends when its task is cancelled`() async throws {
    let metrics = try StoreMetrics(temporary.store, factory: factory)
    let turns = Turns { turn in if turn == 2 { throw CancellationError() } }
    try await metrics.run(every: .milliseconds(1), pause: { try turns.pass($0) })
    #expect(turns.waited.count == 2)
    let generation = try factory.expectGauge("larder_generation", dimensions())
    #expect(generation.values.count == 2)
  }

  @Test(arguments: [Duration.zero, .seconds(-1)])
  func `An interval that would never wait is refused`(interval: Duration) async throws {
    let metrics = try StoreMetrics(temporary.store, factory: factory)
    let error = await #expect(throws: StoreError.self) { try await metrics.run(every: interval) }
    #expect(error?.code == .invalidOption)
  }
}

/// Pauses that take no time: each is a step of the test.
private final class Turns: Sendable {
  private let turns = Mutex<[Duration]>([])
  private let turn: @Sendable (Int) throws -> Void

  init(_ turn: @escaping @Sendable (Int) throws -> Void) { self.turn = turn }

  var waited: [Duration] { turns.withLock { $0 } }

  func pass(_ interval: Duration) throws {
    let number = turns.withLock { turns in
      turns.append(interval)
      return turns.count
    }
    try turn(number)
  }
}
#endif
