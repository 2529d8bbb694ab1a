// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTesting
import Testing

/// A directory to run commands in, with a store next to it, and the tool.
struct MemoGround {
  let tool: Tool
  let directory: String

  /// Runs `larder memo OPTIONS -- sh -c SCRIPT` in the directory.
  func memo(
    _ options: [String] = [], _ script: String, environment: [String: String] = [:]
  ) throws -> ChildProcess.Outcome {
    try ChildProcess.run(
      tool.path, arguments("memo", options, script), environment: environment,
      workingDirectory: directory)
  }

  func start(_ options: [String] = [], _ script: String) throws -> ChildProcess {
    try ChildProcess(
      tool.path, arguments("memo", options, script), workingDirectory: directory,
      standardError: .captured)
  }

  func arguments(_ command: String, _ options: [String], _ script: String) -> [String] {
    [command, "--store", tool.store] + options + ["--", "sh", "-c", script]
  }

  /// The number of runs of a script that begins with ``counting``.
  var runs: Int {
    (try? String(contentsOfFile: directory + "/runs", encoding: .utf8))?.count ?? 0
  }

  /// Counts the runs of a script.
  static let counting = "printf x >> runs; "

  func make(_ name: String) {
    _ = FileManager.default.createFile(atPath: directory + "/" + name, contents: nil)
  }
}

func withMemo(_ body: (MemoGround) throws -> Void) throws {
  try withTemporaryDirectory { (path) throws in
    let directory = path + "/work"
    try FileManager.default.createDirectory(
      atPath: directory, withIntermediateDirectories: true)
    try body(MemoGround(tool: Tool(store: path + "/store"), directory: directory))
  }
}

@Suite(.timeLimit(.minutes(60)))
struct MemoTests {
  @Test func `A command runs once and its outputs are replayed from then on`() throws {
    try withMemo { (ground) throws in
      let script = MemoGround.counting + "echo out; echo err >&2; echo more"
      for _ in 0..<3 {
        let outcome = try ground.memo([], script)
        #expect(outcome.status == .exited(0))
        #expect(outcome.lines == ["out", "more"])
        #expect(outcome.standardError == "err\n")
      }
      #expect(ground.runs == 1)
      #expect(try ground.memo(["--force"], script).status == .exited(0))
      #expect(ground.runs == 2)
    }
  }

  @Test func `The output of a command is replayed byte for byte`() throws {
    try withMemo { (ground) throws in
      let given = ground.directory + "/given"
      var random = SeededRandom(seed: Seed.announce().value)
      let bytes = (0..<300_000).map { _ in UInt8.random(in: 0...255, using: &random) }
      try Data(bytes).write(to: URL(fileURLWithPath: given))
      for pass in ["run", "replay"] {
        let command =
          "\(ground.tool.path) memo --store \(ground.tool.store) -- sh -c 'cat given; cat given >&2' "
          + "> out 2> err; cmp out first 2>&1; cmp err first 2>&1"
        if pass == "run" {
          try FileManager.default.copyItem(atPath: given, toPath: ground.directory + "/first")
        } else {
          try Data("other".utf8).write(to: URL(fileURLWithPath: given))
        }
        let outcome = try ChildProcess.run(
          "sh", ["-c", command], workingDirectory: ground.directory)
        #expect(outcome.status.isSuccess, "\(pass): \(outcome.output)\(outcome.standardError)")
      }
    }
  }

  @Test func `Of eight callers at once one runs the command and all get its result`() throws {
    try withMemo { (ground) throws in
      let script =
        MemoGround.counting + "while [ ! -e go ]; do sleep 0.02; done; echo done; echo stderr >&2"
      let callers = try (0..<8).map { _ in try ground.start([], script) }
      ground.make("go")
      for caller in callers {
        #expect(try caller.remainingLines() == ["done"])
        #expect(try caller.wait() == .exited(0))
        #expect(caller.standardErrorText == "stderr\n")
      }
      #expect(ground.runs == 1)
    }
  }

  @Test func `A killed runner is replaced by a caller that waits`() throws {
    try withMemo { (ground) throws in
      let script = """
        if [ -e started ]; then echo done; exit; fi
        touch started; echo $$; exec sleep 600
        """
      let runner = try ground.start([], script)
      let command = try #require(Int32(try runner.nextLine()))
      defer { kill(command, SIGKILL) }
      let waiting = try (0..<3).map { _ in try ground.start([], script) }
      runner.kill()
      #expect(try runner.wait() == .killed)
      for caller in waiting {
        #expect(try caller.remainingLines() == ["done"])
        #expect(try caller.wait() == .exited(0))
      }
    }
  }

