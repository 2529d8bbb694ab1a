// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Metrics
import Synchronization

/// The metrics of this process in memory, for a page in the text format of Prometheus.
///
/// Programs that have a backend of swift-metrics use that instead, and for one that pushes, run
/// `StoreMetrics(store).run(every:)` in one of the processes, for example the one that leads
/// `store.leader("metrics")`.
final class MetricsRegistry: MetricsFactory {
  private let values = Mutex<[Label: Double]>([:])

  fileprivate struct Label: Hashable {
    let name: String
    let labels: String
  }

  /// Returns one line for each metric.
  ///
  /// - Parameter labels: Labels to add to each.
  func text(labels: [(String, String)]) -> String {
    let added = labels.map { ",\($0)=\"\($1)\"" }.joined()
    let lines = values.withLock { values in
      values.map { "\($0.name){\(($0.labels + added).drop { $0 == "," })} \($1)\n" }
    }
    return lines.sorted().joined()
  }

  fileprivate func change(_ label: Label, _ body: (inout Double) -> Void) {
    values.withLock { body(&$0[label, default: 0]) }
  }

  private func metric(_ name: String, _ dimensions: [(String, String)]) -> Metric {
    Metric(registry: self, name: name, dimensions: dimensions)
  }

  func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    metric(label, dimensions)
  }
  func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    metric(label, dimensions)
  }
  func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    metric(label, dimensions)
  }
  func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    metric(label, dimensions)
  }
  func destroyCounter(_ handler: any CounterHandler) {}
  func destroyMeter(_ handler: any MeterHandler) {}
  func destroyTimer(_ handler: any TimerHandler) {}
  func destroyRecorder(_ handler: any RecorderHandler) {}
}

/// A metric of any kind: its last value, or for counters and timers the sum and the number of all.
private final class Metric: CounterHandler, MeterHandler, TimerHandler, RecorderHandler {
  private let registry: MetricsRegistry
  private let name: String
  private let labels: String

  init(registry: MetricsRegistry, name: String, dimensions: [(String, String)]) {
    self.registry = registry
    self.name = String(name.map { $0.isLetter || $0.isNumber ? $0 : "_" })
    labels = dimensions.map { name, value in
      ",\(String(name.map { $0.isLetter || $0.isNumber ? $0 : "_" }))=\"\(value)\""
    }.joined()
  }

  private func change(_ suffix: String = "", _ body: (inout Double) -> Void) {
    registry.change(.init(name: name + suffix, labels: labels), body)
  }

  func increment(by amount: Int64) { change { $0 += Double(amount) } }
  func increment(by amount: Double) { change { $0 += amount } }
  func decrement(by amount: Double) { change { $0 -= amount } }
  func reset() { change { $0 = 0 } }
  func set(_ value: Int64) { change { $0 = Double(value) } }
  func set(_ value: Double) { change { $0 = value } }
  func record(_ value: Int64) { change { $0 = Double(value) } }
  func record(_ value: Double) { change { $0 = value } }
  func recordNanoseconds(_ duration: Int64) {
    change("_seconds_count") { $0 += 1 }
    change("_seconds_sum") { $0 += Double(duration) / 1e9 }
  }
}
