// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

extension DemoReport {
  /// The tables at the end, for a terminal of 80 columns.
  var text: String {
    let passes = [without, cold, warm]
    var text = "\n" + Self.row("", ["without", "cold,", "after"])
    text += Self.row("", ["the cache", "one killed", "the kill"])
    text += Self.row("seconds", passes.map { Self.hundredths($0.seconds) })
    text += Self.row(
      "time saved", ["-"] + [cold, warm].map { "\(Int((saving(of: $0) * 100).rounded())) %" })
    text += Self.row("worker processes", passes.map { Self.grouped($0.workers.count) })
    text += Self.row("documents indexed", passes.map { Self.grouped($0.begunInAll) })
    text += Self.row("  again, after the kill", ["-", Self.grouped(cold.again), "-"])
    text += Self.row("results shared", ["-"] + [cold, warm].map { Self.grouped($0.shared) })
    text += "\n"
    text += "  \(Self.grouped(stored.words)) words, \(Self.grouped(stored.stems.count)) stems"
    text += stored.notTexts == 0 ? "\n" : ", \(Self.grouped(stored.notTexts)) not UTF-8 text\n"
    text +=
      "  \(stored.top(4).map { "\($0.stem) \(Self.grouped($0.count))" }.joined(separator: ", "))\n"
    text += "  store: \(Self.grouped(entries)) entries, \(ByteCount(bytes: bytes))\n\n"
    for check in checks { text += "\(check.passed ? "  ok    " : "  FAIL  ")\(check.text)\n" }
    text.removeLast()
    return text
  }

  /// Returns a number with two decimals.
  static func hundredths(_ number: Double) -> String {
    let hundredths = Int((number * 100).rounded())
    let digits = hundredths % 100
    return "\(hundredths / 100).\(digits < 10 ? "0" : "")\(digits)"
  }

  private static func row(_ name: String, _ values: [String]) -> String {
    "  " + name + String(repeating: " ", count: 26 - name.count)
      + values.map { String(repeating: " ", count: max(1, 14 - $0.count)) + $0 }.joined() + "\n"
  }

  private static func grouped(_ number: Int) -> String {
    number.formatted(.number.locale(Locale(identifier: "en_US")))
  }
}
