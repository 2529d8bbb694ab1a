// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation

/// A point of time in milliseconds since 1970.
struct Timestamp: Comparable {
  let milliseconds: Int64

  init(_ milliseconds: Int64) { self.milliseconds = milliseconds }

  /// Returns nil for zero and for never.
  init?(ifSet milliseconds: Int64) {
    guard milliseconds > 0, milliseconds != .max else { return nil }
    self.init(milliseconds)
  }

  static var now: Timestamp { Timestamp(Int64(Date().timeIntervalSince1970 * 1000)) }

  static func < (left: Timestamp, right: Timestamp) -> Bool {
    left.milliseconds < right.milliseconds
  }

  /// The text in JSON answers.
  var iso: String { EntryValue.text(Date(timeIntervalSince1970: Double(milliseconds) / 1000)) }

  /// Returns the distance from `now`, past or future, in the largest unit that fits: `3 s`, `12
  /// min`, `5 d`.
  func distance(from now: Timestamp) -> String {
    let seconds = Double(abs(milliseconds - now.milliseconds)) / 1000
    switch seconds {
    case ..<1: return "< 1 s"
    case ..<120: return "\(Int(seconds)) s"
    case ..<7200: return "\(Int(seconds / 60)) min"
    case ..<172_800: return "\(Int(seconds / 3600)) h"
    default: return "\(Int(seconds / 86_400)) d"
    }
  }

  /// 10,000 years.
  private static let longest: Int64 = 3_652_500 * 86_400_000

  /// Reads `90s`, `10m`, `1h30m`, `7d`, `500ms`.
  static func duration(_ text: String) throws -> Duration {
    let units: [(String, Int64)] = [
      ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
    ]
    var rest = Substring(text.lowercased())
    var total: Int64 = 0
    while !rest.isEmpty {
      let digits = rest.prefix { ("0"..."9").contains($0) }
      rest = rest.dropFirst(digits.count)
      guard
        let number = Int64(digits), number < 1_000_000_000,
        let unit = units.first(where: { rest.hasPrefix($0.0) })
      else {
        throw ValidationError("Invalid duration \"\(text)\". Examples: 90s, 10m, 2h, 7d, 1h30m.")
      }
      rest = rest.dropFirst(unit.0.count)
      // Several terms of nine digits of days exceed the range of Int64 milliseconds.
      let (sum, isTooMuch) = total.addingReportingOverflow(number * unit.1)
      guard !isTooMuch, sum <= longest else {
        throw ValidationError(
          "Invalid duration \"\(text)\": it is longer than 10,000 years. Examples: 90s, 7d.")
      }
      total = sum
    }
    guard total > 0 else {
      throw ValidationError(
        "Invalid duration \"\(text)\": it must be greater than zero. Examples: 90s, 10m, 1h30m, 7d."
      )
    }
    return .milliseconds(total)
  }
}

/// Strings of a fixed width, for tables.
enum TextLayout {
  /// Returns left-aligned text that ends with at least one space; longer text is not cut.
  static func left(_ text: String, width: Int) -> String {
    text + String(repeating: " ", count: max(1, width - text.count))
  }

  static func right(_ text: String, width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }

  /// Returns the beginning and the end of a text that exceeds the width.
  static func shortened(_ text: String, to width: Int) -> String {
    let clean = cleaned(text)
    guard clean.count > width, width > 4 else { return clean }
    return "\(clean.prefix((width - 1) / 2))…\(clean.suffix(width / 2))"
  }

  /// Replaces the characters that a terminal interprets: control and bidirectional characters.
  static func cleaned(_ text: String) -> String {
    String(
      String.UnicodeScalarView(
        text.unicodeScalars.map { scalar in
          switch scalar.properties.generalCategory {
          case .control, .lineSeparator, .paragraphSeparator: "·"
          case .format:
            (0x202A...0x202E).contains(scalar.value)
              || (0x2066...0x2069).contains(scalar.value) ? "·" : scalar
          default: scalar
          }
        }))
  }

  /// `1,234,567`.
  static func grouped(_ number: Int) -> String {
    var text = ""
    let digits = String(number.magnitude)
    for (index, digit) in digits.enumerated() {
      if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
      text.append(digit)
    }
    return (number < 0 ? "-" : "") + text
  }

  /// `1 entry`, `2,000 entries`.
  static func count(_ number: Int, _ one: String, _ many: String) -> String {
    "\(grouped(number)) \(number == 1 ? one : many)"
  }

  /// `98.5 %`; never 100 when something is missing.
  static func percent(_ ratio: Double?) -> String {
    guard let ratio else { return "-" }
    let tenths = ratio < 1 ? min((ratio * 1000).rounded(), 999) : 1000
    return "\(Int(tenths) / 10).\(Int(tenths) % 10) %"
  }
}
#endif
