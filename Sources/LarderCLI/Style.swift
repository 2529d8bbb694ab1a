// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import LarderMemo
import Synchronization

/// When text is coloured.
enum ColorChoice: String, ExpressibleByArgument, CaseIterable {
  /// On a terminal, unless NO_COLOR is set or the terminal is dumb.
  case auto
  case always
  case never
}

/// What makes text on a terminal easier to read. Elsewhere it is nothing.
enum Style {
  private static let choice = Mutex(ColorChoice.auto)

  static func choose(_ wanted: ColorChoice) { choice.withLock { $0 = wanted } }

  private static func variable(_ name: String) -> String? {
    ProcessInfo.processInfo.environment[name]
  }

  /// A terminal that knows no escape sequences.
  static var isDumb: Bool { variable("TERM") == "dumb" }

  private static func isColoured(_ isTerminal: Bool) -> Bool {
    switch choice.withLock({ $0 }) {
    case .always: true
    case .never: false
    case .auto: isTerminal && !isDumb && (variable("NO_COLOR") ?? "").isEmpty
    }
  }

  /// The first line of a table on standard output.
  static func heading(_ text: String) -> String {
    isColoured(Console.isTerminal) ? "\u{1B}[1m\(text)\u{1B}[0m" : text
  }

  /// What begins an error on standard error.
  static func errorPrefix(_ text: String) -> String {
    isColoured(Console.isErrorTerminal) ? "\u{1B}[1;31m\(text)\u{1B}[0m" : text
  }

  /// The columns there are for a line on standard error, which is a terminal.
  static var errorWidth: Int {
    if let columns = variable("COLUMNS").flatMap({ Int($0) }), columns > 1 { return columns }
    return CommandProxy.errorColumns ?? 80
  }

  /// The columns there are for a table; `nil`: as many as it takes, nobody watches.
  static var width: Int? {
    guard Console.isTerminal else { return nil }
    if let columns = variable("COLUMNS").flatMap({ Int($0) }), columns > 0 { return columns }
    return CommandProxy.terminalColumns ?? 80
  }
}
