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
      text += "# HELP \(measure.name) \(Self.escaped(measure.help, quotes: false))\n"
      text += "# TYPE \(measure.name) \(measure.kind.rawValue)\n"
      for sample in samples {
        let labels = [StoreMetric.Label("store", path)] + sample.labels
        let list = labels.map { "\($0.name)=\"\(Self.escaped($0.value, quotes: true))\"" }
        text += "\(measure.name){\(list.joined(separator: ","))} \(sample.value)\n"
      }
    }
    return text
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
