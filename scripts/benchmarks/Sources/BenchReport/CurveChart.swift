// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Curves over a common x, in panels beside and below each other.
struct CurveChart {
  struct Panel {
    /// With its unit.
    let title: String
    let points: [Line]
    /// Drawn dashed, where growth was fitted; told in the corner.
    var fit: Fit?
  }

  let title: String
  let panels: [Panel]
  var isLogarithmic = (x: true, y: true)
  let xTitle: String
  var columns = 2
  var panelSize = (width: 420.0, height: 216.0)
  /// What stands below all.
  var note = ""

  var picture: Picture {
    let columns = min(columns, max(panels.count, 1))
    let rows = (panels.count + columns - 1) / columns
    var picture = Picture(title, width: max(Double(columns) * panelSize.width + 20, 440))
    picture.text(title, 14, 26, size: 15, isBold: true)
    let names = Charts.unique(panels.flatMap { $0.points.map { $0.text("series") } })
    var top = 38.0
    if names.count > 1 {
      var x = 16.0
      for (index, name) in names.enumerated() {
        let wide = Picture.width(name) + 34
        if x + wide > picture.width {
          x = 16
          top += 18
        }
        picture.mark(x + 4, top + 8, paint(name, index), shape: index)
        picture.text(name, x + 14, top + 12)
        x += wide
      }
      top += 24
    }
    for (index, panel) in panels.enumerated() {
      draw(
        panel, names, &picture, 10 + Double(index % columns) * panelSize.width,
        top + Double(index / columns) * panelSize.height)
    }
    picture.height = top + Double(rows) * panelSize.height + 8
    if !note.isEmpty {
      picture.text(note, 14, picture.height + 6, size: 11, .dim)
      picture.height += 18
    }
    return picture
  }

  private func paint(_ name: String, _ index: Int) -> Picture.Paint {
    name.hasPrefix("Larder") || index == 0 ? .series(0) : .series(index)
  }

  private func draw(
    _ panel: Panel, _ names: [String], _ picture: inout Picture, _ x0: Double, _ y0: Double
  ) {
    let (left, right) = (x0 + 52, x0 + panelSize.width - 22)
    let (top, bottom) = (y0 + 30, y0 + panelSize.height - 42)
    let x = Axis(
      panel.points.compactMap { $0.number("x") }, isLogarithmic: isLogarithmic.x, isTight: true,
      from: left + 8, to: right - 8)
    let y = Axis(
      panel.points.compactMap { $0.number("y") }, isLogarithmic: isLogarithmic.y, from: bottom,
      to: top)
    picture.text(panel.title, x0 + 4, y0 + 16, size: 12.5, isBold: true)
    if let fit = panel.fit {
      let xs = panel.points.compactMap { $0.number("x") }
      picture.text(
        fit.words(from: xs.min() ?? 1, to: xs.max() ?? 1), right, y0 + 16, anchor: "end", size: 11,
        .dim)
    }
    for tick in y.ticks {
      picture.line(left, y.place(tick), right, y.place(tick))
      picture.text(
        Text.large(tick), left - 7, y.place(tick) + 4, anchor: "end", size: 11, .dim)
    }
    // Places that were measured, unless they are many and powers of ten say as much.
    let measured = Charts.unique(panel.points.compactMap { $0.number("x") }).sorted()
    let places = isLogarithmic.x && measured.count > 6 ? x.ticks : measured
    var last = -Double.infinity
    for tick in places {
      let label = xLabel(tick)
      let place = x.place(tick)
      picture.line(place, bottom, place, bottom + 4, .axis)
      if place - last < Picture.width(label, size: 11) + 6 { continue }
      last = place
      picture.text(label, place, bottom + 17, anchor: "middle", size: 11, .dim)
    }
    picture.line(left, bottom, right, bottom, .axis)
    picture.text(xTitle, (left + right) / 2, bottom + 33, anchor: "middle", size: 11, .dim)
    if let fit = panel.fit, let first = measured.first, let end = measured.last, end > first {
      let steps = (0...40).map { first * pow(end / first, Double($0) / 40) }
      picture.path(
        steps.map { (x.place($0), min(max(y.place(fit.value(at: $0)), top), bottom)) }, .axis,
        width: 1.5, dash: "5 4")
    }
    for (index, name) in names.enumerated() {
      let own = panel.points.filter { $0.text("series") == name }
        .map { ($0.number("x") ?? 0, $0.number("y") ?? 0) }.sorted { $0.0 < $1.0 }
        .map { (x.place($0.0), y.place($0.1)) }
      guard !own.isEmpty else { continue }
      picture.path(own, paint(name, index))
      for point in own {
        picture.mark(point.0, point.1, paint(name, index), shape: index, radius: 3.4)
      }
    }
  }

  private func xLabel(_ value: Double) -> String {
    xTitle.hasPrefix("bytes") ? Text.bytes(value) : Text.large(value)
  }
}

extension Fit {
  /// The law in a few words, over what was measured.
  func words(from first: Double, to last: Double) -> String {
    let growth = value(at: last) / value(at: first)
    if growth > 0.9, growth < 1.1 { return "≈ constant" }
    if isPower {
      return "∝ x^" + String(format: "%.2f", exponent).replacingOccurrences(of: "-", with: "−")
    }
    return (perDecade < 0 ? "−" : "+") + Text.short(abs(perDecade)) + " per tenfold"
  }
}
