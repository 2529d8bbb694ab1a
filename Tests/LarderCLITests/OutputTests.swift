// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTesting
import Testing

/// The tool's output is complete, or its exit code reports that it is not.
@Suite(.timeLimit(.minutes(60))) struct OutputTests {
  private func shell(_ tool: Tool, _ script: String, in directory: String) throws
    -> ChildProcess.Outcome
  {
    try ChildProcess.run(
      "/bin/sh", ["-c", "cd \"$0\" && " + script, directory, tool.path, tool.store],
      environment: ["LARDER_STORE": tool.store])
  }

  private func withFilledTool(_ body: (Tool, String) throws -> Void) throws {
    try withTemporaryDirectory { path in
      let tool = try Tool(store: path + "/store")
      for key in ["a", "b", "c"] { _ = try tool.output("set", key, "value of \(key)") }
      let directory = path + "/place"
      try FileManager.default.createDirectory(
        atPath: directory, withIntermediateDirectories: false)
      try body(tool, directory)
    }
  }

  private func names(in directory: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
  }

  @Test func `An export replaces an earlier file and leaves no temporary file`() throws {
    try withFilledTool { tool, directory in
      let file = directory + "/entries.jsonl"
      func mode() throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
      }
      for count in 3..<7 {
        #expect(try tool.output("export", file) == "Exported \(count) entries to \(file).\n")
        #expect(
          try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").count == count)
        #expect(try names(in: directory) == ["entries.jsonl"])
        if count > 3 { #expect(try mode() == 0o600) }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
        _ = try tool.output("set", "more \(count)", "value")
      }
      let relative = try shell(tool, "\"$1\" export entries.jsonl", in: directory)
      #expect(relative.status.isSuccess, "\(relative)")
      #expect(try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").count == 7)
    }
  }

  @Test func `An export does not touch a directory, and keeps a link and a pipe what they are`()
    throws
  {
    try withFilledTool { tool, directory in
      let outcome = try shell(
        tool,
        """
        mkdir -p sub/deep && echo precious > sub/deep/file
        "$1" export sub 2> refusal; echo $? > code
        echo old > target && ln -s target link && "$1" export link > said
        mkfifo pipe && { cat pipe > piped & } && "$1" export pipe >> said; wait
        "$1" export - > plain
        """, in: directory)
      #expect(outcome.status.isSuccess, "\(outcome)")
      func text(_ name: String) throws -> String {
        try String(contentsOfFile: directory + "/" + name, encoding: .utf8)
      }
      #expect(try text("code") == "64\n" && text("refusal").contains("is a directory"))
      #expect(try text("sub/deep/file") == "precious\n")
      let link = try FileManager.default.destinationOfSymbolicLink(atPath: directory + "/link")
      #expect(link == "target")
      let plain = try text("plain")
      #expect(plain.split(separator: "\n").count == 3)
      #expect(try text("target") == plain && text("piped") == plain)
    }
  }

  @Test(
    .enabled(
      if: FileManager.default.fileExists(atPath: "/dev/full"), "There is no /dev/full here."),
    arguments: [
      ("\"$1\" get a > /dev/full", 70), ("\"$1\" list > /dev/full", 70),
      ("\"$1\" stat --prometheus > /dev/full", 70), ("\"$1\" export - > /dev/full", 70),
      ("\"$1\" export /dev/full", 70),
      ("\"$1\" memo -- echo output > /dev/full", 1),
    ])
  func `Output that a full disk truncates is a failure`(command: String, code: Int32) throws {
    try withFilledTool { tool, directory in
      let outcome = try shell(tool, command, in: directory)
      #expect(outcome.status == .exited(code), "\(outcome)")
      #expect(outcome.standardError.contains("larder"), "\(outcome)")
    }
  }

  @Test func `Times that no number holds are refused, and options that contradict each other`()
    throws
  {
    try withFilledTool { tool, _ in
      let endless = String(repeating: "999999999d", count: 110)
      for arguments in [
        ["--ttl", endless], ["--stale", endless], ["--ttl", "3652501d"],
        ["--stdin", "--stale", "1h"],
      ] {
        let outcome = try ChildProcess.run(
          tool.path, ["memo", "--store", tool.store] + arguments + ["--", "true"])
        #expect(outcome.status == .exited(64), "\(outcome)")
      }
      #expect(try tool.run("set", "key", "value", "--expires", endless).status == .exited(64))
      let longest = try ChildProcess.run(
        tool.path,
        ["memo", "--store", tool.store, "--ttl", "3652500d", "--stale", "3652500d", "--", "true"])
      #expect(longest.status.isSuccess, "\(longest)")
    }
  }

  @Test func `What a terminal would obey is not shown`() throws {
    try withTemporaryDirectory { path in
      let tool = try Tool(store: path + "/store")
      let key = "red \u{1B}[31m and \u{1B}]0;title\u{7} and \u{202E}back"
      _ = try tool.output("set", key, "value", "--namespace", "a\u{1B}[2J")
      for text in [try tool.output("list"), try tool.output("stat")] {
        let isQuiet = text.unicodeScalars.allSatisfy {
          $0 == "\n" || $0.value >= 0x20 && $0.value != 0x7F && $0.value != 0x202E
        }
        #expect(isQuiet, "\(text.debugDescription)")
      }
      #expect(try tool.output("get", key, "--namespace", "a\u{1B}[2J") == "value\n")
    }
  }
}
#endif
