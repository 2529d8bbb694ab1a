// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderMemo
import Synchronization

/// The condition for coloured text.
enum ColorChoice: String, ExpressibleByArgument, CaseIterable {
  /// On a terminal, unless NO_COLOR is set or the terminal is dumb.
  case auto
  case always
  case never
}

/// Bold and coloured text on a terminal; elsewhere text is unchanged.
enum Style {
  private static let choice = Mutex(ColorChoice.auto)

  static func choose(_ wanted: ColorChoice) { choice.withLock { $0 = wanted } }

  private static func variable(_ name: String) -> String? {
    ProcessInfo.processInfo.environment[name]
  }

  /// Whether the terminal supports no escape sequences.
  static var isDumb: Bool { variable("TERM") == "dumb" }

  private static func isColoured(_ isTerminal: Bool) -> Bool {
    switch choice.withLock({ $0 }) {
    case .always: true
    case .never: false
    case .auto: isTerminal && !isDumb && (variable("NO_COLOR") ?? "").isEmpty
    }
  }

  /// Returns the first line of a table on standard output, in bold.
  static func heading(_ text: String) -> String {
    isColoured(Console.isTerminal) ? "\u{1B}[1m\(text)\u{1B}[0m" : text
  }

  /// Returns the prefix of an error on standard error, in red.
  static func errorPrefix(_ text: String) -> String {
    isColoured(Console.isErrorTerminal) ? "\u{1B}[1;31m\(text)\u{1B}[0m" : text
  }

  /// The columns of the terminal that standard error is.
  static var errorWidth: Int {
    if let columns = variable("COLUMNS").flatMap({ Int($0) }), columns > 1 { return columns }
    return CommandProxy.errorColumns ?? 80
  }

  /// The columns of the terminal that standard output is, or nil if it is not a terminal.
  static var width: Int? {
    guard Console.isTerminal else { return nil }
    if let columns = variable("COLUMNS").flatMap({ Int($0) }), columns > 0 { return columns }
    return CommandProxy.terminalColumns ?? 80
  }
}
#endif
