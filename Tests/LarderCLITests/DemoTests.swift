// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderTesting
import Testing

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

@Suite(.timeLimit(.minutes(15)), .serialized)
struct DemoTests {
  /// Files of a few hundred words each, some binary ones, and one that is compressed.
  private func makeFiles(in directory: String, count: Int) throws {
    try FileManager.default.createDirectory(
      atPath: "\(directory)/below", withIntermediateDirectories: true)
    for number in 0..<count {
      let place = number.isMultiple(of: 2) ? directory : "\(directory)/below"
      let words = (0..<400).map { "word\(String(UnicodeScalar(UInt8(97 + $0 * number % 26))))" }
      try (words.joined(separator: " ") + "\nThe end, die Größe\n")
        .write(toFile: "\(place)/\(number).txt", atomically: false, encoding: .utf8)
    }
    try Data([0xff, 0xfe, 0x41, 0x42]).write(to: URL(fileURLWithPath: "\(directory)/latin.txt"))
    try Data("not really".utf8).write(to: URL(fileURLWithPath: "\(directory)/pack.gz"))
  }

  @Test func `Four processes share the work, one is killed, and the index is right`() throws {
    try withTemporaryDirectory { path in
      try makeFiles(in: "\(path)/files", count: 120)
      let outcome = try ChildProcess.run(
        try TestExecutable.tool.path,
        ["demo", "\(path)/files", "--store", "\(path)/store", "--json"], deadline: .seconds(90))
      #expect(outcome.status.isSuccess, "\(outcome.output)\(outcome.standardError)")
      let report = try Tool.object(outcome.output)
      #expect(report["success"] as? Bool == true)
      #expect(report["files"] as? Int == 121)
      #expect(report["notText"] as? Int == 1)
      #expect(report["compressed"] as? Int == 1)
      #expect(report["entries"] as? Int == 121)
      // 120 files of 400 words and four more; counted here, not by the tool.
      #expect(report["occurrences"] as? Int == 120 * 404)
      #expect(report["lines"] as? Int == 240)
      let cold = try #require(report["cold"] as? [String: Any])
      let again = try #require(cold["again"] as? Int)
      #expect(again <= 1)
      #expect(cold["begun"] as? Int == 121 + again)
      let workers = try #require(cold["workers"] as? [[String: Any]])
      #expect(workers.count { $0["killed"] as? Bool == true } == 1)
      let warm = try #require(report["warm"] as? [String: Any])
      #expect(warm["begun"] as? Int == 0)
      #expect(warm["shared"] as? Int == 4 * 121)
      #expect(warm["hitRatio"] as? Double == 1)
      // The store can be inspected afterwards.
      let tool = try Tool(store: "\(path)/store")
      let statistics = try tool.json("stat")
      #expect(statistics["entries"] as? Int == 121)
      #expect((statistics["processes"] as? [Int])?.count == 1)
      let list = try tool.run("list", "--json", "--limit", "1", "--prefix", path)
      let codec1 = try Tool.object(list.output)["codec"] as? String
      #expect(codec1 == "cbor")
    }
  }

  @Test func `The output of a pipe is plain lines that fit 80 columns`() throws {
    try withTemporaryDirectory { path in
      try makeFiles(in: "\(path)/files", count: 40)
      let outcome = try ChildProcess.run(
        try TestExecutable.tool.path, ["demo", "\(path)/files", "--workers", "2"],
        environment: ["TMPDIR": path], deadline: .seconds(90))
      #expect(outcome.status.isSuccess, "\(outcome.output)\(outcome.standardError)")
      #expect(!outcome.output.contains("\u{1b}") && !outcome.output.contains("\r"))
      let wide = outcome.lines.filter { $0.count > 80 && !$0.contains(path) }
      #expect(wide.isEmpty, "\(wide)")
      #expect(outcome.lines.contains { $0.hasPrefix("  ok    the second pass") })
      #expect(!outcome.output.contains("FAIL"))
      // Its temporary directory is gone.
      #expect(try FileManager.default.contentsOfDirectory(atPath: path) == ["files"])
    }
  }

  @Test func `A directory without files is refused with a sentence`() throws {
    try withTemporaryDirectory { path in
      let outcome = try ChildProcess.run(try TestExecutable.tool.path, ["demo", path])
      #expect(outcome.status == .exited(64))
      #expect(outcome.standardError.contains("fewer than two readable files"))
    }
  }
}
