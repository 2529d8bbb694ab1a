// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// What one call takes, by who makes it: a dot at the median and a line to the p99, over an axis of
/// logarithms that all panels share.
enum LatencyChart {
  struct Panel {
    let title: String
    let rows: [Line]
  }

  static func picture(_ title: String, _ panels: [Panel], width: Double = 920) -> Picture {
    var picture = Picture(title, width: width)
    let step = 21.0
    let names = panels.flatMap { $0.rows.map { $0.text("contender") } }
    let left = min(max((names.map { Picture.width($0) }.max() ?? 0) + 26, 150), 250)
    let columns = [width - 148, width - 82, width - 14]
    let right = columns[0] - 82
    let axis = Axis(
      panels.flatMap { $0.rows.flatMap { [$0.number("median_ns"), $0.number("p99_ns")] } }
        .compactMap { $0 }, isLogarithmic: true, from: left, to: right)
    picture.text(title, 14, 26, size: 15, isBold: true)
    for (x, name) in zip(columns, ["median", "p99", "× Larder"]) {
      picture.text(name, x, 50, anchor: "end", size: 11, .dim)
    }
    for tick in axis.ticks {
      picture.text(Text.duration(tick), axis.place(tick), 50, anchor: "middle", size: 11, .dim)
    }
    var y = 54.0
    for panel in panels {
      if !panel.title.isEmpty {
        y += 14
        picture.text(panel.title, 14, y, size: 12.5, isBold: true)
        y += 9
      }
      let bottom = y + Double(panel.rows.count) * step
      for tick in axis.ticks { picture.line(axis.place(tick), y, axis.place(tick), bottom) }
      // The fastest first; Larder's own are the bold ones.
      let rows = panel.rows.sorted {
        ($0.number("median_ns") ?? 0) < ($1.number("median_ns") ?? 0)
      }
      for row in rows {
        let name = row.text("contender")
        let isOwn = name.hasPrefix("Larder")
        let paint = Picture.Paint.series(isOwn ? 0 : 5)
        let (median, p99) = (row.number("median_ns") ?? 1, row.number("p99_ns") ?? 1)
        let middle = y + step / 2
        picture.text(name, left - 10, middle + 4, anchor: "end", isBold: isOwn)
        picture.line(
          axis.place(median), middle, axis.place(p99), middle, paint, width: isOwn ? 3 : 2)
        picture.line(axis.place(p99), middle - 4, axis.place(p99), middle + 4, paint, width: 2)
        picture.mark(axis.place(median), middle, paint, radius: isOwn ? 5 : 4.5)
        picture.text(
          Text.duration(median), columns[0], middle + 4, anchor: "end", isBold: isOwn)
        picture.text(Text.duration(p99), columns[1], middle + 4, anchor: "end", .dim)
        if let ratio = row.number("median_ratio") {
          picture.text(Text.short(ratio), columns[2], middle + 4, anchor: "end", isBold: !isOwn)
        }
        y += step
      }
      y += 10
    }
    for tick in axis.ticks {
      picture.text(Text.duration(tick), axis.place(tick), y + 5, anchor: "middle", size: 11, .dim)
    }
    picture.text(
      "time of one call, logarithmic: dot = median, line to the p99; × Larder = how many times the "
        + "median of the row with 1", left, y + 23, size: 11, .dim)
    picture.height = y + 36
    return picture
  }
}
