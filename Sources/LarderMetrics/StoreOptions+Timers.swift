// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Metrics
public import CoreMetrics
public import LarderEngine
internal import Synchronization

extension StoreOptions {
  /// Returns the options with timers of slow operations for swift-metrics.
  ///
  /// ```swift
  /// let store = try SharedStore(at: path, StoreOptions().recordingTimings())
  /// ```
  ///
  /// | timer | what |
  /// |---|---|
  /// | `larder_commit_duration` | write transactions, from the request of the writer lock to the end of the commit; one transaction may contain the writes of several callers |
  /// | `larder_sync_duration` | syncs of a `.relaxed` store by this process |
  /// | `larder_computation_duration` | values computed under single flight by this process |
  /// | `larder_wait_duration` | waits for other processes and tasks; the dimension `kind` is what was waited for |
  ///
  /// Each timer has the dimension `store`, the store's path. Failed operations are timed as well. Each
  /// process measures its operations, so every process records them: unlike the store's counters, the
  /// timers are not shared. Reads are not timed; ``StoreLatencies`` samples them.
  ///
  /// If a process opens a store several times, the options of the first handle apply. A timer's
  /// handler is called while the process is the commit leader: a metrics backend that waits delays
  /// the writers of this process, and one that uses the store waits for itself.
  ///
  /// - Parameters:
  ///   - dimensions: Additional dimensions of every timer.
  ///   - factory: The metrics factory, or `nil` for the present one of the metrics system.
  /// - Returns: The options.
  public func recordingTimings(
    dimensions: [(String, String)] = [], factory: (any MetricsFactory)? = nil
  ) -> StoreOptions {
    let factory = factory ?? MetricsSystem.factory
    var options = self
    options.monitors.append { path in
      StoreTimers([("store", path)] + dimensions, factory)
    }
    return options
  }
}

/// The timers of a store; destroyed in the metrics system with the store.
private final class StoreTimers: StoreMonitor {
  private enum Operation: Hashable {
    case commit
    case sync
    case computation
    case wait(MonitoredWait.Kind)

    var name: String {
      switch self {
      case .commit: "larder_commit_duration"
      case .sync: "larder_sync_duration"
      case .computation: "larder_computation_duration"
      case .wait: "larder_wait_duration"
      }
    }
  }

  private let dimensions: [(String, String)]
  private let factory: any MetricsFactory
  private let timers = Mutex<[Operation: CoreMetrics.Timer]>([:])

  init(_ dimensions: [(String, String)], _ factory: any MetricsFactory) {
    self.dimensions = dimensions
    self.factory = factory
  }

  deinit {
    timers.withLock { timers in
      for timer in timers.values { timer.destroy() }
    }
  }

  private func record(_ operation: Operation, _ time: OperationTime) {
    let timer = timers.withLock { timers in
      if let timer = timers[operation] { return timer }
      var dimensions = dimensions
      if case .wait(let kind) = operation { dimensions.append(("kind", kind.name)) }
      let timer = CoreMetrics.Timer(
        label: operation.name, dimensions: dimensions, factory: factory)
      timers[operation] = timer
      return timer
    }
    timer.recordNanoseconds(Int64(clamping: time.nanoseconds))
  }

  /// The computation of a value.
  private struct RunningComputation: ComputationMonitor {
    let timers: StoreTimers
    func withContext<R>(_ body: () async throws -> R) async rethrows -> R { try await body() }
    func end(_ report: ComputationReport) { timers.record(.computation, report.time) }
  }

  func begin(_ computation: MonitoredComputation) -> (any ComputationMonitor)? {
    RunningComputation(timers: self)
  }

  func ended(_ wait: WaitReport) { record(.wait(wait.wait.kind), wait.time) }

  func ended(_ commit: CommitReport, contexts: [any Sendable]?) {
    record(.commit, commit.time)
    if let wait = commit.wait { ended(wait) }
  }

  func ended(sync: OperationTime) { record(.sync, sync) }
}
#endif
