// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension ChildProcess {
  /// The result of a finished child.
  public struct Outcome: Sendable {
    /// The exit status.
    public let status: ExitStatus
    /// The lines of the standard output.
    public let lines: [String]
    /// The standard error as one string.
    public let standardError: String

    /// The standard output as one string; every line ends with a newline.
    public var output: String { lines.map { $0 + "\n" }.joined() }
  }

  /// Runs an executable to its end.
  ///
  /// ```swift
  /// let outcome = try ChildProcess.run("larder", ["stat", "--store", store.path])
  /// #expect(outcome.status.isSuccess)
  /// ```
  ///
  /// - Parameters:
  ///   - executable: A path, or a name that is searched in `PATH`.
  ///   - arguments: The arguments of the process.
  ///   - input: Lines for the standard input. They are written before any output is read, so the
  ///     lines and the answers to them should be well below the 64 kB of a pipe.
  ///   - environment: Variables to add or replace.
  ///   - workingDirectory: The working directory; that of this process if `nil`.
  ///   - deadline: The time limit of each step: one line of the input, all output, the exit.
  /// - Throws: ``ChildProcessError``; the child is killed in that case.
  public static func run(
    _ executable: String, _ arguments: [String] = [], input: [String] = [],
    environment: [String: String] = [:], workingDirectory: String? = nil,
    deadline: Duration = .seconds(600)
  ) throws(ChildProcessError) -> Outcome {
    let child = try ChildProcess(
      executable, arguments, environment: environment, workingDirectory: workingDirectory,
      standardError: .captured)
    for line in input {
      do {
        try child.send(line, deadline: deadline)
      } catch  where error.code == .inputClosed {
        break  // It need not read what it is given.
      }
    }
    child.closeInput()
    let lines = try child.remainingLines(deadline: deadline)
    let status = try child.wait(deadline: deadline)
    return Outcome(status: status, lines: lines, standardError: child.standardErrorText)
  }
}
