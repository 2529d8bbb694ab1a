// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTesting
import Testing

/// Commands that run where a path is not UTF-8, or missing.
@Suite(.timeLimit(.minutes(60)))
struct MemoPlaceTests {
  /// Runs a shell script with the tool as `$T`.
  private func run(
    _ ground: MemoGround, _ script: String
  ) throws -> ChildProcess.Outcome {
    try ChildProcess.run(
      "sh", ["-c", script],
      environment: [
        "T": ground.tool.path, "LARDER_STORE": ground.tool.store,
        "RUNS": ground.directory + "/runs",
      ], workingDirectory: ground.directory)
  }

  /// Two directories whose names differ in one byte that is not UTF-8.
  private static let directories = #"""
    for i in 376 377; do d=$(printf "u\\$i"); mkdir -p "$d"
    """#

  @Test func `Directories whose names are not UTF-8 have separate results`() throws {
    try withMemo { (ground) throws in
      let script = #"; cd "$d"; echo "$i" > name; "$T" memo --cwd -- cat name; cd ..; done"#
      #expect(try run(ground, Self.directories + script).lines == ["376", "377"])
      let again = #"; cd "$d"; echo new > name; "$T" memo --cwd -- cat name; cd ..; done"#
      #expect(try run(ground, Self.directories + again).lines == ["376", "377"])
    }
  }

  @Test func `A command is found below a directory whose name is not UTF-8`() throws {
    try withMemo { (ground) throws in
      let script = #"""
        ; cd "$d"; printf '#!/bin/sh\necho here\n' > tool; chmod +x tool
        "$T" memo -- ./tool; PATH="$PWD:$PATH" "$T" memo -- tool; PATH=":$PATH" "$T" memo -- tool
        cd ..; "$T" memo -- "$d/tool"; "$T" memo -- "$PWD/$d/tool"; done
        """#
      let outcome = try run(ground, Self.directories + script)
      #expect(outcome.lines == [String](repeating: "here", count: 10), "\(outcome.standardError)")
      #expect(!outcome.standardError.contains("larder"), "\(outcome.standardError)")
    }
  }

  @Test func `A result of a removed working directory is never another's`() throws {
    try withMemo { (ground) throws in
      let memo = #""$T" memo --cwd -- sh -c 'printf x >> "$RUNS"; echo said'"#
      let gone = try run(
        ground, "mkdir gone; cd gone; rmdir ../gone; \(memo); \(memo); cd /; \(memo)")
      #expect(gone.lines == ["said", "said", "said"], "\(gone.standardError)")
      #expect(ground.runs == 3)
      #expect(
        gone.standardError.split(separator: "\n").count {
          $0.contains("runs without") && $0.contains("The working directory was removed")
        } == 2)
      // That of `/` was kept.
      #expect(try run(ground, "cd /; \(memo)").lines == ["said"])
      #expect(ground.runs == 3)
      let required = try run(
        ground, #"mkdir gone; cd gone; rmdir ../gone; "$T" memo --cwd --require-store -- echo a"#)
      #expect(required.status == .exited(70) && required.output.isEmpty)
      // Without --cwd the directory makes no difference.
      let anywhere = #""$T" memo -- sh -c 'printf x >> "$RUNS"'"#
      _ = try run(ground, "mkdir gone; cd gone; rmdir ../gone; \(anywhere); \(anywhere)")
      #expect(ground.runs == 4)
    }
  }

  @Test func `A store by a relative path needs a working directory, or an error names it`() throws {
    try withMemo { (ground) throws in
      let outcome = try run(
        ground, #"mkdir gone; cd gone; rmdir ../gone; "$T" set --store store key value"#)
      #expect(outcome.status == .exited(70))
      #expect(outcome.standardError.contains("absolute path"), "\(outcome.standardError)")
    }
  }

  @Test func `A tool without standard descriptors writes into no other`() throws {
    try withMemo { (ground) throws in
      let seen = ground.directory + "/seen"
      let look = #"for f in 0 1 2; do readlink /proc/$PPID/fd/$f; done > "$1"; echo a; echo b >&2"#
      for options in ["", "--force"] {
        let outcome = try run(
          ground, "\"$T\" memo \(options) -- sh -c '\(look)' sh \(seen) <&- >&- 2>&-")
        // The output of the command is lost.
        #expect(outcome.status == .exited(1))
        let links = try String(contentsOfFile: seen, encoding: .utf8)
        #expect(links == "/dev/null\n/dev/null\n/dev/null\n")
      }
      #expect(try run(ground, "\"$T\" set key value <&- >&- 2>&-").status == .exited(0))
      #expect(try run(ground, "\"$T\" get key <&- 2>&-").output == "value\n")
      // The answer is lost.
      #expect(try run(ground, "\"$T\" stat <&- >&- 2>&-").status == .exited(70))
    }
  }
}
#endif
