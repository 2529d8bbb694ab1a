// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension ChildProcess {
  // Nested, because Swift Testing has a type of this name.
  /// The exit status of a process.
  public enum ExitStatus: Hashable, Sendable, CustomStringConvertible {
    /// The process returned from `main` or called `exit`.
    case exited(Int32)
    /// A signal ended the process.
    case signalled(Int32)

    /// `SIGKILL` ended the process: ``ChildProcess/kill(_:)``, a fault point, or the kernel without
    /// memory.
    public static var killed: ExitStatus { .signalled(SIGKILL) }

    /// Whether the status is `.exited(0)`.
    public var isSuccess: Bool { self == .exited(0) }

    /// The status as a predicate, as in "The child was ended by signal 9".
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

/// A failure of a call on a child process.
///
/// The description contains the child, the call, the exit status if the child has exited, and the
/// captured standard error.
public struct ChildProcessError: Error, CustomStringConvertible {
  /// The category of a failure. Later versions may add codes.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    /// The name of the code.
    public let description: String

    /// The executable could not be started.
    public static let notStarted = Code(description: "notStarted")
    /// The deadline passed. The child still runs.
    public static let timedOut = Code(description: "timedOut")
    /// The child closed its output.
    public static let endOfOutput = Code(description: "endOfOutput")
    /// The child wrote another line than the expected one.
    public static let unexpectedLine = Code(description: "unexpectedLine")
    /// The child no longer reads, or its input was closed.
    public static let inputClosed = Code(description: "inputClosed")
    /// The child has already exited.
    public static let ended = Code(description: "ended")
    /// A system call failed unexpectedly.
    public static let system = Code(description: "system")
  }

  /// The category of the failure.
  public let code: Code
  /// The call that failed, with its argument.
  public let operation: String
  /// The exit status, if the child has exited.
  public let status: ChildProcess.ExitStatus?
  /// The failure in a sentence.
  public let message: String
  /// The captured standard error of the child, or an empty string.
  public let standardError: String

  /// The failure with its call, exit status and standard error.
  public var description: String {
    var text = "\(operation): \(message)"
    if let status { text += " The child \(status)." }
    if !standardError.isEmpty { text += " Its standard error: \(standardError)" }
    return text
  }
}
