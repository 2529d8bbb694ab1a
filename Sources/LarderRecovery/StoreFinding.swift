// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

/// Something `verify()` found wrong.
public struct StoreFinding: Sendable, Hashable, CustomStringConvertible {
  /// The severity of a finding.
  public enum Severity: String, Sendable, Hashable, Comparable, CaseIterable {
    /// Books or indexes disagree; no value is concerned.
    case warning
    /// An entry, or the file, is damaged.
    case error

    public static func < (left: Severity, right: Severity) -> Bool {
      left == .warning && right == .error
    }
  }

  /// The severity of the finding.
  public let severity: Severity
  /// What is concerned: a file, a table, an entry.
  public let place: String
  /// A description of the finding.
  public let message: String

  init(severity: Severity, place: String, message: String) {
    self.severity = severity
    self.place = place
    self.message = message
  }

  /// What keeps a store from being opened.
  package init(opening error: StoreError) {
    self.init(severity: .error, place: "opening", message: error.message)
  }

  public var description: String { "\(severity.rawValue): \(place): \(message)" }
}

/// How far an operation over a whole store has come.
public struct StoreProgress: Sendable, Hashable {
  /// What is being looked at.
  public enum Phase: String, Sendable, Hashable, CaseIterable {
    /// The pages of the file are read.
    case pages
    /// The entries are verified.
    case entries
    /// The chunks of large values are verified.
    case chunks
    /// The index of expiration times is compared with the entries.
    case deadlines
  }

  /// The present phase.
  public let phase: Phase
  /// How many of them were looked at.
  public let done: Int
  /// How many there are, as far as that is known.
  public let total: Int
}

/// Findings as they are gathered: at most so many of each severity.
struct FindingList {
  private var warnings: [StoreFinding] = []
  private var errors: [StoreFinding] = []
  let limit: Int

  init(limit: Int) { self.limit = limit }

  mutating func add(_ severity: StoreFinding.Severity, _ place: String, _ message: String) {
    let finding = StoreFinding(severity: severity, place: place, message: message)
    switch severity {
    case .error: if errors.count < limit { errors.append(finding) }
    case .warning: if warnings.count < limit { warnings.append(finding) }
    }
  }

  var hasErrors: Bool { !errors.isEmpty }
  /// The worst first.
  var sorted: [StoreFinding] { errors + warnings }
}
