// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An SVG picture that stands alone: fonts, colours and a ground of its own, for light and for dark.
struct Picture {
  /// What a thing is painted with; the colours are in the style sheet, twice.
  enum Paint {
    case ink, dim, grid, axis, soft
    /// Larder's, and those of the others: told apart also by those who see few colours.
    case series(Int)

    var name: String {
      switch self {
      case .ink: "ink"
      case .dim: "dim"
      case .grid: "grid"
      case .axis: "axis"
      case .soft: "soft"
      case .series(let number): "s\(number % 8)"
      }
    }
  }

  private(set) var body = ""
  let width: Double
  var height: Double
  /// What somebody hears who does not see it.
  let title: String

  init(_ title: String, width: Double, height: Double = 0) {
    self.title = title
    self.width = width
    self.height = height
  }

  private static let light = [
    "ink": "#1f2328", "dim": "#59636e", "grid": "#e3e6ea", "axis": "#8c959f", "soft": "#f3f5f7",
    "ground": "#ffffff", "s0": "#0b6e4f", "s1": "#c8553d", "s2": "#3d5a99", "s3": "#a87b00",
    "s4": "#7b4b94", "s5": "#5f7a8a", "s6": "#b5477f", "s7": "#4d4d4d",
  ]
  private static let dark = [
    "ink": "#e6edf3", "dim": "#9da7b3", "grid": "#2d333b", "axis": "#656e78", "soft": "#161b22",
    "ground": "#0d1117", "s0": "#3fc08f", "s1": "#ff8f73", "s2": "#8fb0ff", "s3": "#e3b341",
    "s4": "#c69be0", "s5": "#9db4c2", "s6": "#f28cc0", "s7": "#b8bfc7",
  ]

  private static func rules(_ colours: [String: String]) -> String {
    colours.sorted { $0.key < $1.key }.map { name, colour in
      ".lb .\(name){fill:\(colour)}.lb .\(name)l{stroke:\(colour);fill:none}"
    }.joined()
  }

  private static let style =
    "<style>" + rules(light) + "@media (prefers-color-scheme:dark){" + rules(dark) + "}</style>"

  var svg: String {
    "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lb\" viewBox=\"0 0 \(at(width)) \(at(height))\" "
      + "width=\"\(at(width))\" height=\"\(at(height))\" role=\"img\" "
      + "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">"
      + "<title>\(Text.escaped(title))</title>" + Self.style
      + "<rect class=\"ground\" width=\"100%\" height=\"100%\" rx=\"6\"/>" + body + "</svg>\n"
  }

  private func at(_ value: Double) -> String {
    let text = String(format: "%.1f", value)
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }

  mutating func text(
    _ text: String, _ x: Double, _ y: Double, anchor: String = "start", size: Double = 12,
    _ paint: Paint = .ink, isBold: Bool = false
  ) {
    body +=
      "<text class=\"\(paint.name)\" x=\"\(at(x))\" y=\"\(at(y))\" font-size=\"\(at(size))\""
      + (anchor == "start" ? "" : " text-anchor=\"\(anchor)\"")
      + (isBold ? " font-weight=\"600\"" : "") + ">\(Text.escaped(text))</text>"
  }

  mutating func line(
    _ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, _ paint: Paint = .grid,
    width: Double = 1, dash: String? = nil
  ) {
    body +=
      "<line class=\"\(paint.name)l\" x1=\"\(at(x1))\" y1=\"\(at(y1))\" x2=\"\(at(x2))\" "
      + "y2=\"\(at(y2))\" stroke-width=\"\(at(width))\""
      + (dash.map { " stroke-dasharray=\"\($0)\"" } ?? "") + "/>"
  }

  mutating func bar(
    _ x: Double, _ y: Double, _ width: Double, _ height: Double, _ paint: Paint,
    opacity: Double = 1
  ) {
    body +=
      "<rect class=\"\(paint.name)\" x=\"\(at(x))\" y=\"\(at(y))\" width=\"\(at(max(width, 0.5)))\" "
      + "height=\"\(at(height))\" rx=\"1.5\""
      + (opacity < 1 ? " opacity=\"\(opacity)\"" : "") + "/>"
  }

  /// The shapes that tell series apart where colours do not.
  mutating func mark(
    _ x: Double, _ y: Double, _ paint: Paint, shape: Int = 0, radius: Double = 3.5
  ) {
    let r = radius
    func polygon(_ points: [(Double, Double)]) -> String {
      let path = points.map { "\(at(x + $0.0 * r)),\(at(y + $0.1 * r))" }.joined(separator: " ")
      return "<polygon class=\"\(paint.name)\" points=\"\(path)\"/>"
    }
    switch shape % 6 {
    case 0:
      body += "<circle class=\"\(paint.name)\" cx=\"\(at(x))\" cy=\"\(at(y))\" r=\"\(at(r))\"/>"
    case 1: body += polygon([(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)])
    case 2: body += polygon([(0, -1.2), (1.1, 0.9), (-1.1, 0.9)])
    case 3: body += polygon([(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)])
    case 4: body += polygon([(0, 1.2), (1.1, -0.9), (-1.1, -0.9)])
    default:
      body +=
        "<circle class=\"\(paint.name)l\" cx=\"\(at(x))\" cy=\"\(at(y))\" r=\"\(at(r))\" "
        + "stroke-width=\"1.8\"/>"
    }
  }

  mutating func path(
    _ points: [(Double, Double)], _ paint: Paint, width: Double = 2, dash: String? = nil
  ) {
    let path = points.map { "\(at($0.0)),\(at($0.1))" }.joined(separator: " ")
    body +=
      "<polyline class=\"\(paint.name)l\" points=\"\(path)\" stroke-width=\"\(at(width))\" "
      + "stroke-linejoin=\"round\"" + (dash.map { " stroke-dasharray=\"\($0)\"" } ?? "") + "/>"
  }

  /// How wide a text is about, in the fonts that are asked for.
  static func width(_ text: String, size: Double = 12) -> Double {
    text.reduce(0.0) { sum, character in
      switch character {
      case "i", "j", "l", ".", ",", "'", " ", "f", "t", "I", "(", ")": sum + 0.36
      case "m", "w", "M", "W", "%": sum + 0.9
      case "A"..."Z": sum + 0.7
      default: sum + 0.6
      }
    } * size
  }
}
