// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Metrics
public import LarderEngine
internal import Synchronization

/// The latency distributions of the stores of this process, as histograms for Prometheus.
///
/// ```swift
/// let latencies = StoreLatencies()
/// let store = try SharedStore(at: path, StoreOptions().recordingLatencies(in: latencies))
/// let page = try store.statistics().prometheusText() + latencies.prometheusText()
/// ```
///
/// | histogram | what |
/// |---|---|
/// | `larder_read_duration_seconds` | look-ups of entries in the store's file: one of ``readInterval`` |
/// | `larder_commit_duration_seconds` | all write transactions, from the request of the writer lock to the end of the commit |
/// | `larder_wait_duration_seconds` | all waits, by `kind`; kinds without a wait are absent |
/// | `larder_computation_duration_seconds` | all values computed under single flight by this process |
/// | `larder_sync_duration_seconds` | all syncs of a `.relaxed` store by this process |
///
/// The unit is seconds. Failed operations count. A value from memory is never timed: a hit costs less than
/// reading the clock. Recording uses no lock and allocates nothing.
///
/// The distributions are those of one process: record and export them in each. The counters of
/// `StoreStatistics.prometheusText()` are those of all processes: export them from one.
public final class StoreLatencies: Sendable {
  /// One of how many reads from the store's file is timed; zero means none.
  public let readInterval: Int

  private let stores = Mutex<[(path: String, monitor: LatencyMonitor)]>([])

  /// Creates empty distributions.
  ///
  /// - Parameter readInterval: One of how many reads from the store's file is timed. A timed read
  ///   costs two readings of the clock, about 50 ns. One times all of them, zero none.
  public init(readInterval: Int = 16) {
    self.readInterval = max(readInterval, 0)
  }

  /// Returns the monitor of a store. A store that is opened again continues its distributions.
  fileprivate func monitor(of path: String) -> LatencyMonitor {
    stores.withLock { stores in
      if let known = stores.first(where: { $0.path == path }) { return known.monitor }
      let monitor = LatencyMonitor(readInterval: readInterval)
      stores.append((path, monitor))
      return monitor
    }
  }

  /// The histograms in Prometheus' text format, version 0.0.4.
  ///
  /// Every sample has the label `store`, the store's path. The buckets are from 0.0000001 to 100 seconds in
  /// steps of 1, 2 and 5, and cumulative. The text has no name in common with that of
  /// `StoreStatistics.prometheusText()`, so a page can contain both.
  ///
  /// - Returns: The text; empty before the first store was opened with these distributions.
  /// - Complexity: O(number of stores).
  public func prometheusText() -> String {
    let stores = stores.withLock { $0 }
    guard !stores.isEmpty else { return "" }
    var text = ""
    for family in LatencyMonitor.families {
      let samples = stores.flatMap { path, monitor in
        family.histograms(monitor).map {
          ([StoreMetric.Label("store", path)] + $0.labels, $0.value)
        }
      }
      if samples.isEmpty { continue }
      text += PrometheusText.header(family.name, family.help, kind: "histogram")
      for (labels, snapshot) in samples { text += Self.text(family.name, labels, snapshot) }
    }
    return text
  }

  private static func text(
    _ name: String, _ labels: [StoreMetric.Label], _ snapshot: LatencyHistogram.Snapshot
  ) -> String {
    var text = ""
    var count: UInt64 = 0
    for (index, bucket) in snapshot.counts.enumerated() {
      count += bucket
      let isLast = index == LatencyHistogram.bounds.count
      let bound = isLast ? "+Inf" : PrometheusText.seconds(LatencyHistogram.bounds[index])
      let list = PrometheusText.labels(labels + [StoreMetric.Label("le", bound)])
      text += "\(name)_bucket\(list) \(count)\n"
    }
    let list = PrometheusText.labels(labels)
    text += "\(name)_sum\(list) \(PrometheusText.seconds(snapshot.sum))\n"
    text += "\(name)_count\(list) \(count)\n"
    return text
  }
}

