// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import CoreMetrics
public import LarderEngine
internal import Synchronization

extension StoreOptions {
  /// The same options, with what takes the store long timed for swift-metrics.
  ///
  /// ```swift
  /// let store = try SharedStore(at: path, StoreOptions().timed())
  /// ```
  ///
  /// | timer | what |
  /// |---|---|
  /// | `larder_commit_duration` | write transactions: from asking for the writer lock to the end of the commit; the writes of several callers may be one |
  /// | `larder_sync_duration` | syncs of a `.relaxed` store by this process |
  /// | `larder_computation_duration` | values computed under single flight by this process |
  ///
  /// Each has the dimension `store`, the store's path. What failed is timed as well. Each process times
  /// what it does itself, so let every process record: other than the store's counters, these
  /// numbers are not shared. Reads and hits are not timed, since two looks at a clock cost more than a
  /// hit; without this call nothing is.
  ///
  /// Of several handles of one store in a process the options of the first count. A timer's handler is
  /// called while the process has the writer's role: a metrics backend that waits holds writers up,
  /// and one that uses the store waits for itself.
  ///
  /// - Parameters:
  ///   - dimensions: More dimensions, for every timer.
  ///   - factory: Where to; the system's when left out, looked up now.
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
