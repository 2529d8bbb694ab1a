// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine

/// A plot in SVG: the hit ratio over the capacity, with a line for each policy.
///
/// The colours have the same contrast on a light and on a dark background, and the background is
/// transparent.
struct HitRatioPlot {
  private let result: TraceResult
  private let series: [(name: String, values: [Double])]
  private let capacities: [Trace.Capacity]

  init(_ result: TraceResult) {
    self.result = result
    let order = result.capacities.indices.sorted {
      result.capacities[$0].number < result.capacities[$1].number
    }
    capacities = order.map { result.capacities[$0] }
    series = result.hitRatios.map { name, values in (name, order.map { values[$0] }) }
  }

  private static let (width, height) = (720.0, 420.0)
  private static let (left, right, top, bottom) = (64.0, 696.0, 76.0, 364.0)
  private static let ink = "#808080"
  private static let colours = ["#3b82d0", "#d9772b", "#808080", "#3a9d6b", "#b05cc0"]
  private static let dashes = ["", "", "6 4", "2 3", ""]

  /// The contents of the file.
  var text: String {
    var parts = [
      """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(Self.height))" \
      width="\(Int(Self.width))" height="\(Int(Self.height))" \
      font-family="system-ui, sans-serif" font-size="12" fill="\(Self.ink)">
      """,
      label("Hit ratio by capacity: \(title)", 14, 26, size: 15),
    ]
    parts += legend + axes
    for (index, line) in series.enumerated() { parts.append(curve(line.values, index)) }
    parts.append("</svg>")
    return parts.joined(separator: "\n") + "\n"
  }

  private var title: String {
    let name = TextLayout.shortened(result.name, to: 60)
    return "\(name), \(TextLayout.count(result.trace.count, "access", "accesses"))"
  }

  // MARK: Places

  /// The share of the width for a capacity: logarithmic, because caches differ by factors.
  private func x(_ index: Int) -> Double {
    let logs = capacities.map { log(Double($0.number)) }
    guard let first = logs.first, let last = logs.last, last > first else {
      return (Self.left + Self.right) / 2
    }
    let share = (logs[index] - first) / (last - first)
    return Self.left + 16 + share * (Self.right - Self.left - 32)
  }

  /// The highest ratio of the axis: the next tenth above all values.
  private var highest: Double {
    let most = series.flatMap(\.values).max() ?? 1
    return min(max((most * 10).rounded(.up) / 10, 0.1), 1)
  }

  private func y(_ ratio: Double) -> Double {
    Self.bottom - ratio / highest * (Self.bottom - Self.top)
  }

  // MARK: Elements

  private var legend: [String] {
    var x = 16.0
    return series.enumerated().flatMap { index, line in
      defer { x += 44 + Double(line.name.count) * 7 }
      return [
        """
        <line x1="\(Self.number(x))" y1="48" x2="\(Self.number(x + 22))" y2="48" \(stroke(index))/>
        """, label(line.name, x + 28, 52),
      ]
    }
  }

  private var axes: [String] {
    var parts: [String] = []
    let step = highest > 0.5 ? 0.2 : highest > 0.2 ? 0.1 : 0.02
    for tick in stride(from: 0, through: highest + 1e-9, by: step) {
      let place = Self.number(y(tick))
      parts.append(
        """
        <line x1="\(Int(Self.left))" y1="\(place)" x2="\(Int(Self.right))" y2="\(place)" \
        stroke="\(Self.ink)" stroke-opacity="0.3"/>
        """)
      parts.append(
        label("\(Int((tick * 100).rounded())) %", Self.left - 8, y(tick) + 4, anchor: "end"))
    }
    var last = -Double.infinity
    for (index, capacity) in capacities.enumerated() {
      let place = x(index)
      parts.append(
        """
        <line x1="\(Self.number(place))" y1="\(Int(Self.bottom))" x2="\(Self.number(place))" \
        y2="\(Int(Self.bottom) + 5)" stroke="\(Self.ink)"/>
        """)
      // Labels of capacities that are close to each other would overlap.
      let text =
        capacity.isEntries
        ? TextLayout.grouped(capacity.number) : "\(ByteCount(bytes: capacity.number))"
      let half = Double(text.count) * 3.6
      if place - half < last + 6 { continue }
      last = place + half
      parts.append(label(text, place, Self.bottom + 20, anchor: "middle"))
    }
    let unit = capacities.first?.isEntries == false ? "bytes" : "entries"
    parts.append(
      label(
        "capacity in \(unit), logarithmic", (Self.left + Self.right) / 2, Self.height - 16,
        anchor: "middle"))
    parts.append(
      """
      <text transform="translate(16 \(Int((Self.top + Self.bottom) / 2))) rotate(-90)" \
      text-anchor="middle">hit ratio</text>
      """)
    return parts
  }

  private func curve(_ values: [Double], _ index: Int) -> String {
    let points = values.indices.map { "\(Self.number(x($0))),\(Self.number(y(values[$0])))" }
    let dots = values.indices.map {
      """
      <circle cx="\(Self.number(x($0)))" cy="\(Self.number(y(values[$0])))" r="3" \
      fill="\(Self.colours[index % Self.colours.count])"/>
      """
    }
    return
      "<polyline points=\"\(points.joined(separator: " "))\" fill=\"none\" \(stroke(index))/>\n"
      + dots.joined(separator: "\n")
  }

  private func stroke(_ index: Int) -> String {
    let dash = Self.dashes[index % Self.dashes.count]
    return "stroke=\"\(Self.colours[index % Self.colours.count])\" stroke-width=\"2\""
      + (dash.isEmpty ? "" : " stroke-dasharray=\"\(dash)\"")
  }

  private func label(
    _ text: String, _ x: Double, _ y: Double, anchor: String = "start", size: Int = 12
  ) -> String {
    let escaped = text.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
      .replacing(">", with: "&gt;")
    return """
      <text x="\(Self.number(x))" y="\(Self.number(y))" text-anchor="\(anchor)" \
      font-size="\(size)">\(escaped)</text>
      """
  }

  private static func number(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }
}
#endif
