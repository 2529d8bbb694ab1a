// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// `larder replay` with a separate temporary directory.
struct ReplayGround {
  let directory: String
  let tool: String

  var temporary: String { directory + "/tmp" }

  func run(_ arguments: [String], input: [String] = []) throws -> ChildProcess.Outcome {
    try ChildProcess.run(
      tool, ["replay"] + arguments, input: input, environment: ["TMPDIR": temporary])
  }

  /// Writes a trace and returns its path.
  func trace(_ lines: [String], _ name: String = "trace") throws -> String {
    let path = directory + "/" + name
    try lines.map { $0 + "\n" }.joined().write(toFile: path, atomically: true, encoding: .utf8)
    return path
  }

  /// Replays with `--json` and returns the object of each trace.
  func json(_ arguments: [String], input: [String] = []) throws -> [[String: Any]] {
    let outcome = try run(arguments + ["--json"], input: input)
    try #require(outcome.status.isSuccess, "\(arguments): \(outcome.standardError)")
    return try #require(try Tool.object(outcome.output)["traces"] as? [[String: Any]])
  }

  var leftovers: [String] {
    get throws { try FileManager.default.contentsOfDirectory(atPath: temporary) }
  }
}

func withReplay(_ body: (ReplayGround) throws -> Void) throws {
  try withTemporaryDirectory { path in
    let ground = ReplayGround(directory: path, tool: try TestExecutable.tool.path)
    try FileManager.default.createDirectory(
      atPath: ground.temporary, withIntermediateDirectories: false)
    try body(ground)
    #expect(try ground.leftovers.isEmpty)
  }
}

extension [String: Any] {
  func objects(_ name: String) throws -> [[String: Any]] {
    try #require(self[name] as? [[String: Any]])
  }

