// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// How a cost grows: the two laws one would expect of a tree, each fitted by least squares.
struct Fit {
  /// `factor * x^exponent`: a line where both axes are logarithms.
  let exponent: Double
  let factor: Double
  /// `base + perDecade * log10(x)`: so much more for ten times as much.
  let base: Double
  let perDecade: Double
  /// How far the points lie from each law, as the root of the mean square of log10(point / law).
  let powerError: Double
  let logarithmError: Double

  var isPower: Bool { powerError <= logarithmError }

  /// - Parameter points: At least two, all above zero.
  init?(_ points: [(x: Double, y: Double)]) {
    guard points.count > 1, points.allSatisfy({ $0.x > 0 && $0.y > 0 }) else { return nil }
    let xs = points.map { log10($0.x) }
    guard let (power, offset) = Self.line(xs, points.map { log10($0.y) }),
      let (slope, start) = Self.line(xs, points.map(\.y))
    else { return nil }
    (exponent, factor, perDecade, base) = (power, pow(10, offset), slope, start)
    func error(_ law: (Double) -> Double) -> Double {
      let squares = zip(xs, points).map { x, point in
        let value = law(x)
        return value <= 0 ? Double.infinity : pow(log10(point.y / value), 2)
      }
      return (squares.reduce(0, +) / Double(squares.count)).squareRoot()
    }
    powerError = error { pow(10, offset + power * $0) }
    logarithmError = error { start + slope * $0 }
  }

  /// The law that lies nearer to the points, at x.
  func value(at x: Double) -> Double {
    isPower ? factor * pow(x, exponent) : base + perDecade * log10(x)
  }

  /// Slope and value at zero of the line that fits best; nil if all x are one.
  private static func line(_ xs: [Double], _ ys: [Double]) -> (slope: Double, offset: Double)? {
    let count = Double(xs.count)
    let (x, y) = (xs.reduce(0, +) / count, ys.reduce(0, +) / count)
    let below = xs.reduce(0) { $0 + ($1 - x) * ($1 - x) }
    guard below > 0 else { return nil }
    let slope = zip(xs, ys).reduce(0) { $0 + ($1.0 - x) * ($1.1 - y) } / below
    return (slope, y - slope * x)
  }
}
