// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// What a run says in words: the command and its date, the machine, the figures as a table.
struct Summary {
  let lines: [Line]

  private func of(_ kind: String) -> [Line] { lines.filter { $0.kind == kind } }

  /// Commands, with their dates.
  var runs: [String] {
    Charts.unique(
      of("run").map { "`\($0.text("command"))` on \($0.text("date")), commit \($0.text("commit"))" }
    )
  }

  /// The machine and the versions, once.
  var machine: String {
    let texts = of("machine").map { line in
      line.text("text").split(separator: "\n").filter { !$0.hasPrefix("larder ") }
        .map { $0.drop { $0 != " " }.trimmingCharacters(in: .whitespaces) }
        .joined(separator: "; ")
    }
    return Charts.unique(texts).joined(separator: ". ")
  }

  struct Row {
    let id: String
    let value: String
    let quartiles: String
    let bar: String
    let isMet: Bool
    let own: String
    let rival: String
    let what: String
  }

  var rows: [Row] {
    of("figure").map { line in
      let unit = Text.unit(line.text("unit"))
      let spread = line.numbers("spread").map { Text.amount($0, unit) }
      let rivalUnit = Text.unit(line.text("rival_unit"))
      let sign = line.text("bar_is") == "at most" ? "≤" : "≥"
      return Row(
        id: line.text("id"), value: Text.amount(line.number("value") ?? 0, unit),
        quartiles: spread.count == 2 ? "\(spread[0]) – \(spread[1])" : "",
        bar: "\(sign) \(Text.amount(line.number("bar") ?? 0, unit))", isMet: line.isTrue("met"),
        own: Text.amount(line.number("own_value") ?? 0, rivalUnit),
        rival: line.text("rival").hasPrefix("none")
          ? "–" : Text.amount(line.number("rival_value") ?? 0, rivalUnit),
        what: line.text("rival"))
    }
  }

  /// The figures that say most to somebody who looks for the first time; a README shows them first.
  private static let main = [
    "peers.redis_hit", "peers.redis_get", "peers.grdb_get", "peers.diskcache_get",
    "peers.redis_set", "peers.grdb_set", "peers.diskcache_set", "peers.diskcache_p99",
    "core.store_get", "core.set_committed", "objects.fetch_cold", "objects.fetch_hot",
    "objects.indexed_equal", "objects.indexed_equal_cold", "objects.save", "tool.memo_hit_ms",
  ]

  /// The figures as a table; a bar that is missed is called so.
  var table: String { table(rows) }

  private func table(_ rows: [Row]) -> String {
    var text = "| figure | measured | quartiles | bar | Larder | the rival | what the rival is |\n"
    text += "|---|---|---|---|---|---|---|\n"
    for row in rows {
      let bar = row.bar + (row.isMet ? "" : ", **bar missed**")
      let what = row.what.replacingOccurrences(of: "|", with: "\\|")
        .replacingOccurrences(of: "$", with: "\\$")
      text +=
        "| `\(row.id)` | \(row.value) | \(row.quartiles) | \(bar) | \(row.own) | \(row.rival) "
        + "| \(what) |\n"
    }
    return text
  }

  /// Rivals that were not there, and parts that failed: never left out.
  var gaps: [String] {
    Charts.unique(of("absent").map { "\($0.text("contender")) is absent: \($0.text("reason"))" })
      + of("failed").map { "\($0.text("part")) failed: \($0.text("reason"))" }
      + of("suite").filter { $0.number("status") != 0 }.map {
        "the suite \($0.text("suite")) ended with an error"
      }
  }

  /// Returns the text of an article: what ran, the pictures with what each shows, the table.
  ///
  /// The pictures are named without a directory, as a DocC catalog names its resources.
  func markdown(_ main: [Charts.Main]) throws -> String {
    guard !runs.isEmpty else {
      throw ReportFailure("No line says which command ran, and when: use scripts/bench --json.")
    }
    let missed = rows.filter { !$0.isMet }.count
    var text =
      "Measured by " + runs.joined(separator: "; ")
      + ", and written here by `scripts/bench report`.\n"
      + machine + ".\n"
    if of("machine").contains(where: { $0.isTrue("quick") }) {
      text += "A quick run has few rounds: good for a look, not for a claim.\n"
    }
    for one in main {
      text += "\n![\(one.picture.title)](\(one.name).svg)\n\n\(one.statement)\n"
    }
    text +=
      "\n\(rows.count - missed) of \(rows.count) figures meet their bar. Each is the median of its "
      + "rounds, a ratio (×) or a time; those of `peers` are of the rounds' median calls with 256 "
      + "bytes.\n\n"
    let first = Self.main.compactMap { id in rows.first { $0.id == id } }
    text += table(first.isEmpty ? rows : first)
    if !first.isEmpty {
      text += "\n<details>\n<summary>All \(rows.count) figures</summary>\n\n\(table)\n</details>\n"
    }
    for gap in gaps { text += "\nNot measured: \(gap).\n" }
    return text
  }
}

extension Text {
  static func unit(_ unit: String) -> String {
    ["x": "×", "us": "µs"][unit] ?? unit
  }

  /// With its unit; times in the unit that suits them, large counts with their thousands apart.
  static func amount(_ value: Double, _ unit: String) -> String {
    if let scale = ["ns": 1.0, "µs": 1e3, "ms": 1e6][unit] { return duration(value * scale) }
    let number = value >= 10_000 ? grouped(Int(value.rounded())) : short(value)
    return number + " " + unit
  }
}
