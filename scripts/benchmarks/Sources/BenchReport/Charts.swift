// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The kinds of pictures.
enum Charts {
  /// A bar for each contender, as long as the logarithm of its median call, with a whisker to its
  /// p99.
  static func latencies(_ title: String, _ rows: [Line]) -> String {
    let (left, right, top, step) = (210.0, 120.0, 44.0, 26.0)
    var picture = Picture(width: 760, height: top + Double(rows.count) * step + 46)
    let bottom = top + Double(rows.count) * step
    let values: [Double] = ["median_ns", "p99_ns"].flatMap { name in
      rows.compactMap { $0.number(name) }
    }
    let axis = Axis(
      values, isLogarithmic: true, from: left, to: picture.width - right)
    picture.text(title, 12, 22, size: 15, isBold: true)
    for tick in axis.ticks {
      picture.line(axis.place(tick), top - 6, axis.place(tick), bottom)
      picture.text(
        Text.duration(tick), axis.place(tick), bottom + 16, anchor: "middle", size: 11,
        colour: "#666")
    }
    for (index, row) in rows.enumerated() {
      let y = top + Double(index) * step
      let name = row.text("contender")
      let isOwn = name.hasPrefix("Larder")
      let (median, p99) = (row.number("median_ns") ?? 1, row.number("p99_ns") ?? 1)
      picture.text(name, left - 10, y + 14, anchor: "end", isBold: isOwn)
      picture.bar(
        left, y + 3, axis.place(median) - left, 14,
        colour: isOwn ? Picture.colours[0] : "#9fb0bd")
      let colour = isOwn ? "#063d2c" : "#5c6c78"
      picture.line(axis.place(median), y + 10, axis.place(p99), y + 10, colour: colour, width: 1.5)
      picture.line(axis.place(p99), y + 6, axis.place(p99), y + 14, colour: colour, width: 1.5)
      var label = Text.duration(median)
      if !isOwn, let ratio = row.number("median_ratio") { label += "  (\(Text.short(ratio)) ×)" }
      picture.text(label, picture.width - 8, y + 14, anchor: "end", colour: "#444")
    }
    picture.text(
      "one call: bar to the median, whisker to p99; logarithmic", left, bottom + 36, size: 11,
      colour: "#666")
    return picture.svg
  }

  /// Curves over one axis.
  static func curves(
    _ title: String, _ points: [Line], isLogarithmic: (x: Bool, y: Bool), xTitle: String
  ) -> String {
    var picture = Picture(width: 480, height: 320)
    let (left, right, top, bottom) = (64.0, 20.0, 40.0, 236.0)
    let names = unique(points.map { $0.text("series") })
    let hasLegend = names.count > 1
    picture.height = bottom + 44 + (hasLegend ? Double((names.count + 1) / 2) * 18 + 4 : 0)
    let x = Axis(
      points.compactMap { $0.number("x") }, isLogarithmic: isLogarithmic.x, from: left,
      to: picture.width - right)
    let y = Axis(
      points.compactMap { $0.number("y") }, isLogarithmic: isLogarithmic.y, from: bottom, to: top)
    picture.text(title, 12, 20, size: 14, isBold: true)
    for tick in y.ticks {
      picture.line(left, y.place(tick), picture.width - right, y.place(tick))
      picture.text(
        Text.large(tick), left - 8, y.place(tick) + 4, anchor: "end", size: 11, colour: "#666")
    }
    let places = isLogarithmic.x ? x.ticks : unique(points.compactMap { $0.number("x") })
    for tick in places {
      picture.line(x.place(tick), bottom, x.place(tick), bottom + 4, colour: "#888")
      picture.text(
        Text.large(tick), x.place(tick), bottom + 17, anchor: "middle", size: 11, colour: "#666")
    }
    picture.line(left, bottom, picture.width - right, bottom, colour: "#888")
    picture.text(
      xTitle, (left + picture.width - right) / 2, bottom + 33, anchor: "middle", size: 11,
      colour: "#666")
    for (index, name) in names.enumerated() {
      let colour = Picture.colours[index % Picture.colours.count]
      let own = points.filter { $0.text("series") == name }
        .map { ($0.number("x") ?? 0, $0.number("y") ?? 0) }.sorted { $0.0 < $1.0 }
      picture.curve(own.map { (x.place($0.0), y.place($0.1)) }, colour: colour)
      guard hasLegend else { continue }
      let (column, row) = (Double(index % 2) * 210 + left, Double(index / 2) * 18 + bottom + 52)
      picture.bar(column, row - 9, 10, 10, colour: colour)
      picture.text(name, column + 16, row)
    }
    return picture.svg
  }

  /// Groups of bars: for each trace and capacity, one for each policy.
  static func hitRatios(_ lines: [Line]) -> String {
    let policies = ["Larder", "lru", "arc", "s3fifo-adapt", "opt"]
    let groups = unique(lines.map { "\($0.text("trace")), \(Int($0.number("capacity") ?? 0))" })
    let (left, top, step) = (64.0, 62.0, 84.0)
    let bottom = top + 220
    var picture = Picture(
      width: max(left + Double(groups.count) * step + 20, 720), height: bottom + 46)
    let axis = Axis([0, 92], isLogarithmic: false, from: bottom, to: top)
    picture.text("Hit ratio by policy, percent", 12, 22, size: 15, isBold: true)
    for tick in axis.ticks {
      picture.line(left, axis.place(tick), picture.width - 12, axis.place(tick))
      picture.text(
        Text.short(tick), left - 8, axis.place(tick) + 4, anchor: "end", size: 11, colour: "#666")
    }
    for (index, group) in groups.enumerated() {
      let start = left + Double(index) * step + 8
      for (number, policy) in policies.enumerated() {
        guard
          let line = lines.first(where: {
            "\($0.text("trace")), \(Int($0.number("capacity") ?? 0))" == group
              && $0.text("policy") == policy
          }), let percent = line.number("percent")
        else { continue }
        picture.bar(
          start + Double(number) * 14, axis.place(percent), 12, bottom - axis.place(percent),
          colour: Picture.colours[number])
      }
      let words = group.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
      picture.text(words[0], start + 34, bottom + 16, anchor: "middle", size: 11)
      picture.text(
        words[1] + " entries", start + 34, bottom + 31, anchor: "middle", size: 10, colour: "#666")
    }
    let titles = ["Larder, measured", "exact LRU", "ARC", "S3-FIFO, adaptive", "optimal"]
    for (number, title) in titles.enumerated() {
      let x = left + Double(number) * 125
      picture.bar(x, 34, 10, 10, colour: Picture.colours[number])
      picture.text(title, x + 15, 43)
    }
    return picture.svg
  }

  static func unique<T: Hashable>(_ values: [T]) -> [T] {
    var seen = Set<T>()
    return values.filter { seen.insert($0).inserted }
  }
}
