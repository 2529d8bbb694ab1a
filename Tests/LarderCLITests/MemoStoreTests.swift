// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderMemo
import LarderSystem
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct MemoStoreTests {
  @Test func `A variable that is not set, one that is empty and each value are different keys`()
    throws
  {
    try withMemo { (ground) throws in
      let script = MemoGround.counting + "echo \"${WORD-unset}\""
      let options = ["--env", "WORD"]
      for _ in 0..<2 {
        for (environment, said) in [([:], "unset"), (["WORD": ""], ""), (["WORD": "a"], "a")] {
          #expect(try ground.memo(options, script, environment: environment).lines == [said])
        }
      }
      #expect(ground.runs == 3)
    }
  }

  @Test func `The working directory is part of the key only on request`() throws {
    try withMemo { (ground) throws in
      let other = ground.directory + "/other"
      try FileManager.default.createDirectory(
        atPath: other, withIntermediateDirectories: true)
      func lines(_ options: [String], in directory: String) throws -> [String] {
        try ChildProcess.run(
          ground.tool.path, ground.arguments("memo", options, "basename \"$PWD\""),
          workingDirectory: directory
        ).lines
      }
      #expect(try lines([], in: ground.directory) == ["work"])
      #expect(try lines([], in: other) == ["work"])
      #expect(try lines(["--cwd"], in: ground.directory) == ["work"])
      #expect(try lines(["--cwd"], in: other) == ["other"])
    }
  }

  @Test func `Output above the limit is forwarded completely and not kept`() throws {
    try withMemo { (ground) throws in
      let script = MemoGround.counting + "head -c 3000000 /dev/zero | tr '\\0' z"
      for _ in 0..<2 {
        let outcome = try ground.memo(["--max-size", "1M"], script)
        #expect(outcome.status == .exited(0))
        #expect(outcome.lines.first?.utf8.count == 3_000_000)
        #expect(outcome.standardError.contains("--max-size"))
      }
      #expect(ground.runs == 2)
      for _ in 0..<2 {
        let outcome = try ground.memo([], script)
        #expect(outcome.lines.first?.utf8.count == 3_000_000)
      }
      #expect(ground.runs == 3)
    }
  }

  @Test func `A reader that closes its pipe ends the command, and nothing is kept`() throws {
    try withMemo { (ground) throws in
      let outcome = try ChildProcess.run(
        "sh",
        [
          "-c",
          "\(ground.tool.path) memo --store \(ground.tool.store) -- sh -c 'printf x >> runs; yes' "
            + "| head -n 1; \(ground.tool.path) list --store \(ground.tool.store)",
        ], workingDirectory: ground.directory)
      #expect(outcome.lines == ["y"])
      #expect(ground.runs == 1)
    }
  }

  @Test func `Without a store the command runs, and a line on standard error names the reason`()
    throws
  {
    try withMemo { (ground) throws in
      _ = FileManager.default.createFile(atPath: ground.tool.store, contents: Data("mine".utf8))
      let outcome = try ground.memo([], "echo out; exit 5")
      #expect(outcome.status == .exited(5))
      #expect(outcome.lines == ["out"])
      #expect(outcome.standardError.contains("without the store \(ground.tool.store)"))
      let strict = try ground.memo(["--require-store"], MemoGround.counting)
      #expect(strict.status == .exited(70))
      #expect(ground.runs == 0)
      #expect(try ground.memo(["--quiet"], "echo out").standardError == "")
    }
  }

  @Test func `Warming runs the command though it is fresh, and a failure leaves the old result`()
    throws
  {
    try withMemo { (ground) throws in
      let script = MemoGround.counting + "[ ! -e bad ] || { echo no >&2; exit 9; }; wc -c < runs"
      func warm(_ options: [String] = []) throws -> ChildProcess.Outcome {
        try ChildProcess.run(
          ground.tool.path, ground.arguments("warm", options, script),
          workingDirectory: ground.directory)
      }
      #expect(try ground.memo([], script).lines == ["1"])
      let good = try warm()
      #expect(good.status == .exited(0))
      #expect(good.lines == [] && good.standardError == "")
      #expect(try ground.memo([], script).lines == ["2"])
      ground.make("bad")
      let bad = try warm()
      #expect(bad.status == .exited(9))
      #expect(bad.standardError.hasPrefix("no\n"))
      #expect(bad.standardError.contains("The stored result stays"))
      #expect(try ground.memo([], script).lines == ["2"])
      let kept = try warm(["--keep-failures"])
      #expect(kept.status == .exited(9) && kept.standardError.contains("The failure is stored"))
      #expect(try ground.memo(["--keep-failures"], script).status == .exited(9))
      #expect(ground.runs == 4)
    }
  }

  @Test func `The store is that of --store, else that of LARDER_STORE`() throws {
    try withMemo { (ground) throws in
      let named = ground.directory + "/named"
      let environment = ["LARDER_STORE": named]
      let outcome = try ChildProcess.run(
        ground.tool.path, ["set", "key", "value"], environment: environment)
      #expect(outcome.status.isSuccess)
      #expect(FileManager.default.fileExists(atPath: named + "/v1"))
      let got = try ChildProcess.run(ground.tool.path, ["get", "key"], environment: environment)
      #expect(got.lines == ["value"])
      let other = try ChildProcess.run(
        ground.tool.path, ["get", "key", "--store", ground.tool.store], environment: environment)
      #expect(other.status == .exited(2))
    }
  }

  // MARK: The pieces

  @Test func `A recording keeps every piece in order, and hostile bytes are refused`() throws {
    var random = SeededRandom(seed: Seed.announce().value)
    var recording = OutputRecorder(limit: 1 << 20)
    var pieces: [(UInt8, [UInt8])] = []
    for _ in 0..<50 {
      let piece = (0..<Int.random(in: 0...300, using: &random)).map { _ in
        UInt8.random(in: 0...255, using: &random)
      }
      let descriptor = UInt8.random(in: 1...2, using: &random)
      recording.append(piece, of: descriptor)
      if piece.isEmpty { continue }
      if let last = pieces.last, last.0 == descriptor {
        pieces[pieces.count - 1].1 += piece
      } else {
        pieces.append((descriptor, piece))
      }
    }
    let result = recording.finish(.killed(signal: 9), milliseconds: 12)
    let read = try #require(MemoResult(result.bytes))
    #expect(read.end == .killed(signal: 9))
    var found: [(UInt8, [UInt8])] = []
    read.forEachSegment { found.append(($0, Array($1))) }
    #expect(found.count == pieces.count)
    #expect(zip(found, pieces).allSatisfy { $0 == $1 })
    for count in 0..<result.bytes.count where count % 97 < 3 {
      // Cut between two pieces it is shorter, never outside of its bytes.
      MemoResult(Array(result.bytes.prefix(count)))?.forEachSegment { _, _ in }
    }
    for _ in 0..<2000 {
      var bytes = result.bytes
      bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(
        in: 0...255, using: &random)
      MemoResult(bytes)?.forEachSegment { _, _ in }
    }
  }

  @Test func `No two calls share a key`() {
    func key(
      _ arguments: [String], _ environment: [(name: String, value: [UInt8]?)] = [],
      _ directory: [UInt8]? = nil
    ) -> EncodedKey {
      CommandInvocation(
        path: "/bin/x", arguments: arguments, environment: environment, directory: directory
      ).key
    }
    let keys = [
      key(["x"]), key(["x", ""]), key(["x", "a", "b"]), key(["x", "ab"]), key(["x", "a b"]),
      key(["x"], [("A", nil)]), key(["x"], [("A", [])]), key(["x"], [("A", [1])]),
      key(["x"], [("A", nil), ("B", nil)]), key(["x"], [], [47]), key(["x"], [], []),
      key(["x"], [], [47, 0xFF]), key(["x"], [], [47, 0xFE]),
      key(["x", "A"]), key(["x", "/"]),
    ]
    #expect(Set(keys).count == keys.count)
  }
}
#endif