  @Test func `A caller that waits for a stopped runner times out and names it`() throws {
    try withMemo { (ground) throws in
      let script = """
        if [ -e started ]; then echo done; exit; fi
        touch started; echo $$; exec sleep 600
        """
      let runner = try ground.start([], script)
      let command = try #require(Int32(try runner.nextLine()))
      defer { kill(command, SIGKILL) }
      try runner.stop()
      let pid = runner.processIdentifier
      let caller = try ground.memo(["--wait", "200ms"], script)
      #expect(caller.lines == ["done"] && caller.status == .exited(0), "\(caller)")
      #expect(caller.standardError.contains("Process \(pid) runs the command"), "\(caller)")
      let strict = try ground.memo(["--wait", "200ms", "--require-store"], script)
      #expect(strict.lines.isEmpty && strict.status == .exited(70), "\(strict)")
      let warm = try ChildProcess.run(
        ground.tool.path, ground.arguments("warm", ["--wait", "200ms"], script),
        workingDirectory: ground.directory)
      #expect(warm.status == .exited(70), "\(warm)")
      #expect(warm.standardError.contains("Process \(pid) runs the command"), "\(warm)")
      runner.kill()
    }
  }

  @Test func `A stale result is served at once while the command runs in the background`() throws {
    try withMemo { (ground) throws in
      let options = ["--ttl", "1ms", "--stale", "1h"]
      // The second run waits until it is released; by then no process holds the caller's output
      // open.
      let script =
        MemoGround.counting
        + "[ -e first ] || { touch first; echo old; exit; }; touch running; "
        + "while [ ! -e go ]; do sleep 0.02; done; echo new; sleep 0.1"
      #expect(try ground.memo(options, script).lines == ["old"])
      repeat {
        #expect(try ground.memo(options, script).lines == ["old"])
      } while !FileManager.default.fileExists(atPath: ground.directory + "/running")
      #expect(try ground.memo(options, script).lines == ["old"])
      #expect(ground.runs == 2)
      ground.make("go")
      try eventually("the new result is served") {
        try ground.memo(options, script).lines == ["new"]
      }
    }
  }

  @Test func `A result too old is not served`() throws {
    try withMemo { (ground) throws in
      let script = MemoGround.counting + "wc -c < runs"
      #expect(try ground.memo(["--ttl", "never"], script).lines == ["1"])
      #expect(try ground.memo(["--ttl", "1h"], script).lines == ["1"])
      #expect(try ground.memo(["--ttl", "1ms"], script).lines == ["2"])
    }
  }

  @Test func `An exit status is forwarded, and a failure is kept only on request`() throws {
    try withMemo { (ground) throws in
      let script = MemoGround.counting + "echo why >&2; exit 3"
      for _ in 0..<2 { #expect(try ground.memo([], script).status == .exited(3)) }
      #expect(ground.runs == 2)
      for _ in 0..<2 {
        let outcome = try ground.memo(["--keep-failures"], script)
        #expect(outcome.status == .exited(3))
        #expect(outcome.standardError == "why\n")
      }
      #expect(ground.runs == 3)
      #expect(try ground.memo([], script).status == .exited(3))
      #expect(ground.runs == 4)
    }
  }

  @Test func `A command that a signal ends ends the tool by the same signal, replayed as well`()
    throws
  {
    try withMemo { (ground) throws in
      let script = MemoGround.counting + "echo said; kill -TERM $$"
      for _ in 0..<2 {
        let outcome = try ground.memo(["--keep-failures"], script)
        #expect(outcome.status == .signalled(SIGTERM))
        #expect(outcome.lines == ["said"])
      }
      #expect(ground.runs == 1)
    }
  }

  @Test(arguments: [SIGTERM, SIGINT, SIGHUP])
  func `A signal that is sent to the tool goes to the command`(signal: Int32) throws {
    try withMemo { (ground) throws in
      let script = """
        trap 'echo caught; exit 7' TERM INT HUP
        echo ready; while :; do sleep 0.02; done
        """
      let child = try ground.start([], script)
      try child.expect("ready")
      child.kill(signal)
      try child.expect("caught")
      #expect(try child.wait() == .exited(7))
    }
  }

  @Test func `Standard input is empty unless it is wanted`() throws {
    try withMemo { (ground) throws in
      #expect(try ground.tool.output("memo", "--", "cat", input: ["unread"]) == "")
      #expect(try ground.tool.output("memo", "--stdin", "--", "cat", input: ["read"]) == "read\n")
    }
  }

  @Test func `A command that is not there or may not run ends as in a shell, without a store`()
    throws
  {
    try withMemo { (ground) throws in
      ground.make("plain")
      for (command, code) in [("no-such-command", 127), ("./nothing", 127), ("./plain", 126)] {
        let outcome = try ChildProcess.run(
          ground.tool.path, ["memo", "--store", ground.tool.store, "--", command],
          workingDirectory: ground.directory)
        #expect(outcome.status == .exited(Int32(code)), "\(command)")
        #expect(outcome.standardError.contains(command.dropFirst(2)))
      }
      #expect(!FileManager.default.fileExists(atPath: ground.tool.store))
    }
  }

  @Test(arguments: [
    "--ttl=5x", "--ttl=", "--ttl=0s", "--stale=never", "--max-size=7Q", "--env=A=B",
  ])
  func `An invalid time or size is a usage error`(option: String) throws {
    try withMemo { (ground) throws in
      let outcome = try ground.memo([option], MemoGround.counting)
      #expect(outcome.status == .exited(64))
      #expect(ground.runs == 0)
    }
  }
}
#endif
