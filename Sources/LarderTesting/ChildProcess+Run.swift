// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension ChildProcess {
  /// All that a finished child has left.
  package struct Outcome: Sendable {
    package let status: ExitStatus
    package let lines: [String]
    package let standardError: String

    /// Its standard output as one text; every line ends with a newline.
    package var output: String { lines.map { $0 + "\n" }.joined() }
  }

  /// Runs an executable to its end.
  ///
  ///     let outcome = try ChildProcess.run(PeerExecutable.tool.path, ["stat", path])
  ///     #expect(outcome.status.isSuccess)
  ///
  /// - Parameter input: Lines for its standard input. They are written before anything is read,
  ///   so they and what is answered to them should stay well below a pipe's 64 kB.
  package static func run(
    _ executable: String, _ arguments: [String] = [], input: [String] = [],
    environment: [String: String] = [:], deadline: Duration = .seconds(60)
  ) throws(ChildProcessError) -> Outcome {
    let child = try ChildProcess(
      executable, arguments, environment: environment, standardError: .captured)
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
