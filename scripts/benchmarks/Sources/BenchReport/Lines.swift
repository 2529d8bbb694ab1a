// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A line of JSON that a suite wrote.
struct Line {
  private var fields: [String: Any]

  static func read(_ path: String) throws -> [Line] {
    let text = try String(contentsOfFile: path, encoding: .utf8)
    return try text.split(separator: "\n").map { line in
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
      guard let fields = object as? [String: Any] else {
        throw ReportFailure("\(path) has a line that is no object.")
      }
      return Line(fields: fields)
    }
  }

  /// Figures, which are older than kinds, have none.
  var kind: String { fields["kind"] as? String ?? "figure" }

  func text(_ name: String) -> String { fields[name] as? String ?? "" }
  func number(_ name: String) -> Double? { (fields[name] as? NSNumber)?.doubleValue }
  func isTrue(_ name: String) -> Bool { fields[name] as? Bool ?? false }
  func numbers(_ name: String) -> [Double] {
    (fields[name] as? [NSNumber] ?? []).map(\.doubleValue)
  }
}

extension Line {
  /// What a later run measured again stands for what an earlier one did: the same figure, workload,
  /// chart or trace.
  static func latest(_ runs: [[Line]]) -> [Line] {
    var seen = Set<String>()
    var kept: [[Line]] = []
    for run in runs.reversed() {
      kept.append(run.filter { line in line.subject.map { !seen.contains($0) } ?? true })
      seen.formUnion(run.compactMap(\.subject))
    }
    return kept.reversed().flatMap { $0 }
  }

  private var subject: String? {
    switch kind {
    case "figure": text("id")
    case "latency": "latency " + text("workload")
    // The other chart of the same growth is of the same run.
    case "point": text("chart")
    case "fit": "fit " + text("measure") + text("by")
    case "hit_ratio", "trace": kind + text("trace")
    default: nil
    }
  }

  /// With another name of the series, where the names do not have it.
  func renamed(_ names: [String: String], otherwise: String) -> Line {
    var line = self
    line.fields["series"] = names[text("series")] ?? otherwise
    return line
  }
}

struct ReportFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// Numbers as people read them.
enum Text {
  static func duration(_ nanoseconds: Double) -> String {
    switch nanoseconds {
    case ..<1000: short(nanoseconds) + " ns"
    case ..<1e6: short(nanoseconds / 1e3) + " µs"
    case ..<1e9: short(nanoseconds / 1e6) + " ms"
    default: short(nanoseconds / 1e9) + " s"
    }
  }

  /// Three digits that matter.
  static func short(_ value: Double) -> String {
    switch abs(value) {
    case 100...: String(format: "%.0f", value)
    case 10..<100: trimmed(String(format: "%.1f", value))
    default: trimmed(String(format: "%.2f", value))
    }
  }

  private static func trimmed(_ text: String) -> String {
    var text = text
    guard text.contains(".") else { return text }
    while text.hasSuffix("0") { text.removeLast() }
    if text.hasSuffix(".") { text.removeLast() }
    return text
  }

  /// 10000 as 10k.
  static func large(_ value: Double) -> String {
    switch value {
    case 1e9...: short(value / 1e9) + "G"
    case 1e6..<1e9: short(value / 1e6) + "M"
    case 1e3..<1e6: short(value / 1e3) + "k"
    default: short(value)
    }
  }

  /// 4096 as 4 kB.
  static func bytes(_ value: Double) -> String {
    switch value {
    case 1_048_576...: short(value / 1_048_576) + " MB"
    case 1024...: short(value / 1024) + " kB"
    default: short(value) + " B"
    }
  }

  /// 10000 as 10,000.
  static func grouped(_ value: Int) -> String {
    var text = ""
    for (index, digit) in String(value).reversed().enumerated() {
      if index > 0, index % 3 == 0 { text.append(",") }
      text.append(digit)
    }
    return String(text.reversed())
  }

  static func escaped(_ text: String) -> String {
    text.replacingOccurrences(of: "&", with: "&amp;")
      .replacingOccurrences(of: "<", with: "&lt;").replacingOccurrences(of: ">", with: "&gt;")
  }
}
