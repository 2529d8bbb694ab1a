// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.timeLimit(.minutes(60)), .serialized)
struct DemoTests {
  private func demo(_ arguments: String...) throws -> ChildProcess.Outcome {
    try ChildProcess.run(
      try TestExecutable("larder-demo").path, arguments, deadline: .seconds(600))
  }

  /// Creates texts of 404 words, every third one compressed, and a file that is not text.
  private func makeFiles(in directory: String, count: Int) throws {
    try FileManager.default.createDirectory(
      atPath: "\(directory)/below", withIntermediateDirectories: true)
    for number in 0..<count {
      let place = number.isMultiple(of: 2) ? directory : "\(directory)/below"
      let words = (0..<400).map { "word\(String(UnicodeScalar(UInt8(97 + $0 * number % 26))))" }
      let path = "\(place)/\(number).txt"
      try (words.joined(separator: " ") + "\nThe endings, die Größe\n")
        .write(toFile: path, atomically: false, encoding: .utf8)
      if number.isMultiple(of: 3) {
        #expect(try ChildProcess.run("gzip", [path]).status.isSuccess)
      }
    }
    try Data([0xff, 0xfe, 0x41, 0x42]).write(to: URL(fileURLWithPath: "\(directory)/latin.txt"))
  }

  private func object(_ text: String) throws -> [String: Any] {
    try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
  }

  @Test func `Four processes share the work, one is killed, and the index is right`() throws {
    try withTemporaryDirectory { path in
      try makeFiles(in: "\(path)/files", count: 120)
      let outcome = try demo("\(path)/files", "--store", "\(path)/store", "--json")
      #expect(outcome.status.isSuccess, "\(outcome.output)\(outcome.standardError)")
      let report = try object(outcome.output)
      #expect(report["success"] as? Bool == true)
      #expect(report["documents"] as? Int == 121)
      #expect(report["compressed"] as? Int == 40)
      #expect(report["notText"] as? Int == 1)
      #expect(report["entries"] as? Int == 121)
      #expect(report["words"] as? Int == 120 * 404)
      let without = try #require(report["without"] as? [String: Any])
      #expect(without["begun"] as? Int == 4 * 121)
      let cold = try #require(report["cold"] as? [String: Any])
      let again = try #require(cold["again"] as? Int)
      #expect(again <= 1)
      #expect(cold["begun"] as? Int == 121 + again)
      let workers = try #require(cold["workers"] as? [[String: Any]])
      #expect(workers.count { $0["killed"] as? Bool == true } == 1)
      let warm = try #require(report["warm"] as? [String: Any])
      #expect(warm["begun"] as? Int == 0)
      #expect(warm["shared"] as? Int == 4 * 121)
      // The store can be inspected afterwards.
      let store = try SharedStore(at: "\(path)/store")
      let statistics = try store.statistics()
      #expect(statistics.entries == 121)
      #expect(statistics.processes.count == 1)
      #expect(statistics.namespaces.first { $0.name == "demo index" }?.entries == 121)
      #expect(try store.verify().isEmpty)
    }
  }

  @Test func `The output of a pipe is plain lines that fit 80 columns`() throws {
    try withTemporaryDirectory { path in
      try makeFiles(in: "\(path)/files", count: 40)
      let outcome = try ChildProcess.run(
        try TestExecutable("larder-demo").path, ["\(path)/files", "--workers", "2"],
        environment: ["TMPDIR": path], deadline: .seconds(600))
      #expect(outcome.status.isSuccess, "\(outcome.output)\(outcome.standardError)")
      #expect(!outcome.output.contains("\u{1b}") && !outcome.output.contains("\r"))
      let wide = outcome.lines.filter { $0.count > 80 && !$0.contains(path) }
      #expect(wide.isEmpty, "\(wide)")
      #expect(outcome.lines.contains { $0.hasPrefix("  time saved") })
      #expect(outcome.lines.contains { $0.hasPrefix("  ok    after the kill every result") })
      #expect(!outcome.output.contains("FAIL"))
      // Its temporary directory is gone.
      #expect(try FileManager.default.contentsOfDirectory(atPath: path) == ["files"])
    }
  }

  @Test func `A directory without files is refused with a sentence`() throws {
    try withTemporaryDirectory { path in
      let outcome = try demo(path)
      #expect(outcome.status == .exited(64))
      #expect(outcome.standardError.contains("fewer than two readable documents"))
    }
  }

  @Test func `The demo's help has examples and fits 80 columns`() throws {
    let outcome = try ChildProcess.run(
      try TestExecutable("larder-demo").path, ["--help"], environment: ["COLUMNS": "80"])
    #expect(outcome.status.isSuccess)
    #expect(outcome.output.contains("EXAMPLE"))
    let wide = outcome.lines.filter { $0.count > 80 && !$0.hasPrefix("USAGE") }
    #expect(wide.isEmpty, "\(wide)")
    #expect(!outcome.output.contains("worker-list"))
  }
}
