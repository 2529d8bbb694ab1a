// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The pictures of a run: those of the page, and the few of them that say most.
struct Charts {
  let lines: [Line]

  private func of(_ kind: String) -> [Line] { lines.filter { $0.kind == kind } }

  static func unique<T: Hashable>(_ values: [T]) -> [T] {
    var seen = Set<T>()
    return values.filter { seen.insert($0).inserted }
  }

  // MARK: The main ones

  struct Main {
    let name: String
    let picture: Picture
    /// What it shows, in a sentence.
    let statement: String
  }

  /// Those the run has data for.
  var main: [Main] {
    var all: [Main] = []
    let panels = [
      ("memory hit", "", "hit in memory"),
      ("store get", "a file per key, get", "get from the store"),
      ("committed set, 256 B, no sync", "a file per key, set", "committed set, nothing synced"),
      ("committed set, 256 B, on the disk", "", "durable set: on the disk when the call returns"),
    ].compactMap { start, more, title in
      // A rival that was measured apart, beside the same.
      let rows = compared.filter { row in
        row.text("workload").hasPrefix(start)
          || !more.isEmpty && row.text("workload").hasPrefix(more)
            && !row.text("contender").hasPrefix("Larder")
      }
      return rows.isEmpty ? nil : LatencyChart.Panel(title: title, rows: rows)
    }
    if !panels.isEmpty {
      all.append(
        Main(
          name: "latency",
          picture: LatencyChart.picture("One call with a value of 256 bytes, by rival", panels),
          statement: "One call with a value of 256 bytes, Larder and its rivals: the dot is the "
            + "median, the line reaches to the p99."))
    }
    if let chart = processes {
      all.append(
        Main(
          name: "processes", picture: chart.picture,
          statement: "Calls a second of 1 to 8 processes together on the same store, on "
            + "\(cores) cores."))
    }
    if let chart = growth("by entries", "Growth with the number of entries, 100 bytes each") {
      all.append(
        Main(
          name: "growth", picture: chart.picture,
          statement: "What a call, opening, memory and file cost as the number of entries grows, "
            + "with the law that fits (dashed)."))
    }
    if let chart = growth("by megabytes", "Growth with the bytes stored, entries of 16 kB") {
      all.append(
        Main(
          name: "growth-bytes", picture: chart.picture,
          statement: "The same as the bytes stored grow, in entries of 16 kB."))
    }
    let hits = of("hit_ratio")
    if !hits.isEmpty {
      all.append(
        Main(
          name: "hit-ratio",
          picture: HitChart.picture("Hit ratio by policy, real traces", middle(of: hits)),
          statement: "Real traces replayed through the real store: the share of hits, and what "
            + "other policies would reach with as many entries."))
    }
    return all
  }

  /// One size of the cache for each trace: the middle one.
  private func middle(of hits: [Line]) -> [Line] {
    Self.unique(hits.map { $0.text("trace") }).flatMap { trace in
      let own = hits.filter { $0.text("trace") == trace }
      let sizes = Self.unique(own.compactMap { $0.number("capacity") }).sorted()
      return own.filter { $0.number("capacity") == sizes[sizes.count / 2] }
    }
  }

  // MARK: The others

  /// Every trace with every size of the cache, where there are more than the main picture shows.
  var hits: Picture? {
    let all = of("hit_ratio")
    return all.count == middle(of: all).count
      ? nil : HitChart.picture("Hit ratio by policy, every size of the cache", all)
  }

  /// A workload that had rivals.
  private var compared: [Line] {
    of("latency").filter { $0.number("ratio") != nil }
  }

  /// One for each workload with rivals; the sizes have curves of their own.
  var latencies: [(name: String, picture: Picture)] {
    let rows = compared.filter { row in
      let size = " of \(Int(row.number("size") ?? 0)) B"
      return !row.text("workload").hasSuffix(size)
    }
    return Self.unique(rows.map { $0.text("workload") }).map { workload in
      let own = rows.filter { $0.text("workload") == workload }
      return (
        "latency-" + workload, LatencyChart.picture(workload, [.init(title: "", rows: own)])
      )
    }
  }

  var sizes: CurveChart? {
    let points = of("point").filter { $0.text("chart").hasSuffix("by value size") }
    guard !points.isEmpty else { return nil }
    let panels = Self.unique(points.map { $0.text("chart") }).map { chart in
      CurveChart.Panel(
        title: chart.replacingOccurrences(of: " by value size", with: "") + ", median, µs",
        points: points.filter { $0.text("chart") == chart })
    }
    return CurveChart(
      title: "Values of other sizes", panels: panels, xTitle: "bytes a value (logarithmic)",
      panelSize: (450, 280), note: "time of one call in microseconds; both axes logarithmic")
  }

  private var cores: Int {
    Int(of("point").lazy.compactMap { $0.number("cores") }.first ?? 0)
  }

  private var processes: CurveChart? {
    let points = of("point").filter { $0.text("chart").hasSuffix("by processes") }
    guard !points.isEmpty else { return nil }
    let panels = Self.unique(points.map { $0.text("chart") }).map { chart in
      CurveChart.Panel(
        title: chart.replacingOccurrences(of: " by processes", with: "")
          + ", thousand calls a second",
        points: points.filter { $0.text("chart") == chart })
    }
    return CurveChart(
      title: "Calls of all processes together, on \(cores) cores", panels: panels,
      xTitle: "processes at once", panelSize: (450, 280),
      note: "256 bytes a value, random keys; both axes logarithmic; higher is better")
  }

  /// - Parameter suffix: "by entries" or "by megabytes".
  private func growth(_ suffix: String, _ title: String) -> CurveChart? {
    let points = of("point").filter { $0.text("chart").hasSuffix(" " + suffix) }
      .map { $0.renamed(["median": "median", "p99": "p99"], otherwise: "median") }
    let charts = Self.unique(points.map { $0.text("chart") })
    guard !charts.isEmpty else { return nil }
    let panels = charts.compactMap { chart -> CurveChart.Panel? in
      let own = points.filter { $0.text("chart") == chart && ($0.number("y") ?? 0) > 0 }
      guard !own.isEmpty else { return nil }
      let medians = own.filter { $0.text("series") == "median" }
        .compactMap { line in line.number("x").flatMap { x in line.number("y").map { (x, $0) } } }
      return CurveChart.Panel(
        title: chart.replacingOccurrences(of: " " + suffix, with: "")
          .replacingOccurrences(of: ", us", with: ", µs"), points: own,
        fit: Fit(medians.map { (x: $0.0, y: $0.1) }))
    }
    return CurveChart(
      title: title, panels: panels, xTitle: String(suffix.dropFirst(3)) + " (logarithmic)",
      columns: 3, panelSize: (300, 210),
      note: "both axes logarithmic; dashed: the law that fits the medians best, x being "
        + suffix.dropFirst(3))
  }
}
