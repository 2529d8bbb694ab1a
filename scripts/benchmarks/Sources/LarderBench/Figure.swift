// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// One figure: what was measured, beside its bar and its rival.
struct Figure {
  enum Bar {
    case atMost(Double)
    case atLeast(Double)

    var value: Double {
      switch self {
      case .atMost(let value), .atLeast(let value): value
      }
    }

    var word: String {
      switch self {
      case .atMost: "at most"
      case .atLeast: "at least"
      }
    }

    func isMet(by value: Double) -> Bool {
      switch self {
      case .atMost(let bar): value <= bar
      case .atLeast(let bar): value >= bar
      }
    }
  }

  let id: String
  /// What the bar speaks of.
  let value: Double
  let unit: String
  let bar: Bar
  /// What Larder took, in the rival's unit.
  let own: Double
  let rival: String
  let rivalValue: Double
  /// The unit of `own` and `rivalValue`.
  let rivalUnit: String
  /// The quartiles of the rounds' values; none where it is one measurement.
  var spread: ClosedRange<Double>?

  var isMet: Bool { bar.isMet(by: value) }

  /// One line of JSON.
  func json() throws -> String {
    struct Line: Encodable {
      let id: String
      let value: Double
      let unit: String
      let bar: Double
      let bar_is: String
      let met: Bool
      let own_value: Double
      let rival: String
      let rival_value: Double
      let rival_unit: String
      let spread: [Double]?
    }
    func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let line = Line(
      id: id, value: rounded(value), unit: unit, bar: bar.value, bar_is: bar.word, met: isMet,
      own_value: rounded(own), rival: rival, rival_value: rounded(rivalValue),
      rival_unit: rivalUnit,
      spread: spread.map { [rounded($0.lowerBound), rounded($0.upperBound)] })
    return String(decoding: try encoder.encode(line), as: UTF8.self)
  }

  static let heading =
    pad("figure", 24) + pad("value", 12) + pad("bar", 12) + pad("", 6) + pad("larder", 14)
    + pad("rival", 14) + "the rival"

  /// One line for people.
  var row: String {
    let sign =
      switch bar {
      case .atMost: "<= "
      case .atLeast: ">= "
      }
    return Self.pad(id, 24) + Self.pad("\(Self.short(value)) \(unit)", 12)
      + Self.pad("\(sign)\(Self.short(bar.value)) \(unit)", 12) + Self.pad(isMet ? "met" : "NOT", 6)
      + Self.pad("\(Self.short(own)) \(rivalUnit)", 14)
      + Self.pad("\(Self.short(rivalValue)) \(rivalUnit)", 14) + rival
  }

  private static func pad(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(width - text.count, 1))
  }

  private static func short(_ value: Double) -> String {
    String(format: abs(value) >= 100 ? "%.0f" : "%.2f", value)
  }
}

extension ClosedRange<Double> {
  /// The same in another unit.
  func divided(by unit: Double) -> ClosedRange { lowerBound / unit...upperBound / unit }
}

/// A figure that could not be measured.
enum Failure {
  static func json(_ part: String, _ error: any Error) throws -> String {
    try line(["kind": "failed", "part": part, "reason": "\(error)"])
  }

  fileprivate static func line(_ fields: [String: String]) throws -> String {
    let data = try JSONSerialization.data(
      withJSONObject: fields, options: [.sortedKeys, .withoutEscapingSlashes])
    return String(decoding: data, as: UTF8.self)
  }
}

/// Data that a measurement needs and that this machine lacks.
enum Absence {
  static func json(_ name: String, _ reason: String) throws -> String {
    try Failure.line(["kind": "absent", "contender": name, "reason": reason])
  }
}
