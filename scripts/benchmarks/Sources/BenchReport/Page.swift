// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The page: figures with their bars first, then pictures, then what was absent and where it ran.
struct Page {
  private let lines: [Line]
  private let directory: String
  private let charts: Charts
  private let summary: Summary

  init(_ lines: [Line], directory: String) {
    self.lines = lines
    self.directory = directory
    charts = Charts(lines: lines)
    summary = Summary(lines: lines)
  }

  private func of(_ kind: String) -> [Line] { lines.filter { $0.kind == kind } }

  private static let style = """
    :root { color-scheme: light dark; --ink: #1f2328; --dim: #59636e; --rule: #e3e6ea; --ground: #fff;
      --soft: #f3f5f7; --good: #0b6e4f; --bad: #b3261e }
    @media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9da7b3; --rule: #2d333b;
      --ground: #0d1117; --soft: #161b22; --good: #3fc08f; --bad: #ff8f86 } }
    body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
      color: var(--ink); background: var(--ground); max-width: 920px; margin: 2rem auto;
      padding: 0 1rem }
    h1 { font-size: 1.7rem; margin-bottom: .2rem } h2 { font-size: 1.2rem; margin-top: 2.4rem }
    .wide { overflow-x: auto }
    table { border-collapse: collapse; width: 100%; font-size: .84rem }
    th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--rule);
      vertical-align: top }
    th { color: var(--dim); font-weight: 600 }
    td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
    .met { color: var(--good); font-weight: 600 } .not { color: var(--bad); font-weight: 600 }
    small { color: var(--dim) } figure { margin: 1.2rem 0 } figcaption, p.small { color: var(--dim); font-size: .86rem }
    svg { max-width: 100%; height: auto; border: 1px solid var(--rule); border-radius: 6px }
    pre { background: var(--soft); padding: .8rem; border-radius: 6px; overflow-x: auto;
      font-size: .8rem }
    """

  func html() throws -> String {
    let main = charts.main
    var sections: [String] = []
    if !main.isEmpty {
      sections.append(
        "<h2>At a glance</h2>"
          + (try main.map {
            "<figure>" + (try write($0.name, $0.picture))
              + "<figcaption>\(Text.escaped($0.statement))</figcaption></figure>"
          }.joined()))
    }
    sections += [figures(), traces(), try others(), alone(), gaps(), suites(), machine()]
    return """
      <!doctype html>
      <html lang="en"><head><meta charset="utf-8"><title>Larder: benchmarks</title>
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <style>
      \(Self.style)
      </style></head><body>
      <h1>Larder beside what people use</h1>
      <p class="small">\(summary.runs.map { Self.code($0) }.joined(separator: "; "))</p>
      <p class="small">Every figure is a ratio or a time of one run on one machine; the contenders took
      turns and returned the same bytes.</p>
      \(sections.filter { !$0.isEmpty }.joined(separator: "\n"))
      </body></html>

      """
  }

  /// `like this` as code.
  private static func code(_ text: String) -> String {
    text.split(separator: "`", omittingEmptySubsequences: false).enumerated().map { index, part in
      index % 2 == 1 ? "<code>\(Text.escaped(String(part)))</code>" : Text.escaped(String(part))
    }.joined()
  }

  /// Writes a picture beside the page, and gives it for within.
  private func write(_ name: String, _ picture: Picture) throws -> String {
    let words = name.lowercased().split { !$0.isLetter && !$0.isNumber }
    let path = directory + "/" + words.joined(separator: "-") + ".svg"
    try Data(picture.svg.utf8).write(to: URL(fileURLWithPath: path))
    return picture.svg
  }

