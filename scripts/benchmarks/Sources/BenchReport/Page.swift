// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The page: figures with their bars first, then pictures, then what was absent and where it ran.
struct Page {
  private let lines: [Line]
  private let directory: String

  init(_ lines: [Line], directory: String) {
    self.lines = lines
    self.directory = directory
  }

  /// The figures as a table of Markdown, for a text that quotes the run.
  func markdown() -> String {
    var text =
      "| figure | ratio or time | quartiles | bar | Larder | the rival |\n|---|---|---|---|---|---|\n"
    for line in of("figure") {
      let unit = line.text("unit")
      let spread = line.numbers("spread").map(Text.short).joined(separator: " to ")
      let own = Text.short(line.number("own_value") ?? 0) + " " + line.text("rival_unit")
      let other = Text.short(line.number("rival_value") ?? 0) + " " + line.text("rival_unit")
      let value = Text.short(line.number("value") ?? 0) + " " + unit
      let bar = Text.short(line.number("bar") ?? 0) + " " + unit
      let name = line.text("rival").split(separator: ";")[0]
      text +=
        "| `\(line.text("id"))` | \(value) | \(spread) | \(bar)\(line.isTrue("met") ? "" : ", missed") "
        + "| \(own) | \(other): \(name) |\n"
    }
    for line in of("machine") { text += "\n" + line.text("text") + "\n" }
    return text
  }

  private func of(_ kind: String) -> [Line] { lines.filter { $0.kind == kind } }

  func html() throws -> String {
    let sections = [
      figures(), try latencies(), try curves("by processes", "Processes at once"),
      try curves("by value size", "Values of other sizes"),
      try curves("by entries", "Growth with the number of entries (100 B each)"),
      try curves("by megabytes", "Growth with the bytes stored (entries of 16 kB)"),
      try hitRatios(), traces(), absent(), machine(),
    ]
    return """
      <!doctype html>
      <html lang="en"><head><meta charset="utf-8"><title>Larder: benchmarks</title>
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <style>
      body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #222; background: #fff;
        max-width: 1040px; margin: 2rem auto; padding: 0 1rem; }
      h1 { font-size: 1.7rem; margin-bottom: .2rem } h2 { font-size: 1.2rem; margin-top: 2.4rem }
      table { border-collapse: collapse; width: 100%; font-size: .86rem }
      th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #e4e4e4;
        vertical-align: top }
      th { color: #555; font-weight: 600 } td.n { text-align: right; white-space: nowrap }
      .met { color: #0b6e4f; font-weight: 600 } .not { color: #b3261e; font-weight: 600 }
      .pictures { display: flex; flex-wrap: wrap; gap: 14px }
      svg { max-width: 100%; height: auto; border: 1px solid #eee; border-radius: 6px }
      pre { background: #f6f7f8; padding: .8rem; border-radius: 6px; overflow-x: auto; font-size: .8rem }
      p.small { color: #555; font-size: .86rem }
      </style></head><body>
      <h1>Larder beside what people use</h1>
      <p class="small">Every figure is a ratio or a time of one run on one machine; the contenders took
      turns and returned the same bytes.</p>
      \(sections.joined(separator: "\n"))
      </body></html>

      """
  }

