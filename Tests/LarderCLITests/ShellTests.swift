// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTesting
import Testing

/// The tool's behaviour in a person's shell and terminal.
@Suite(.timeLimit(.minutes(60)))
struct ShellTests {
  private static func isInstalled(_ program: String) -> Bool {
    ["/bin/", "/usr/bin/", "/usr/local/bin/"].contains {
      FileManager.default.isExecutableFile(atPath: $0 + program)
    }
  }

  private func script(_ shell: String, in directory: String) throws -> String {
    let tool = try Tool(store: directory + "/store")
    let file = directory + "/script"
    let outcome = try ChildProcess.run(tool.path, ["completions", shell])
    #expect(outcome.status.isSuccess)
    try Data(outcome.output.utf8).write(to: URL(fileURLWithPath: file))
    return file
  }

  @Test func `Completions of bash complete commands and options`() throws {
    try withTemporaryDirectory { (directory) throws in
      let file = try script("bash", in: directory)
      #expect(try ChildProcess.run("bash", ["-n", file]).status.isSuccess)
      func complete(_ words: [String]) throws -> Set<Substring> {
        let line = words.joined(separator: " ")
        let list = words.map { "'\($0)'" }.joined(separator: " ")
        let outcome = try ChildProcess.run(
          "bash",
          [
            "-c",
            "source \(file); COMP_WORDS=(\(list)); COMP_CWORD=\(words.count - 1); "
              + "COMP_LINE='\(line)'; COMP_POINT=\(line.count); "
              + "_larder larder '\(words.last!)' '\(words[words.count - 2])'; "
              + "echo \"${COMPREPLY[@]}\"",
          ])
        return Set(outcome.output.split(whereSeparator: \.isWhitespace))
      }
      #expect(try complete(["larder", "me"]) == ["memo"])
      #expect(try complete(["larder", "memo", "--st"]) == ["--stale", "--stdin", "--store"])
      #expect(try complete(["larder", "completions", "z"]) == ["zsh"])
    }
  }

  @Test(
    .enabled(if: ShellTests.isInstalled("zsh"), "no zsh is installed"))
  func `Completions of zsh are zsh`() throws {
    try withTemporaryDirectory { (directory) throws in
      let outcome = try ChildProcess.run("zsh", ["-n", script("zsh", in: directory)])
      #expect(outcome.status.isSuccess, "\(outcome.standardError)")
    }
  }

  @Test(
    .enabled(if: ShellTests.isInstalled("fish"), "no fish is installed"))
  func `Completions of fish complete commands`() throws {
    try withTemporaryDirectory { (directory) throws in
      let file = try script("fish", in: directory)
      let outcome = try ChildProcess.run(
        "fish", ["-c", "source \(file); complete -C 'larder me'"])
      #expect(outcome.output.contains("memo"), "\(outcome.standardError)")
    }
  }

  @Test func `The manual page names every command`() throws {
    try withTool { (tool) throws in
      let page = try ChildProcess.run(tool.path, ["manual"]).output
      let help = try ChildProcess.run(tool.path, ["--help"]).lines
      let start = try #require(help.firstIndex { $0.hasPrefix("SUBCOMMANDS") })
      let commands = help[(start + 1)...].compactMap { line in
        line.hasPrefix("  ") && !line.hasPrefix("   ")
          ? line.split(separator: " ").first.map(String.init) : nil
      }
      #expect(commands.contains("memo") && commands.contains("stat"))
      for command in commands where command != "help" && command.first!.isLowercase {
        #expect(page.contains(".SS \"larder \(command)\""), "\(command)")
      }
    }
  }

  @Test(.enabled(if: ShellTests.isInstalled("groff"), "no groff is installed"))
  func `Roff finds nothing wrong with the manual page`() throws {
    try withTool { (tool) throws in
      let page = try ChildProcess.run(tool.path, ["manual"]).output
      let file = tool.store + ".1"
      try Data(page.utf8).write(to: URL(fileURLWithPath: file))
      let roff = try ChildProcess.run("groff", ["-man", "-Tutf8", "-ww", "-z", file])
      #expect(roff.standardError == "")
    }
  }

  @Test func `Colours are for terminals, unless requested or forbidden`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value")
      #expect(try !tool.output("list").contains("\u{1B}"))
      #expect(try tool.output("list", "--color", "always").hasPrefix("\u{1B}[1mKEY"))
      #expect(try tool.run("list", "--color", "often").status == .exited(64))
    }
  }

  @Test(
    .enabled(if: ShellTests.isInstalled("script"), "there is no `script`, which makes a terminal"))
  func `A terminal gets colours and rows that fit, but not with NO_COLOR or a dumb one`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", String(repeating: "k", count: 300), "value")
      func list(_ environment: [String: String]) throws -> String {
        try ChildProcess.run(
          "script", ["-qec", "\(tool.path) list --store \(tool.store)", "/dev/null"],
          environment: ["TERM": "xterm", "COLUMNS": "70", "NO_COLOR": ""].merging(environment) {
            $1
          }
        ).lines.map { $0.filter { $0 != "\r" } + "\n" }.joined()
      }
      #expect(try list([:]).contains("\u{1B}[1m"))
      let plain = try list(["NO_COLOR": "1"])
      #expect(!plain.contains("\u{1B}"))
      #expect(plain.split(separator: "\n").allSatisfy { $0.count <= 70 }, "\(plain)")
      for columns in [24, 30, 40, 55, 69] {
        let narrow = try list(["NO_COLOR": "1", "COLUMNS": "\(columns)"])
        #expect(narrow.split(separator: "\n").allSatisfy { $0.count <= columns }, "\(narrow)")
      }
      #expect(try !list(["TERM": "dumb"]).contains("\u{1B}"))
    }
  }
}
#endif