  private func table(_ head: [String], _ rows: [String]) -> String {
    // Numbers stand to the right, and so do their heads.
    let numeric = rows.first.map {
      $0.components(separatedBy: "<td").map { $0.hasPrefix(" class=\"n") }
    }
    let heads = head.enumerated().map { index, name in
      let isNumber = numeric.map { $0.count > index + 1 && $0[index + 1] } ?? false
      return "<th\(isNumber ? " class=\"n\"" : "")>\(name)</th>"
    }
    return "<div class=\"wide\"><table><tr>" + heads.joined() + "</tr>"
      + rows.joined() + "</table></div>"
  }

  private func figures() -> String {
    let rows = summary.rows.map { row in
      "<tr><td>\(Text.escaped(row.id))<br><small>\(Text.escaped(row.what))</small></td>"
        + "<td class=\"n\">\(row.value)<br><small>\(row.quartiles)</small></td>"
        + "<td class=\"n\">\(row.bar)<br><span class=\"\(row.isMet ? "met" : "not")\">"
        + "\(row.isMet ? "met" : "bar missed")</span></td>"
        + "<td class=\"n\">\(row.own)</td><td class=\"n\">\(row.rival)</td></tr>"
    }
    guard !rows.isEmpty else { return "" }
    let missed = summary.rows.filter { !$0.isMet }.count
    return
      "<h2>Figures</h2><p class=\"small\">\(rows.count - missed) of \(rows.count) meet their bar. "
      + "Below a value: the quartiles of its rounds.</p>"
      + table(["figure, and what the rival is", "measured", "bar", "Larder", "rival"], rows)
  }

  private func others() throws -> String {
    var pictures = charts.latencies
    if let sizes = charts.sizes { pictures.append(("value-sizes", sizes.picture)) }
    if let hits = charts.hits { pictures.append(("hit-ratio-all", hits)) }
    guard !pictures.isEmpty else { return "" }
    return "<h2>Every workload beside its rivals</h2>"
      + (try pictures.map { "<figure>" + (try write($0.name, $0.picture)) + "</figure>" }.joined())
  }

  /// All latencies, also those with no rival beside them.
  private func alone() -> String {
    let rows = of("latency").map { line in
      let cells = ["median_ns", "p99_ns", "p999_ns", "max_ns"].map { name in
        "<td class=\"n\">\(Text.duration(line.number(name) ?? 0))</td>"
      }
      let ratio =
        line.number("ratio").map { ratio in
          "\(Text.short(ratio)) (\(Text.short(line.number("ratio_low") ?? 0)) – "
            + "\(Text.short(line.number("ratio_high") ?? 0)))"
        } ?? ""
      return "<tr><td>\(Text.escaped(line.text("workload")))</td>"
        + "<td>\(Text.escaped(line.text("contender")))</td>" + cells.joined()
        + "<td class=\"n\">\(ratio)</td></tr>"
    }
    guard !rows.isEmpty else { return "" }
    return
      "<h2>All latencies</h2><p class=\"small\">Times as long as the first of its workload, by "
      + "the mean of a round: the median of the rounds, and the quartiles.</p>"
      + table(["workload", "who", "median", "p99", "p99.9", "max", "times as long"], rows)
  }

  private func traces() -> String {
    let rows = of("trace").map { line in
      "<tr><td>\(line.text("trace"))</td>"
        + "<td class=\"n\">\(Text.grouped(Int(line.number("capacity") ?? 0)))</td>"
        + "<td class=\"n\">\(Text.grouped(Int(line.number("requests") ?? 0)))</td>"
        + "<td class=\"n\">\(Text.short(line.number("hit_percent") ?? 0)) %</td>"
        + "<td class=\"n\">\(Text.duration(line.number("mean_ns") ?? 0))</td>"
        + "<td class=\"n\">\(Text.short(line.number("saved_s") ?? 0)) s at "
        + "\(Text.short(line.number("back_end_ms") ?? 0)) ms a miss</td></tr>"
    }
    guard !rows.isEmpty else { return "" }
    return "<h2>Traces, end to end</h2>"
      + table(["trace", "entries", "requests", "hits", "a request", "back-end work saved"], rows)
  }

  private func gaps() -> String {
    let rows = summary.gaps.map { "<li>\(Text.escaped($0))</li>" }
    return rows.isEmpty ? "" : "<h2>Not measured</h2><ul>" + rows.joined() + "</ul>"
  }

  private func suites() -> String {
    let rows = of("suite").map { line in
      "<tr><td>\(line.text("suite"))</td><td class=\"n\">\(Int(line.number("seconds") ?? 0)) s</td>"
        + "<td class=\"n\">\(Text.short(line.number("cpu_seconds") ?? 0)) s</td>"
        + "<td>\(line.number("status") == 0 ? "" : "failed")</td></tr>"
    }
    return rows.isEmpty
      ? "" : "<h2>What it took</h2>" + table(["suite", "time", "of processors", ""], rows)
  }

  private func machine() -> String {
    let texts = Charts.unique(
      of("machine").map { line in
        line.text("text")
          + (line.isTrue("quick") ? "\nquick     yes: a first look, not a claim" : "")
      })
    return texts.isEmpty
      ? "" : "<h2>Where</h2>" + texts.map { "<pre>\(Text.escaped($0))</pre>" }.joined()
  }
}
