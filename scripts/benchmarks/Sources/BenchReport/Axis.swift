// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An axis of numbers or of their logarithms.
struct Axis {
  let low: Double
  let high: Double
  let isLogarithmic: Bool
  let from: Double
  let to: Double

  /// An axis with room for all values. One of numbers begins at zero; one of logarithms ends at 1, 2
  /// or 5 times a power of ten, or at powers of ten alone where it spans many.
  ///
  /// - Parameter isTight: It ends where the values do.
  init(
    _ values: [Double], isLogarithmic: Bool, isTight: Bool = false, from: Double, to: Double
  ) {
    self.isLogarithmic = isLogarithmic
    self.from = from
    self.to = to
    let (least, most) = (values.min() ?? 0, values.max() ?? 1)
    guard isLogarithmic else {
      low = 0
      high = most <= 0 ? 1 : most * 1.05
      return
    }
    if isTight, most > least {
      (low, high) = (log10(least), log10(most))
      return
    }
    let (bottom, top) = (log10(max(least, 1e-9)), log10(max(most, 1e-9)))
    if top - bottom > 2.5 {
      low = floor(bottom + 1e-9)
      high = max(ceil(top - 1e-9), low + 1)
    } else {
      let steps = (-9...15).flatMap { power in [1.0, 2, 5].map { log10($0) + Double(power) } }
      // At least a factor of five: a flat curve shall look flat.
      let below = steps.last { $0 <= bottom + 1e-9 } ?? bottom
      let above = steps.first { $0 >= top - 1e-9 } ?? top
      low = below
      high = max(above, below + log10(5))
    }
  }

  func place(_ value: Double) -> Double {
    let value = isLogarithmic ? log10(max(value, 1e-9)) : value
    return from + (value - low) / (high - low) * (to - from)
  }

  /// Where lines and numbers stand.
  var ticks: [Double] {
    guard isLogarithmic else {
      let rough = high / 5
      let power = pow(10, floor(log10(rough)))
      let step = [1, 2, 5, 10].map { $0 * power }.first { $0 >= rough } ?? rough
      return Array(stride(from: 0, through: high, by: step))
    }
    let powers = Int(floor(low))...Int(ceil(high))
    let within = { (value: Double) in
      log10(value) >= low - 1e-9 && log10(value) <= high + 1e-9
    }
    if high - low <= 2.5 {
      return powers.flatMap { power in [1.0, 2, 5].map { $0 * pow(10, Double(power)) } }
        .filter(within)
    }
    let every = max(1, Int(((high - low) / 7).rounded(.up)))
    return powers.filter { ($0 - powers.lowerBound) % every == 0 }.map { pow(10, Double($0)) }
      .filter(within)
  }
}