  func number(_ name: String) throws -> Int { try #require(self[name] as? Int) }
}

@Suite(.timeLimit(.minutes(60))) struct ReplayCommandTests {
  private static let letters = ["a", "b", "a", "c", "a", "b"]

  @Test func `A replay prints accesses, distinct keys, hits and the hit ratio`() throws {
    try withReplay { ground in
      let path = try ground.trace(["# a comment"] + Self.letters)
      let outcome = try ground.run([path, "--entries", "3"])
      #expect(outcome.status.isSuccess && outcome.standardError.isEmpty, "\(outcome)")
      for line in [
        "policy          adaptive", "capacity        3 entries", "accesses        6",
        "distinct keys   3", "hits            3", "hit ratio       50.00 %", "evictions       0",
      ] { #expect(outcome.lines.contains(line), "\(outcome.output)") }
      let small = try ground.run([path])
      #expect(small.output.contains("1 entry (a tenth of the distinct keys)"))
      let several = try ground.run([path, path, "--policy", "sampledLRU", "--entries", "2,3"])
      #expect(several.lines.count == 5, "\(several.output)")
    }
  }

  @Test func `The JSON output has the counts of each run and process`() throws {
    try withReplay { ground in
      let trace = try ground.json(["-", "--bytes", "1M"], input: ["a 10", "b 30", "a 10"])[0]
      #expect(try trace.number("accesses") == 3 && trace.number("distinctKeys") == 2)
      #expect(try trace.number("requestedBytes") == 50)
      let run = try #require(try trace.objects("runs").first)
      #expect(run["policy"] as? String == "adaptive")
      #expect(try run.number("bytes") == 1 << 20 && run.number("hits") == 1)
      #expect(try run.number("hitBytes") == 10 && run.number("evictions") == 0)
      #expect(abs((run["hitRatio"] as? Double ?? 0) - 1 / 3.0) < 1e-9)
      #expect(abs((run["byteHitRatio"] as? Double ?? 0) - 0.2) < 1e-9)
      #expect(try run.number("operationsPerSecond") > 0)
      let process = try #require(try run.objects("processes").first)
      #expect(try process.number("accesses") == 3 && process.number("hits") == 1)
      #expect(trace["simulations"] == nil)
    }
  }

  @Test func `Text, CSV, ARC and compressed traces of the same accesses have the same hits`() throws
  {
    try withReplay { ground in
      let text = try ground.trace(["7 5", "8 6", "9 7", "8 6\r", "7 5"], "text")
      let rows = ["1,7,5,x", "2,8,6,x", "3,9,7,x", "4, 8 ,6,x", "5,7,5,x"]
      let csv = try ground.trace(rows, "csv")
      let named = try ground.trace(["time,obj_id,obj_size,op"] + rows, "named")
      let packed = ground.directory + "/packed"
      let gzip = try ChildProcess.run(
        "/bin/sh", ["-c", "gzip -c \"$0\" > \"$1\"", text, packed])
      try #require(gzip.status.isSuccess)
      let traces = try ground.json([text, csv, named, packed, "--entries", "10"])
      for trace in traces {
        #expect(try trace.number("accesses") == 5 && trace.number("distinctKeys") == 3)
        #expect(try trace.number("requestedBytes") == 29)
        #expect(try trace.objects("runs").first?.number("hits") == 2)
      }
      let input = try ChildProcess.run(
        "/bin/sh", ["-c", "\"$0\" replay - --json < \"$1\"", ground.tool, packed],
        environment: ["TMPDIR": ground.temporary])
      #expect(input.output.contains("\"requestedBytes\": 29"), "\(input)")
      let arc = try ground.trace(["7 3 0 0", "8 1 0 1", "7 1 0 2"], "arc")
      let runs = try ground.json([arc, "--format", "arc", "--entries", "10"])
      #expect(try runs[0].number("accesses") == 5)
      #expect(try runs[0].objects("runs").first?.number("hits") == 2)
    }
  }

  @Test(
    arguments: [
      (["a", "", "b"], "line 2: The line is empty."),
      (["a 1", "b x"], "line 2: The size \"x\" is not an integer."),
      (["a -1"], "line 1: The size -1 is outside the range of 0 to 1 GiB."),
      (["# c", "a 1073741825"], "line 2: The size 1073741825 is outside"),
      (["a 1", "b"], "line 2: The line has no size, but earlier lines have one."),
      (["a b c"], "line 1: Expected KEY or KEY SIZE, found 3 words."),
      (["1,a,5", "2,b"], "line 2: Expected timestamp,key,size, found 2 columns."),
      (["time,key,size", "1,,5"], "line 2: The key is empty."),
      (["1,a,5", "x,b,y"], "line 2: The size \"y\" is not an integer."),
      (["# only a comment"], "contains no access"), ([], "contains no access"),
    ] as [([String], String)])
  func `An invalid line exits with 70 and names the file and the line`(
    lines: [String], message: String
  ) throws {
    try withReplay { ground in
      let path = try ground.trace(lines)
      for arguments in [[path], [path, "--processes", "2"]] {
        let outcome = try ground.run(arguments)
        #expect(outcome.status == .exited(70), "\(outcome)")
        #expect(
          outcome.standardError.contains(path) && outcome.standardError.contains(message),
          "\(outcome)")
      }
      let error = try Tool.object(try ground.run([path, "--json"]).standardError)
      #expect((error["line"] as? Int) != nil || error["error"] as? String == "emptyTrace")
    }
  }

  @Test func `A damaged compressed trace and a missing one are errors that name the file`() throws {
    try withReplay { ground in
      let path = ground.directory + "/damaged.gz"
      try Data([0x1F, 0x8B, 8, 0, 1, 2, 3]).write(to: URL(fileURLWithPath: path))
      let damaged = try ground.run([path])
      #expect(damaged.status == .exited(70), "\(damaged)")
      #expect(damaged.standardError.contains("Cannot unpack \(path)"))
      let missing = try ground.run([ground.directory + "/none"])
      #expect(missing.status == .exited(70), "\(missing)")
      #expect(missing.standardError.contains("Cannot read \(ground.directory)/none"))
      let directory = try ground.run([ground.directory])
      #expect(directory.standardError.contains("is a directory"), "\(directory)")
      for arguments in [
        [], ["-", "-"], ["-", "--processes", "0"], ["-", "--entries", "1", "--bytes", "1M"],
        ["-", "--compare", "--policy", "adaptive"], ["-", "--entries", "1,,2"],
        ["-", "--entries", "0"], ["-", "--bytes", "100"], ["-", "--policy", "random"],
      ] { #expect(try ground.run(arguments).status == .exited(64), "\(arguments)") }
    }
  }

  @Test func `Several processes replay each access once and share the store`() throws {
    try withReplay { ground in
      var random = SeededRandom(seed: 17)
      // The first accesses to 100 keys are misses; without eviction all later ones are hits, except
      // accesses of two processes at the same time.
      let lines = (0..<20_000).map { _ in "\(Int.random(in: 0..<100, using: &random)) 50" }
      let path = try ground.trace(lines)
      let trace = try ground.json([path, "--entries", "200", "--processes", "3"])[0]
      let run = try #require(try trace.objects("runs").first)
      let processes = try run.objects("processes")
      #expect(processes.count == 3)
      #expect(try processes.reduce(0) { try $0 + $1.number("accesses") } == 20_000)
      #expect(
        try processes.reduce(0) { try $0 + $1.number("hits") } == run.number("hits"))
      let misses = try 20_000 - run.number("hits")
      #expect((100...300).contains(misses), "\(run)")
    }
  }

  @Test func `An interrupted replay removes its directory and ends by the signal`() throws {
    try withReplay { ground in
      // So many accesses that the replay does not end before the signal, however late that is.
      let path = try ground.trace(["0 1000000 0 0"])
      for processes in ["1", "2"] {
        let child = try ChildProcess(
          ground.tool, ["replay", path, "--format", "arc", "--processes", processes],
          environment: ["TMPDIR": ground.temporary])
        func isReplaying() throws -> Bool {
          try ground.leftovers.contains { name in
            let store = "\(ground.temporary)/\(name)/store"
            return try SharedStore.durability(ofStoreAt: store) != nil
          }
        }
        try eventually("the replay has begun") { try isReplaying() }
        child.kill(SIGINT)
        #expect(try child.wait() == .signalled(SIGINT))
        #expect(try ground.leftovers.isEmpty)
      }
    }
  }
}
#endif
