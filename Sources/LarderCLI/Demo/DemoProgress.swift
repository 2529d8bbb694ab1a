// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import Synchronization

/// What the demo shows while it runs: one line redrawn on a terminal, else a line now and then.
final class DemoProgress: Sendable {
  private let isSilent: Bool
  private let isLive: Bool
  private let lastLine = Mutex(ContinuousClock.now)

  /// The widest line, so that nothing wraps on a terminal of 80 columns.
  private static let width = 79

  init(isSilent: Bool) {
    self.isSilent = isSilent
    self.isLive = Console.isTerminal && !isSilent
  }

  /// Says what is going to be done, and with what.
  func introduce(_ survey: DemoFileSelection, store: String, workers: Int, seed: UInt64) {
    guard !isSilent else { return }
    Console.line("A word index of \(survey.directory)")
    Console.line("  (\(survey.reason))")
    Console.line(
      "  \(TextLayout.count(survey.files.count, "file", "files")), "
        + "\(ByteCount(bytes: survey.bytes)), \(workers) processes, one store, seed \(seed)")
    var leftOut: [String] = []
    if survey.compressed > 0 {
      leftOut.append("\(TextLayout.grouped(survey.compressed)) compressed or binary by name")
    }
    if survey.tooLarge > 0 {
      leftOut.append(
        "\(TextLayout.grouped(survey.tooLarge)) over "
          + "\(ByteCount(bytes: DemoFileSelection.maximumFileSize))")
    }
    if survey.unreadable > 0 {
      leftOut.append("\(TextLayout.grouped(survey.unreadable)) not readable")
    }
    if survey.isCut { leftOut.append("all beyond the limit (--files, --megabytes)") }
    if !leftOut.isEmpty { Console.line("  left out: \(leftOut.joined(separator: ", "))") }
    Console.line("  store: \(store)")
    Console.line()
  }

  /// Shows how far a pass is.
  func show(_ title: String, _ tally: PassStatistics, since start: ContinuousClock.Instant) {
    guard !isSilent else { return }
    let now = ContinuousClock.now
    if !isLive {
      let isDue = lastLine.withLock { last in
        guard now - last >= .seconds(2) else { return false }
        last = now
        return true
      }
      guard isDue else { return }
    }
    let seconds = start.duration(to: now).seconds
    // What all workers together have asked for, of what they will.
    let total = tally.workers.count * tally.begun.count
    let asked = tally.workers.reduce(0) {
      // Nothing more will come from one that has gone.
      $0 + ($1.isGone ? tally.begun.count : $1.computed + $1.found + $1.failed)
    }
    let share = total == 0 ? 1 : Double(asked) / Double(total)
    var line = "\(title)  "
    if isLive {
      let filled = Int(share * 20)
      line += String(repeating: "█", count: filled) + String(repeating: "░", count: 20 - filled)
      line += " "
    }
    line += TextLayout.right("\(Int(share * 100)) %", width: 5)
    line += "  computed \(TextLayout.grouped(tally.computed))"
    line += "  shared \(TextLayout.grouped(tally.found))"
    line += "  \(Self.tenths(seconds)) s"
    if tally.victim != nil { line += "  1 killed" }
    if isLive {
      Console.write("\r\(line.prefix(Self.width))\u{1b}[K")
    } else {
      Console.line(line)
    }
  }

  /// Says how a pass went, in place of its progress.
  func conclude(_ pass: DemoPass) {
    clear()
    guard !isSilent else { return }
    var line = "\(pass.title): \(Self.tenths(pass.seconds)) s, "
    line += "\(TextLayout.grouped(pass.tally.computed)) computed, "
    line += "\(TextLayout.grouped(pass.tally.found)) shared"
    Console.line(line)
    if let index = pass.tally.workers.firstIndex(where: \.isVictim) {
      let victim = pass.tally.workers[index]
      Console.line(
        "      worker \(index + 1) (process \(victim.pid)) was killed with SIGKILL, half-way")
    }
  }

  /// Says what is done now.
  func announce(_ text: String) {
    guard !isSilent else { return }
    if isLive { Console.write("\r\(text.prefix(Self.width))\u{1b}[K") }
  }

  /// Takes the redrawn line away.
  func clear() {
    if isLive { Console.write("\r\u{1b}[K") }
  }

  /// A number with one digit behind the point.
  static func tenths(_ number: Double) -> String {
    let tenths = Int((number * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }
}
