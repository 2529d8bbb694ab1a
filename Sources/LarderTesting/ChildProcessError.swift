// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// How a process ended.
package enum ExitStatus: Hashable, Sendable, CustomStringConvertible {
  /// It returned from `main` or called `exit`.
  case exited(Int32)
  /// A signal ended it.
  case signalled(Int32)

  package var isSuccess: Bool { self == .exited(0) }

  package var description: String {
    switch self {
    case .exited(let code): "exited with \(code)"
    case .signalled(let signal): "was ended by signal \(signal)"
    }
  }

  /// Reads what `waitpid` reported about a process that ended; the macros are not visible here.
  init?(waitStatus: Int32) {
    let signal = waitStatus & 0x7f
    switch signal {
    case 0: self = .exited((waitStatus >> 8) & 0xff)
    case 0x7f: return nil
    default: self = .signalled(signal)
    }
  }
}

/// What went wrong between a process and its child.
package struct ChildProcessError: Error, CustomStringConvertible {
  /// What kind of failure it is. More may be added.
  package struct Code: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    /// The executable could not be started.
    package static let notStarted = Code(description: "notStarted")
    /// The deadline passed. The child is still alive.
    package static let timedOut = Code(description: "timedOut")
    /// The child closed its output: nothing more will come.
    package static let endOfOutput = Code(description: "endOfOutput")
    /// The child said something else than was expected.
    package static let unexpectedLine = Code(description: "unexpectedLine")
    /// The child no longer reads, or its input was closed.
    package static let inputClosed = Code(description: "inputClosed")
    /// The child has ended already.
    package static let ended = Code(description: "ended")
    /// A system call failed that should not.
    package static let system = Code(description: "system")
  }

  package let code: Code
  /// The call that failed, with its argument.
  package let operation: String
  /// How the child ended, if it has.
  package let status: ExitStatus?
  /// What happened, in a sentence.
  package let message: String
  /// What the child had written to a captured standard error, if anything.
  package let standardError: String

  package var description: String {
    var text = "\(operation): \(message)"
    if let status { text += " The child \(status)." }
    if !standardError.isEmpty { text += " Its standard error: \(standardError)" }
    return text
  }
}
