// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An SVG picture that stands alone: fonts and colours of its own.
struct Picture {
  private(set) var body = ""
  let width: Double
  var height: Double

  /// Larder's colour first; the others can be told apart without it, also by those who see few.
  static let colours = [
    "#0b6e4f", "#c8553d", "#3d5a99", "#b08900", "#7b4b94", "#5f7a8a", "#b5477f", "#4d4d4d",
  ]

  init(width: Double, height: Double) {
    self.width = width
    self.height = height
  }

  var svg: String {
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \(width) \(height)\" "
      + "width=\"\(width)\" height=\"\(height)\" role=\"img\" "
      + "font-family=\"system-ui, DejaVu Sans, sans-serif\" font-size=\"12\" fill=\"#222\">"
      + "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>" + body + "</svg>\n"
  }

  private func at(_ value: Double) -> String { String(format: "%.1f", value) }

  mutating func text(
    _ text: String, _ x: Double, _ y: Double, anchor: String = "start", size: Double = 12,
    colour: String = "#222", isBold: Bool = false
  ) {
    body +=
      "<text x=\"\(at(x))\" y=\"\(at(y))\" text-anchor=\"\(anchor)\" font-size=\"\(size)\" "
      + "fill=\"\(colour)\"\(isBold ? " font-weight=\"600\"" : "")>\(Text.escaped(text))</text>"
  }

  mutating func line(
    _ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, colour: String = "#ddd",
    width: Double = 1
  ) {
    body +=
      "<line x1=\"\(at(x1))\" y1=\"\(at(y1))\" x2=\"\(at(x2))\" y2=\"\(at(y2))\" "
      + "stroke=\"\(colour)\" stroke-width=\"\(width)\"/>"
  }

  mutating func bar(
    _ x: Double, _ y: Double, _ width: Double, _ height: Double, colour: String
  ) {
    body +=
      "<rect x=\"\(at(x))\" y=\"\(at(y))\" width=\"\(at(max(width, 0.5)))\" "
      + "height=\"\(at(height))\" fill=\"\(colour)\" rx=\"1.5\"/>"
  }

  mutating func curve(_ points: [(Double, Double)], colour: String) {
    let path = points.map { "\(at($0.0)),\(at($0.1))" }.joined(separator: " ")
    body +=
      "<polyline points=\"\(path)\" fill=\"none\" stroke=\"\(colour)\" stroke-width=\"2\"/>"
    for (x, y) in points {
      body += "<circle cx=\"\(at(x))\" cy=\"\(at(y))\" r=\"3\" fill=\"\(colour)\"/>"
    }
  }
}

/// An axis of numbers or of their logarithms.
struct Axis {
  let low: Double
  let high: Double
  let isLogarithmic: Bool
  let from: Double
  let to: Double

  /// An axis with room for all values, which begins at zero or at a power of ten.
  init(_ values: [Double], isLogarithmic: Bool, from: Double, to: Double) {
    self.isLogarithmic = isLogarithmic
    self.from = from
    self.to = to
    let (least, most) = (values.min() ?? 0, values.max() ?? 1)
    if isLogarithmic {
      low = floor(log10(max(least, 1e-9)) + 1e-9)
      high = max(ceil(log10(max(most, 1e-9)) - 1e-9), low + 1)
    } else {
      low = 0
      high = most <= 0 ? 1 : most * 1.08
    }
  }

  func place(_ value: Double) -> Double {
    let value = isLogarithmic ? log10(max(value, 1e-9)) : value
    return from + (value - low) / (high - low) * (to - from)
  }

  var ticks: [Double] {
    if isLogarithmic, high - low < 3 {
      // Few powers of ten: what lies between helps.
      return stride(from: low, to: high, by: 1).flatMap { power in
        [1, 2, 5].map { $0 * pow(10, power) }
      } + [pow(10, high)]
    }
    if isLogarithmic {
      return stride(from: low, through: high, by: max(1, ((high - low) / 8).rounded(.up)))
        .map { pow(10, $0) }
    }
    let rough = high / 5
    let power = pow(10, floor(log10(rough)))
    let step = [1, 2, 5, 10].map { $0 * power }.first { $0 >= rough } ?? rough
    return Array(stride(from: 0, through: high, by: step))
  }
}
