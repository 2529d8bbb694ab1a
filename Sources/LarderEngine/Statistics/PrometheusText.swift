// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension StoreStatistics {
  /// The statistics in Prometheus' text format, version 0.0.4.
  ///
  /// ```swift
  /// let page = try store.statistics().prometheusText()   // "# HELP larder_hits_total …"
  /// ```
  ///
  /// Every sample has the label `store`, the store's path. Counters are those of all processes
  /// since the store was created: export a store from one process, not from each. Names and meaning
  /// are those of the product LarderMetrics; metrics of a single process are omitted.
  ///
  /// - Complexity: O(number of namespaces).
  public func prometheusText() -> String {
    var text = ""
    for measure in StoreMetric.all where !measure.isOfProcess {
      let samples = measure.samples(self)
      if samples.isEmpty { continue }
      text += PrometheusText.header(measure.name, measure.help, kind: measure.kind.rawValue)
      for sample in samples {
        let labels = PrometheusText.labels([StoreMetric.Label("store", path)] + sample.labels)
        text += "\(measure.name)\(labels) \(sample.value)\n"
      }
    }
    return text
  }
}

/// The parts of Prometheus' text format.
package enum PrometheusText {
  /// Returns the lines before the samples of a metric.
  package static func header(_ name: String, _ help: String, kind: String) -> String {
    "# HELP \(name) \(escaped(help, quotes: false))\n# TYPE \(name) \(kind)\n"
  }

  /// Returns labels in braces.
  package static func labels(_ labels: [StoreMetric.Label]) -> String {
    let list = labels.map { "\($0.name)=\"\(escaped($0.value, quotes: true))\"" }
    return "{\(list.joined(separator: ","))}"
  }

  /// Returns nanoseconds as seconds, without rounding.
  package static func seconds(_ nanoseconds: UInt64) -> String {
    let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    if rest == 0 { return "\(seconds)" }
    let digits = "\(rest)"
    var fraction = String(repeating: "0", count: 9 - digits.count) + digits
    while fraction.last == "0" { fraction.removeLast() }
    return "\(seconds).\(fraction)"
  }

  /// Escapes a text for the format: a backslash before backslashes and, in labels, quotes; no line
  /// ends.
  private static func escaped(_ text: String, quotes: Bool) -> String {
    var result = ""
    // Not characters: a carriage return and a line feed are one of them.
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\"" where quotes: result += "\\\""
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
