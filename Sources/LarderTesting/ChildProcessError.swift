// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

extension ChildProcess {
  // Inside, because Swift Testing has a type of this name as well.
  /// How a process ended.
  public enum ExitStatus: Hashable, Sendable, CustomStringConvertible {
    /// It returned from `main` or called `exit`.
    case exited(Int32)
    /// A signal ended it.
    case signalled(Int32)

    /// Ended by `SIGKILL`: by ``ChildProcess/kill(_:)``, by a fault point, or for want of memory.
    public static var killed: ExitStatus { .signalled(SIGKILL) }

    /// Whether it is `.exited(0)`.
    public var isSuccess: Bool { self == .exited(0) }

    /// As in "The child was ended by signal 9".
    public var description: String {
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
}

/// What went wrong between a process and its child.
///
/// Its description names the child, the call, how the child ended if it has, and what it had
/// written to a captured standard error: enough for a test's log.
public struct ChildProcessError: Error, CustomStringConvertible {
  /// What kind of failure it is. More may be added.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    /// The code's name.
    public let description: String

    /// The executable could not be started.
    public static let notStarted = Code(description: "notStarted")
    /// The deadline passed. The child is still alive.
    public static let timedOut = Code(description: "timedOut")
    /// The child closed its output: nothing more will come.
    public static let endOfOutput = Code(description: "endOfOutput")
    /// The child said something else than was expected.
    public static let unexpectedLine = Code(description: "unexpectedLine")
    /// The child no longer reads, or its input was closed.
    public static let inputClosed = Code(description: "inputClosed")
    /// The child has ended already.
    public static let ended = Code(description: "ended")
    /// A system call failed that should not.
    public static let system = Code(description: "system")
  }

  /// What kind of failure it is.
  public let code: Code
  /// The call that failed, with its argument.
  public let operation: String
  /// How the child ended, if it has.
  public let status: ChildProcess.ExitStatus?
  /// What happened, in a sentence.
  public let message: String
  /// What the child had written to a captured standard error, if anything.
  public let standardError: String

  /// All of the above, in one text.
  public var description: String {
    var text = "\(operation): \(message)"
    if let status { text += " The child \(status)." }
    if !standardError.isEmpty { text += " Its standard error: \(standardError)" }
    return text
  }
}