extension StoreOptions {
  /// Returns the options with histograms of the durations of operations.
  ///
  /// ```swift
  /// let latencies = StoreLatencies()
  /// let store = try SharedStore(at: path, StoreOptions().recordingLatencies(in: latencies))
  /// ```
  ///
  /// Several stores can share the distributions; the label `store` separates them. If a process opens a
  /// store several times, the options of the first handle apply.
  ///
  /// - Parameter latencies: The distributions.
  /// - Returns: The options.
  public func recordingLatencies(in latencies: StoreLatencies) -> StoreOptions {
    var options = self
    options.monitors.append { latencies.monitor(of: $0) }
    return options
  }
}

/// The distributions of one store.
private final class LatencyMonitor: StoreMonitor {
  /// The histograms of one name.
  struct Family: Sendable {
    let name: String
    let help: String
    let histograms:
      @Sendable (LatencyMonitor) -> [(
        labels: [StoreMetric.Label], value: LatencyHistogram.Snapshot
      )]

    init(
      _ name: String, _ help: String,
      _ histogram: @escaping @Sendable (LatencyMonitor) -> LatencyHistogram
    ) {
      self.name = name
      self.help = help
      histograms = { [(labels: [], value: histogram($0).snapshot)] }
    }

    /// The waits, by kind.
    init(waits name: String, _ help: String) {
      self.name = name
      self.help = help
      histograms = { monitor in
        MonitoredWait.Kind.all.compactMap { kind in
          guard let snapshot = monitor.waits[kind]?.snapshot, snapshot.count > 0 else { return nil }
          return (labels: [StoreMetric.Label("kind", kind.name)], value: snapshot)
        }
      }
    }
  }

  static let families = [
    Family(
      "larder_read_duration_seconds",
      "Look-ups of entries in the store's file by this process, a sample of them."
    ) { $0.reads },
    Family("larder_commit_duration_seconds", "Write transactions of this process.") { $0.commits },
    Family(waits: "larder_wait_duration_seconds", "Waits of this process, by kind."),
    Family(
      "larder_computation_duration_seconds",
      "Values computed under single flight by this process."
    ) { $0.computations },
    Family("larder_sync_duration_seconds", "Syncs of a relaxed store by this process.") {
      $0.syncs
    },
  ]

  let readInterval: Int
  private let reads = LatencyHistogram(stripes: 8)
  private let commits = LatencyHistogram()
  private let computations = LatencyHistogram()
  private let syncs = LatencyHistogram()
  private let waits: [MonitoredWait.Kind: LatencyHistogram]

  init(readInterval: Int) {
    self.readInterval = readInterval
    waits = Dictionary(
      uniqueKeysWithValues: MonitoredWait.Kind.all.map { ($0, LatencyHistogram()) })
  }

  /// The computation of a value.
  private struct RunningComputation: ComputationMonitor {
    let histogram: LatencyHistogram
    func withContext<R>(_ body: () async throws -> R) async rethrows -> R { try await body() }
    func end(_ report: ComputationReport) { histogram.record(nanoseconds: report.time.nanoseconds) }
  }

  func begin(_ computation: MonitoredComputation) -> (any ComputationMonitor)? {
    RunningComputation(histogram: computations)
  }

  func ended(_ wait: WaitReport) {
    waits[wait.wait.kind]?.record(nanoseconds: wait.time.nanoseconds)
  }

  func ended(_ commit: CommitReport, contexts: [any Sendable]?) {
    commits.record(nanoseconds: commit.time.nanoseconds)
    if let wait = commit.wait { ended(wait) }
  }

  func ended(sync: OperationTime) { syncs.record(nanoseconds: sync.nanoseconds) }
  func ended(read: OperationTime) { reads.record(nanoseconds: read.nanoseconds) }
}
#endif
