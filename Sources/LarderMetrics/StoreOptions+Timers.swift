// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

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
  ///
  /// Each timer has the dimension `store`, the store's path. Failed operations are timed as well. Each
  /// process measures its operations, so every process records them: unlike the store's counters, the
  /// timers are not shared. Reads are not timed, because reading a clock twice costs more than a hit.
  ///
  /// If a process opens a store several times, the options of the first handle apply. A timer's
  /// handler is called while the process is the commit leader: a metrics backend that waits delays
  /// writers, and one that uses the store waits for itself.
  ///
  /// - Parameters:
  ///   - dimensions: Additional dimensions of every timer.
  ///   - factory: The metrics factory, or `nil` for the present one of the metrics system.
  /// - Returns: The options.
  public func recordingTimings(
    dimensions: [(String, String)] = [], factory: (any MetricsFactory)? = nil
  ) -> StoreOptions {
    let timers = StoreTimers(dimensions, factory ?? MetricsSystem.factory)
    var options = self
    let before = options.onTiming
    options.onTiming = { operation, nanoseconds, path in
      timers.timer(operation, path).recordNanoseconds(Int64(clamping: nanoseconds))
      before?(operation, nanoseconds, path)
    }
    return options
  }
}

/// The timers made so far; destroyed in the metrics system when the last store with the options went.
private final class StoreTimers: Sendable {
  private struct Key: Hashable {
    let operation: TimedOperation
    let path: String
  }

  private let dimensions: [(String, String)]
  private let factory: any MetricsFactory
  private let timers = Mutex<[Key: CoreMetrics.Timer]>([:])

  init(_ dimensions: [(String, String)], _ factory: any MetricsFactory) {
    self.dimensions = dimensions
    self.factory = factory
  }

  deinit {
    timers.withLock { timers in
      for timer in timers.values { timer.destroy() }
    }
  }

  func timer(_ operation: TimedOperation, _ path: String) -> CoreMetrics.Timer {
    timers.withLock { timers in
      let key = Key(operation: operation, path: path)
      if let timer = timers[key] { return timer }
      let name =
        switch operation {
        case .commit: "larder_commit_duration"
        case .sync: "larder_sync_duration"
        case .computation: "larder_computation_duration"
        }
      let timer = CoreMetrics.Timer(
        label: name, dimensions: [("store", path)] + dimensions, factory: factory)
      timers[key] = timer
      return timer
    }
  }
}