  /// Writes a picture beside the page, and gives it for within.
  private func picture(_ name: String, _ svg: String) throws -> String {
    let safe = String(name.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "-" })
    try Data(svg.utf8).write(to: URL(fileURLWithPath: directory + "/\(safe).svg"))
    return svg
  }

  private func figures() -> String {
    let rows = of("figure").map { line in
      let isMet = line.isTrue("met")
      let spread = line.numbers("spread")
      let unit = line.text("unit")
      let value = Text.short(line.number("value") ?? 0) + " " + unit
      let range =
        spread.count == 2 ? "\(Text.short(spread[0])) – \(Text.short(spread[1]))" : ""
      let own = Text.short(line.number("own_value") ?? 0) + " " + line.text("rival_unit")
      let other = Text.short(line.number("rival_value") ?? 0) + " " + line.text("rival_unit")
      return "<tr><td>\(Text.escaped(line.text("id")))</td><td class=\"n\">\(value)</td>"
        + "<td class=\"n\">\(range)</td><td class=\"n\">\(Text.short(line.number("bar") ?? 0)) \(unit)"
        + "</td><td class=\"\(isMet ? "met" : "not")\">\(isMet ? "met" : "missed")</td>"
        + "<td class=\"n\">\(own)</td><td class=\"n\">\(other)</td>"
        + "<td>\(Text.escaped(line.text("rival")))</td></tr>"
    }
    guard !rows.isEmpty else { return "" }
    return "<h2>Figures</h2><table><tr><th>figure</th><th>value</th><th>quartiles</th><th>bar</th>"
      + "<th></th><th>Larder</th><th>rival</th><th>the rival</th></tr>" + rows.joined() + "</table>"
  }

  private func latencies() throws -> String {
    let compared = of("latency").filter {
      $0.number("ratio") != nil && !$0.text("workload").isEmpty
    }
    let bySize = compared.filter {
      !$0.text("workload").contains(" of ") || $0.number("size") == 256
    }
    let workloads = Charts.unique(bySize.map { $0.text("workload") })
    guard !workloads.isEmpty else { return "" }
    let pictures = try workloads.map { workload in
      try picture(
        "latency-" + workload,
        Charts.latencies(workload, bySize.filter { $0.text("workload") == workload }))
    }
    return "<h2>Latency by rival</h2><div class=\"pictures\">" + pictures.joined() + "</div>"
      + alone()
  }

  /// Latencies that stand for themselves.
  private func alone() -> String {
    let rows = of("latency").filter { $0.number("ratio") == nil }.map { line in
      let cells = ["median_ns", "p99_ns", "p999_ns", "max_ns"].map { name in
        "<td class=\"n\">\(Text.duration(line.number(name) ?? 0))</td>"
      }
      return "<tr><td>\(Text.escaped(line.text("workload")))</td>"
        + "<td>\(Text.escaped(line.text("contender")))</td>" + cells.joined() + "</tr>"
    }
    guard !rows.isEmpty else { return "" }
    return "<h2>Other workloads</h2><table><tr><th>workload</th><th>who</th><th>median</th>"
      + "<th>p99</th><th>p99.9</th><th>max</th></tr>" + rows.joined() + "</table>"
  }

  private func curves(_ suffix: String, _ title: String) throws -> String {
    let points = of("point").filter { $0.text("chart").hasSuffix(suffix) }
    let charts = Charts.unique(points.map { $0.text("chart") })
    guard !charts.isEmpty else { return "" }
    let isByProcess = suffix == "by processes"
    let pictures = try charts.map { chart in
      let own = points.filter { $0.text("chart") == chart }
      let unit = own[0].text("unit")
      let what = chart.replacingOccurrences(of: " " + suffix, with: "")
      let name = (what.contains(",") ? what : "\(what), \(unit)")
        .replacingOccurrences(of: ", us", with: ", µs")
      return try picture(
        chart,
        Charts.curves(
          name, own, isLogarithmic: (x: !isByProcess, y: true),
          xTitle: isByProcess
            ? "processes"
            : suffix == "by value size" ? "bytes a value" : String(suffix.dropFirst(3))))
    }
    let fits = of("fit").filter { suffix == "by " + $0.text("by") }.map { line in
      "\(line.text("measure").split(separator: ",")[0]): "
        + "\(line.text("by"))<sup>\(Text.short(line.number("exponent") ?? 0))</sup>"
    }
    let fitted =
      fits.isEmpty
      ? "" : "<p class=\"small\">Fitted growth: " + fits.joined(separator: " · ") + "</p>"
    return "<h2>\(title)</h2><div class=\"pictures\">" + pictures.joined() + "</div>" + fitted
  }

  private func hitRatios() throws -> String {
    let lines = of("hit_ratio")
    guard !lines.isEmpty else { return "" }
    return "<h2>Hit ratio</h2><div class=\"pictures\">"
      + (try picture("hit-ratio", Charts.hitRatios(lines))) + "</div>"
  }

  private func traces() -> String {
    let rows = of("trace").map { line in
      "<tr><td>\(line.text("trace"))</td><td class=\"n\">\(Int(line.number("capacity") ?? 0))</td>"
        + "<td class=\"n\">\(Int(line.number("requests") ?? 0))</td>"
        + "<td class=\"n\">\(Text.short(line.number("hit_percent") ?? 0)) %</td>"
        + "<td class=\"n\">\(Text.duration(line.number("mean_ns") ?? 0))</td>"
        + "<td class=\"n\">\(Text.short(line.number("saved_s") ?? 0)) s at "
        + "\(Text.short(line.number("back_end_ms") ?? 0)) ms a miss</td></tr>"
    }
    guard !rows.isEmpty else { return "" }
    return "<table><tr><th>trace</th><th>entries</th><th>requests</th><th>hits</th>"
      + "<th>a request</th><th>back-end work saved</th></tr>" + rows.joined() + "</table>"
  }

  private func absent() -> String {
    let rows = of("absent").map {
      "<li>\($0.text("contender")): \(Text.escaped($0.text("reason")))</li>"
    }
    return rows.isEmpty ? "" : "<h2>Absent</h2><ul>" + rows.joined() + "</ul>"
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
