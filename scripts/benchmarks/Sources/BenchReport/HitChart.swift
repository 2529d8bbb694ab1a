// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// How many of a trace's requests are hits, by policy: a row for each trace and size of the cache.
enum HitChart {
  private static let policies = [
    ("Larder", "Larder, measured"), ("lru", "exact LRU"), ("arc", "ARC"),
    ("s3fifo-adapt", "S3-FIFO, adaptive"), ("wtlfu-hc", "W-TinyLFU, adaptive"),
    ("opt", "optimal (knows the future)"),
  ]

  static func picture(_ title: String, _ lines: [Line], width: Double = 920) -> Picture {
    var picture = Picture(title, width: width)
    let groups = Charts.unique(lines.map(group))
    let (left, right, step) = (190.0, width - 74, 24.0)
    picture.text(title, 14, 26, size: 15, isBold: true)
    var (x, y) = (16.0, 46.0)
    for (index, policy) in policies.enumerated() {
      let wide = Picture.width(policy.1) + 30
      if x + wide > width {
        (x, y) = (16, y + 18)
      }
      picture.mark(x + 4, y - 4, paint(index), shape: shape(index), radius: 4)
      picture.text(policy.1, x + 14, y)
      x += wide
    }
    let top = y + 14
    let bottom = top + Double(groups.count) * step
    let axis = Axis([0, 95], isLogarithmic: false, from: left, to: right)
    for tick in axis.ticks {
      picture.line(axis.place(tick), top, axis.place(tick), bottom)
      picture.text(
        "\(Int(tick)) %", axis.place(tick), bottom + 17, anchor: "middle", size: 11, .dim)
    }
    picture.text("Larder", width - 14, top - 2, anchor: "end", size: 11, .dim)
    for (index, group) in groups.enumerated() {
      let middle = top + (Double(index) + 0.5) * step
      let found = lines.filter { self.group($0) == group }
      let percents = policies.map { policy in
        found.first { $0.text("policy") == policy.0 }?.number("percent")
      }
      let words = group.split(separator: "\t").map(String.init)
      picture.text(words[0], 14, middle + 4)
      picture.text(words[1], left - 12, middle + 4, anchor: "end", size: 11, .dim)
      let present = percents.compactMap { $0 }
      if let least = present.min(), let most = present.max() {
        picture.line(axis.place(least), middle, axis.place(most), middle, .axis)
      }
      // Larder's is drawn last, above what it lies on.
      for number in policies.indices.reversed() {
        guard let percent = percents[number] else { continue }
        picture.mark(
          axis.place(percent), middle, paint(number), shape: shape(number),
          radius: number == 0 ? 4.6 : number == 1 ? 7 : 4)
      }
      if let own = percents[0] {
        picture.text(
          String(format: "%.1f %%", own), width - 14, middle + 4, anchor: "end", isBold: true)
      }
    }
    picture.text(
      "share of requests answered from the cache, percent; to the right of a trace: how many entries "
        + "the cache may hold", 14, bottom + 37, size: 11, .dim)
    picture.height = bottom + 50
    return picture
  }

  private static func group(_ line: Line) -> String {
    line.text("trace") + "\t" + Text.grouped(Int(line.number("capacity") ?? 0)) + " entries"
  }

  /// The exact policy that Larder's is an approximation of is a ring around it.
  private static func shape(_ index: Int) -> Int { [0, 5, 1, 2, 3, 4][index] }
  private static func paint(_ index: Int) -> Picture.Paint {
    index == 5 ? .ink : .series(index)
  }
}
