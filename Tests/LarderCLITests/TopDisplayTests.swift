// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
#if os(Linux)
import Foundation
import Larder
import LarderTesting
import Testing

private let hasScript = FileManager.default.isExecutableFile(atPath: "/usr/bin/script")

/// The live form of `larder top`, in a terminal that the command `script` provides.
@Suite(
  .serialized, .timeLimit(.minutes(60)),
  .enabled(if: hasScript, "the command script is not installed"))
struct TopDisplayTests {
  private static let alternate = "\u{1B}[?1049h"
  private static let normal = "\u{1B}[?1049l"

  /// A terminal in which the display runs, then `stty`, then an echo of the exit status.
  private final class Terminal {
    let process: ChildProcess
    private(set) var text = ""
    private(set) var device = ""
    private(set) var pid: Int32 = 0

    /// - Parameter resumes: Whether the display is stopped once, and continued by the shell.
    init(_ tool: Tool, columns: Int, rows: Int, resumes: Bool) throws {
      // With job control, as in a shell of a person: the kernel stops no orphaned process group.
      let script =
        "trap : INT TERM; \(resumes ? "set -m;" : "") stty rows \(rows) cols \(columns); tty; "
        + "sh -c 'echo pid $$; exec \"$0\" top \"$1\" --interval 0.2' "
        + "'\(tool.path)' '\(tool.store)'; "
        + (resumes ? "echo stopped $?; stty -a; echo halfway; fg; " : "")
        + "echo status $?; stty -a; echo all over"
      process = try ChildProcess(
        "script", ["-qfec", script, "/dev/null"],
        environment: ["TERM": "xterm", "COLUMNS": "", "SHELL": "/bin/bash"])
      while pid == 0 {
        let line = try process.nextLine().trimmingCharacters(in: .whitespacesAndNewlines)
        if line.hasPrefix("/dev/") { device = line }
        if line.hasPrefix("pid ") { pid = Int32(line.dropFirst(4)) ?? -1 }
      }
    }

    /// Reads until a line has a text.
    func read(until wanted: String) throws {
      while true {
        let line = try process.nextLine()
        text += line + "\n"
        if line.contains(wanted) { return }
      }
    }

    /// Sets the size, of which the kernel informs the display.
    func resize(columns: Int, rows: Int) throws {
      let outcome = try ChildProcess.run(
        "stty", ["-F", device, "rows", "\(rows)", "cols", "\(columns)"])
      #expect(outcome.status.isSuccess, "\(outcome.standardError)")
    }

    /// Reads the rest, and demands that the terminal is as before.
    func expectEnd(status: Int) throws {
      try read(until: "all over")
      #expect(text.contains("status \(status)\r"), "\(text.debugDescription)")
      #expect(text.contains(" icanon ") && text.contains(" echo "), "\(text.suffix(600))")
      #expect(text.contains("\u{1B}[?25h") && text.contains(TopDisplayTests.normal))
      #expect(try process.wait() == .exited(0))
    }
  }

  private func withTerminal(
    columns: Int = 80, rows: Int = 24, resumes: Bool = false,
    _ body: (Terminal, SharedStore) throws -> Void
  ) throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      try store.setBytes([1], forKey: "key", in: "space")
      try body(Terminal(tool, columns: columns, rows: rows, resumes: resumes), store)
    }
  }

  @Test func `The display is drawn again, and q restores the terminal`() throws {
    try withTerminal { terminal, _ in
      for _ in 0..<3 { try terminal.read(until: "larder top") }
      #expect(terminal.text.contains(Self.alternate))
      try terminal.process.send("q")
      try terminal.expectEnd(status: 0)
    }
  }

  @Test func `SIGINT, SIGTERM and SIGHUP restore the terminal and end the process by the signal`()
    throws
  {
    for (signal, status) in [(SIGINT, 130), (SIGTERM, 143), (SIGHUP, 129)] {
      try withTerminal { terminal, _ in
        try terminal.read(until: "larder top")
        kill(terminal.pid, signal)
        try terminal.expectEnd(status: status)
      }
    }
  }

  @Test func `A stop by the terminal restores it, and the display continues afterwards`() throws {
    try withTerminal(resumes: true) { terminal, _ in
      try terminal.read(until: "larder top")
      // The key of the terminal that stops its processes.
      try terminal.process.send("\u{1A}")
      try terminal.read(until: "halfway")
      #expect(terminal.text.contains("stopped 148\r"), "\(terminal.text.suffix(900))")
      #expect(terminal.text.contains(Self.normal) && terminal.text.contains(" icanon "))
      try terminal.read(until: Self.alternate)
      try terminal.read(until: "larder top")
      try terminal.process.send("q")
      try terminal.expectEnd(status: 0)
    }
  }

  @Test func `A narrow terminal and a resized one are filled and not exceeded`() throws {
    try withTerminal(columns: 40, rows: 10) { terminal, store in
      for _ in 0..<3 { try terminal.read(until: "larder top") }
      func lines() -> [String] {
        // Each display begins in the first row, after the last one of the display before.
        let text = String(
          String.UnicodeScalarView(terminal.text.unicodeScalars.filter { $0 != "\r" }))
        return text.replacing("\u{1B}[H", with: "\n").components(separatedBy: "\n").map {
          $0.replacing(/\u{1B}\[[?0-9;]*[a-zA-Z]/, with: "")
        }
      }
      #expect(lines().allSatisfy { $0.count <= 40 }, "\(lines())")
      #expect(!terminal.text.contains("NAMESPACE"), "no row is left for it")
      try terminal.resize(columns: 120, rows: 50)
      try terminal.read(until: "BYTES/s")
      for size in [(1, 1), (5, 3), (300, 2)] {
        try terminal.resize(columns: size.0, rows: size.1)
        for key in 0..<3 { try store.setBytes([1], forKey: key) }
      }
      try terminal.resize(columns: 80, rows: 24)
      try terminal.read(until: "BYTES/s")
      try terminal.process.send("q")
      try terminal.expectEnd(status: 0)
    }
  }

  @Test func `The display follows a store that is compacted, removed and created again`() throws {
    try withTerminal { terminal, store in
      try terminal.read(until: "generation 1")
      try store.compact()
      try terminal.read(until: "generation 2")
      store.close()
      try FileManager.default.removeItem(atPath: store.path)
      try terminal.read(until: "No store is there now")
      let again = try SharedStore(at: store.path)
      try again.setBytes([1], forKey: 1, in: "second")
      try terminal.read(until: "second")
      try terminal.process.send("q")
      try terminal.expectEnd(status: 0)
    }
  }
}
#endif
#endif
