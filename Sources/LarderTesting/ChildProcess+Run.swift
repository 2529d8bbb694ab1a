// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension ChildProcess {
  /// All that a finished child has left.
  public struct Outcome: Sendable {
    /// How it ended.
    public let status: ExitStatus
    /// Its standard output.
    public let lines: [String]
    /// Its standard error, as one text.
    public let standardError: String

    /// Its standard output as one text; every line ends with a newline.
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
  ///   - input: Lines for its standard input. They are written before anything is read, so they
  ///     and what is answered to them should stay well below a pipe's 64 kB.
  ///   - environment: Variables to add or replace.
  ///   - workingDirectory: The working directory; that of this process if `nil`.
  ///   - deadline: For each step: one line of the input, all of the output, the end.
  /// - Throws: ``ChildProcessError``; the child is killed then.
  public static func run(
    _ executable: String, _ arguments: [String] = [], input: [String] = [],
    environment: [String: String] = [:], workingDirectory: String? = nil,
    deadline: Duration = .seconds(60)
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
