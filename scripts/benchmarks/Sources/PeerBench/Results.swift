// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// What was measured: printed at once, and kept as lines of JSON.
final class Results {
  private(set) var figures: [Figure] = []
  private var lines: [[String: Any]] = []
  let isQuick: Bool
  private let json: String?

  /// - Parameter json: The file that `save()` writes, if any.
  init(isQuick: Bool, json: String? = nil) {
    self.isQuick = isQuick
    self.json = json
    lines.append(["kind": "machine", "text": Machine.description, "quick": isQuick])
  }

  /// Numbers as they are read: nobody needs nine digits.
  private func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }

  func add(_ figure: Figure) {
    figures.append(figure)
  }

  /// A rival that should have been there.
  func absent(_ name: String, _ reason: String) {
    Child.say("\(name) is absent: \(reason).")
    lines.append(["kind": "absent", "contender": name, "reason": reason])
  }

  /// A part that ended with an error.
  func failed(_ name: String, _ reason: String) {
    Child.say("\nFAILED: \(name): \(reason)")
    lines.append(["kind": "failed", "part": name, "reason": reason])
  }

  /// What is true of a run and not a number.
  func note(_ text: String) {
    Child.say(text)
    lines.append(["kind": "note", "text": text])
  }

  /// The rows of a contest, with their ratios to the first.
  func add(_ rows: [ComparisonRun.Row], _ workload: String, size: Int) {
    Child.say("\n\(workload)\n" + Self.heading)
    for row in rows {
      let (time, ratio, medians) = (row.latencies, row.times(rows[0]), row.medianTimes(rows[0]))
      Child.say(
        Self.row(row.name, time)
          + String(
            format: "%10.2f  (%.2f to %.2f)  %.2f", ratio.value, ratio.spread.lowerBound,
            ratio.spread.upperBound, medians.value))
      add(
        row.name, workload, size: size, time,
        [
          "ratio": rounded(ratio.value), "ratio_low": rounded(ratio.spread.lowerBound),
          "ratio_high": rounded(ratio.spread.upperBound), "median_ratio": rounded(medians.value),
        ])
    }
  }

  /// Latencies that have no ratio.
  func add(
    _ name: String, _ workload: String, size: Int, _ samples: [UInt32], label: String? = nil
  ) {
    let time = Latencies(samples)
    Child.say(Self.row(label ?? name, time))
    add(name, workload, size: size, time, [:])
  }

  private func add(
    _ name: String, _ workload: String, size: Int, _ time: Latencies, _ more: [String: Any]
  ) {
    let line: [String: Any] = [
      "kind": "latency", "workload": workload, "contender": name, "size": size,
      "samples": time.count, "mean_ns": rounded(time.mean), "median_ns": time.median,
      "p99_ns": time.p99, "p999_ns": time.p999, "max_ns": time.maximum,
    ]
    lines.append(line.merging(more) { $1 })
  }

  /// A point of a curve.
  func point(_ chart: String, _ series: String, x: Double, _ y: Double, unit: String) {
    lines.append([
      "kind": "point", "chart": chart, "series": series, "x": x, "y": rounded(y), "unit": unit,
      "cores": ProcessInfo.processInfo.activeProcessorCount,
    ])
  }

  func hitRatio(_ trace: String, capacity: Int, _ policy: String, _ percent: Double) {
    lines.append([
      "kind": "hit_ratio", "trace": trace, "capacity": capacity, "policy": policy,
      "percent": rounded(percent),
    ])
  }

  /// How a curve grows, by both laws.
  func fit(_ measure: String, by x: String, _ fit: Fit) {
    lines.append([
      "kind": "fit", "measure": measure, "by": x, "exponent": rounded(fit.exponent),
      "factor": fit.factor, "base": fit.base, "per_decade": rounded(fit.perDecade),
      "law": fit.isPower ? "power" : "logarithm",
    ])
  }

  func trace(
    _ trace: String, capacity: Int, requests: Int, hitPercent: Double, nanoseconds: Double,
    savedSeconds: Double, backEndMilliseconds: Double
  ) {
    lines.append([
      "kind": "trace", "trace": trace, "capacity": capacity, "requests": requests,
      "hit_percent": rounded(hitPercent), "mean_ns": rounded(nanoseconds),
      "saved_s": rounded(savedSeconds), "back_end_ms": backEndMilliseconds,
    ])
  }

  /// Writes what there is so far: a suite that fails, or is ended, has not run for nothing.
  func save() throws {
    guard let path = json else { return }
    var text = ""
    for figure in figures { text += try figure.json() + "\n" }
    for line in lines {
      let data = try JSONSerialization.data(
        withJSONObject: line, options: [.sortedKeys, .withoutEscapingSlashes])
      text += String(decoding: data, as: UTF8.self) + "\n"
    }
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
  }

  static let heading =
    pad("", 32) + ["median", "p99", "p99.9", "max", "mean"].map { right($0, 11) }.joined()
    + "   times as long (quartiles), medians"

  private static func row(_ name: String, _ time: Latencies) -> String {
    pad(name, 32)
      + [time.median, time.p99, time.p999, time.maximum, time.mean].map { right(duration($0), 11) }
      .joined()
  }

  static func duration(_ nanoseconds: Double) -> String {
    switch nanoseconds {
    case ..<1000: String(format: "%.0f ns", nanoseconds)
    case ..<1e6: String(format: "%.2f us", nanoseconds / 1e3)
    case ..<1e9: String(format: "%.2f ms", nanoseconds / 1e6)
    default: String(format: "%.2f s", nanoseconds / 1e9)
    }
  }

  static func pad(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(width - text.count, 1))
  }

  static func right(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(width - text.count, 1)) + text
  }
}
