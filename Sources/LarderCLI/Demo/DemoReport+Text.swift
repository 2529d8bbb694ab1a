// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine

extension DemoReport {
  /// The tables at the end, for a terminal of 80 columns.
  var text: String {
    var text = "\n" + row("", ["cold", "warm", "no cache"])
    let grouped = TextLayout.grouped
    let files = grouped(survey.files.count)
    text += row("files", [files, files, files])
    text += row(
      "results computed",
      [grouped(cold.tally.begunInAll), grouped(warm.tally.begunInAll), files])
    text += row("  again, after the kill", [grouped(cold.tally.again), "-", "-"])
    text += row("results shared", [grouped(cold.tally.found), grouped(warm.tally.found), "-"])
    text += row(
      "hit ratio of the store",
      [TextLayout.percent(cold.hitRatio), TextLayout.percent(warm.hitRatio), "-"])
    text += row("evictions", [grouped(cold.evictions), grouped(warm.evictions), "-"])
    text += row("worker processes", ["\(workers)", "\(workers)", "1"])
    text += row("seconds", [cold.seconds, warm.seconds, plainSeconds].map(Self.hundredths))

    text += "\n" + workerTable
    text += "\n" + fact("text read", "\(ByteCount(bytes: survey.bytes))")
    text += fact("not UTF-8 text", TextLayout.count(plain.notTexts, "file", "files"))
    text += fact(
      "store",
      "\(ByteCount(bytes: statistics.bytes)) in \(grouped(statistics.entries)) entries"
        + (statistics.budget.map { ", budget \(ByteCount(bytes: $0))" } ?? "")
        + ", file \(ByteCount(bytes: statistics.fileBytes))")
    text += fact(
      "words",
      "\(grouped(plain.words.count)) different, \(grouped(plain.occurrences)) in all, on "
        + "\(grouped(plain.lines)) lines")
    let top = plain.top(4).map { "\(TextLayout.shortened($0.word, to: 16)) \(grouped($0.count))" }
    text += fact("most frequent", top.joined(separator: ", "))

    text += "\n"
    for check in checks { text += "\(check.passed ? "  ok    " : "  FAIL  ")\(check.text)\n" }
    return text
  }

  private var workerTable: String {
    var text = row("worker", ["computed", "shared", "warm shared"])
    for index in 0..<workers {
      let (first, second) = (cold.tally.workers[index], warm.tally.workers[index])
      let name = "\(index + 1)" + (first.isVictim ? "  killed" : "")
      text += row(
        name,
        [
          TextLayout.grouped(first.computed),
          TextLayout.grouped(first.found),
          TextLayout.grouped(second.found),
        ])
    }
    return text
  }

  private func row(_ name: String, _ values: [String]) -> String {
    let columns = values.map { TextLayout.right($0, width: 14) }
    return "  " + TextLayout.left(name, width: 26) + columns.joined() + "\n"
  }

  private func fact(_ name: String, _ value: String) -> String {
    "  " + TextLayout.left(name, width: 16) + value + "\n"
  }

  private static func hundredths(_ number: Double) -> String {
    let hundredths = Int((number * 100).rounded())
    let digits = hundredths % 100
    return "\(hundredths / 100).\(digits < 10 ? "0" : "")\(digits)"
  }
}
