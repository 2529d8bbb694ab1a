// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

/// One inconsistency that `verify()` found.
public struct StoreFinding: Sendable, Hashable, CustomStringConvertible {
  /// The severity of a finding.
  public enum Severity: String, Sendable, Hashable, Comparable, CaseIterable {
    /// Counters or indexes disagree; no value is affected.
    case warning
    /// An entry, or the file, is damaged.
    case error

    public static func < (left: Severity, right: Severity) -> Bool {
      left == .warning && right == .error
    }
  }

  /// The severity of the finding.
  public let severity: Severity
  /// The location of the finding: a file, a table or an entry.
  public let place: String
  /// A description of the finding.
  public let message: String

  init(severity: Severity, place: String, message: String) {
    self.severity = severity
    self.place = place
    self.message = message
  }

  /// Creates the finding for an error that prevents opening the store.
  package init(opening error: StoreError) {
    self.init(severity: .error, place: "opening", message: error.message)
  }

  /// Creates the finding for an error because of which the files of a damaged store were not checked.
  package init(unchecked error: StoreError) {
    self.init(
      severity: .warning, place: "verify",
      message: "The files were not checked: \(error.message)")
  }

  public var description: String { "\(severity.rawValue): \(place): \(message)" }
}

/// The progress of an operation over a complete store.
public struct StoreProgress: Sendable, Hashable {
  /// A phase of the operation.
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
  /// The number of items of the phase that were checked.
  public let done: Int
  /// The number of items of the phase, as far as it is known.
  public let total: Int
}

/// The collected findings, with a limit for each severity.
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
