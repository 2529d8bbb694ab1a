// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Metrics
public import CoreMetrics
public import LarderEngine
internal import Synchronization

/// A reporter of a store's statistics to swift-metrics.
///
/// ```swift
/// let metrics = try StoreMetrics(store)
/// try await metrics.run(every: .seconds(15))      // in a separate task; or metrics.record()
/// ```
///
/// It does not change the cost of reads and writes: ``record()`` reads the statistics that the store
/// always maintains. The values are sums over all processes that share the store, so *one* process
/// records them; several would report them several times.
///
/// Counters start at the creation of this object. Every metric has the dimension `store`, the store's
/// path. The names are those of `larder stat --prometheus`; LarderMetrics' article lists them.
/// `StoreOptions.recordingTimings()` adds timers, which measure one process.
///
/// The object retains the store's handle. Its deallocation destroys its metrics in the metrics
/// system.
public final class StoreMetrics: Sendable {
  private struct Key: Hashable {
    let name: String
    let labels: [StoreMetric.Label]
  }

  private struct State {
    var generation: UInt64 = 0
    var counters: [Key: (counter: CoreMetrics.Counter, highest: Int)] = [:]
    var gauges: [Key: Gauge] = [:]
  }

  private let store: SharedStore
  private let measures: [StoreMetric]
  private let dimensions: [(String, String)]
  private let factory: any MetricsFactory
  private let state = Mutex(State())

  /// Creates a reporter, with the present counter values as zero. It records no metric yet.
  ///
  /// - Parameters:
  ///   - store: The store.
  ///   - namespaces: Whether to report gauges for each namespace. Pass `false` if a program creates an
  ///     unbounded number of namespaces, for example one for each user.
  ///   - dimensions: Additional dimensions of every metric.
  ///   - factory: The metrics factory, or `nil` for that of the metrics system.
  /// - Throws: ``/LarderEngine/StoreError`` if the store cannot be read.
  public init(
    _ store: SharedStore, namespaces: Bool = true, dimensions: [(String, String)] = [],
    factory: (any MetricsFactory)? = nil
  ) throws {
    self.store = store
    self.measures = StoreMetric.all.filter { namespaces || !$0.isOfNamespaces }
    self.dimensions = [("store", store.path)] + dimensions
    self.factory = factory ?? MetricsSystem.factory
    let statistics = try store.statistics()
    state.withLock { state in
      state.generation = statistics.generation
      for measure in measures where measure.kind == .counter {
        for sample in measure.samples(statistics) {
          let key = Key(name: measure.name, labels: sample.labels)
          let counter = CoreMetrics.Counter(
            label: key.name, dimensions: allDimensions(key), factory: self.factory)
          state.counters[key] = (counter, sample.value)
        }
      }
    }
  }

  deinit {
    state.withLock { state in
      for (counter, _) in state.counters.values { counter.destroy() }
      for gauge in state.gauges.values { gauge.destroy() }
    }
  }

  /// Reads the statistics and records every counter and gauge.
  ///
  /// May be called from any thread. It reads the store's file: cheap, but not for the main thread.
  ///
  /// - Throws: ``/LarderEngine/StoreError``; its code is `closed` when the store was closed.
  /// - Complexity: O(number of namespaces).
  public func record() throws {
    // Not under the lock: reading may call the store's handlers, and those may call this.
    let statistics = try store.statistics()
    state.withLock { state in
      // Read before the files were replaced, by a thread that was overtaken.
      guard statistics.generation >= state.generation else { return }
      let isOfNewFiles = statistics.generation > state.generation
      state.generation = statistics.generation
      var gauges: Set<Key> = []
      for measure in measures {
        for sample in measure.samples(statistics) {
          let key = Key(name: measure.name, labels: sample.labels)
          switch measure.kind {
          case .counter: count(sample.value, key, isOfNewFiles: isOfNewFiles, &state)
          case .gauge:
            gauges.insert(key)
            gauge(key, &state).record(sample.value)
          }
        }
      }
      // Namespaces that are gone, a budget that was lifted: their last values would stay for ever.
      for key in state.gauges.keys where !gauges.contains(key) {
        state.gauges.removeValue(forKey: key)?.destroy()
      }
    }
  }

  /// Records at once and then at every interval, until the task is cancelled or the store closed.
  ///
  /// It returns then. Other errors go to the store's `onError`, and the next interval tries again.
  ///
  /// - Throws: `StoreError` with the code `invalidOption` when the interval is not positive.
  @concurrent
  public func run(every interval: Duration) async throws {
    try await run(every: interval, pause: { try await BlockingWork.sleep(for: $0) })
  }

  /// ``run(every:)`` with another way to wait, for tests.
  package func run(
    every interval: Duration, pause: @Sendable (Duration) async throws -> Void
  ) async throws {
    guard interval > .zero else {
      throw StoreError(
        .invalidOption, during: "record metrics", path: store.path,
        "An interval of \(interval) would never wait. Give one of some seconds.")
    }
    while !Task.isCancelled {
      do {
        try record()
      } catch let error as StoreError where error.code == .closed {
        return
      } catch {
        store.core.report(error)
      }
      // The only error of a sleep is that the task was cancelled.
      do { try await pause(interval) } catch { return }
    }
  }

  private func allDimensions(_ key: Key) -> [(String, String)] {
    dimensions + key.labels.map { ($0.name, $0.value) }
  }

  /// A store's count may be seen a little too low while a process goes, or start again with new
  /// files. A counter must neither count twice what it counted before nor go back.
  private func count(_ value: Int, _ key: Key, isOfNewFiles: Bool, _ state: inout State) {
    guard let (counter, highest) = state.counters[key] else { return }
    if value > highest { counter.increment(by: value - highest) }
    state.counters[key]?.highest = isOfNewFiles ? value : max(value, highest)
  }

  private func gauge(_ key: Key, _ state: inout State) -> Gauge {
    if let gauge = state.gauges[key] { return gauge }
    let gauge = Gauge(label: key.name, dimensions: allDimensions(key), factory: factory)
    state.gauges[key] = gauge
    return gauge
  }
}
#endif
