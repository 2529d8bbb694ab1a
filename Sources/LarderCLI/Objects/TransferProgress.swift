// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine

/// The progress of an import or an export: one line on a terminal, redrawn ten times a second and
/// removed at the end. Elsewhere nothing is shown.
struct TransferProgress {
  private let title: String
  private let nouns: (one: String, many: String)
  private let isShown: Bool
  private let start = ContinuousClock.now
  private var last: ContinuousClock.Instant?

  init(
    _ title: String, of nouns: (one: String, many: String) = ("object", "objects"),
    isShown: Bool = Console.isErrorTerminal && !Style.isDumb
  ) {
    self.title = title
    self.nouns = nouns
    self.isShown = isShown
  }

  /// Shows the progress.
  ///
  /// - Parameters:
  ///   - count: The number of entries or objects so far.
  ///   - share: The share from 0 to 1, or nil if it is unknown.
  mutating func show(_ count: Int, share: Double?) {
    guard isShown, count % 64 == 0 else { return }
    let now = ContinuousClock.now
    if let last, now - last < .milliseconds(100) { return }
    last = now
    // A wrapped line cannot be redrawn.
    let line = line(count, share, elapsed: start.duration(to: now)).prefix(Style.errorWidth - 1)
    Console.printError("\r\(line)\u{1B}[K", terminator: "")
  }

  mutating func clear() {
    if isShown, last != nil { Console.printError("\r\u{1B}[K", terminator: "") }
    last = nil
  }

  /// `importing  ██████░░░░  60 %  12,000 objects  24,000/s  0:03 left`
  private func line(_ count: Int, _ share: Double?, elapsed: Duration) -> String {
    var line = title + "  "
    if let share {
      let filled = Int(max(0, min(share, 1)) * 20)
      line += String(repeating: "█", count: filled) + String(repeating: "░", count: 20 - filled)
      line += TextLayout.right("\(Int(share * 100)) %", width: 6)
    }
    line += "  \(TextLayout.count(count, nouns.one, nouns.many))"
    let seconds =
      Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
    guard seconds > 0.2 else { return line }
    line += "  \(TextLayout.grouped(Int(Double(count) / seconds)))/s"
    if let share, share > 0.01, share < 1 {
      let left = Int(seconds / share * (1 - share))
      line += "  \(left / 60):\(left % 60 < 10 ? "0" : "")\(left % 60) left"
    }
    return line
  }
}
#endif
