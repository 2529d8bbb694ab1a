// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTestSupport
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct InspectionTests {
  @Test func `A list is sorted, and prefix, type and limit narrow it`() throws {
    try withTool { (tool) throws in
      for key in ["b/2", "a/1", "b/1"] { _ = try tool.output("set", key, "v") }
      _ = try tool.output("set", "7", "v", "--key-type", "integer", "--namespace", "numbers")
      func keys(_ text: String) -> [String] {
        text.split(separator: "\n").dropFirst().compactMap {
          $0.split(separator: " ").first.map(String.init)
        }
      }
      #expect(keys(try tool.output("list")) == ["7", "a/1", "b/1", "b/2"])
      #expect(keys(try tool.output("list", "--prefix", "b/")) == ["b/1", "b/2"])
      #expect(keys(try tool.output("list", "--key-type", "integer")) == ["7"])
      #expect(keys(try tool.output("list", "--namespace", "numbers")) == ["7"])
      let cut = try tool.run("list", "--limit", "2")
      #expect(keys(cut.output).count == 2)
      #expect(cut.standardError.contains("There are more"))
    }
  }

  @Test func `A list as JSON is one object a line with the deadline`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "short", "v", "--expires", "1h30m")
      _ = try tool.output("set", "long", "v")
      let lines = try tool.output("list", "--json").split(separator: "\n")
      let rows = try lines.map { try Tool.object(String($0)) }
      #expect(Set(rows.compactMap { $0["key"] as? String }) == ["short", "long"])
      for row in rows {
        #expect((row["expires"] is String) == (row["key"] as? String == "short"))
        #expect((row["bytes"] as? Int ?? 0) > 64)
      }
      let created = try #require(rows.first { $0["key"] as? String == "short" })
      let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
      let start = try style.parse(#require(created["created"] as? String))
      let end = try style.parse(#require(created["expires"] as? String))
      #expect(abs(end.timeIntervalSince(start) - 5400) < 5)
    }
  }

  @Test func `An invalid time is refused`() throws {
    try withTool { (tool) throws in
      for time in ["soon", "10", "-5m", "0s", "99999999999d"] {
        let outcome = try tool.run("set", "key", "value", "--expires=\(time)")
        #expect(outcome.status == .exited(64), "\(time)")
      }
    }
  }

  @Test func `A budget is shown, changed and lifted, and a wrong one changes nothing`() throws {
    try withTool { (tool) throws in
      for key in 0..<30 { _ = try tool.output("set", "\(key)", "v") }
      let shown = try tool.output("budget")
      #expect(shown.contains("of 256.0 MiB") && shown.contains("30, no limit"))
      #expect(shown.contains("adaptive"))
      let changed = try Tool.object(
        tool.output(
          "budget", "--bytes", "64M", "--entries", "10", "--policy", "sampledLRU", "--json"))
      #expect(changed["budget"] as? Int == 64 << 20 && changed["entryBudget"] as? Int == 10)
      #expect(changed["entries"] as? Int == 10 && changed["policy"] as? String == "sampledLRU")
      for wrong in [
        ["--bytes", "0"], ["--entries", "-1"], ["--entries", "x"], ["--policy", "lfu"],
      ] {
        #expect(try tool.run("budget", wrong[0], wrong[1]).status == .exited(64), "\(wrong)")
      }
      #expect(try tool.run("budget", "--bytes", "1K").status == .exited(70))
      let lifted = try Tool.object(tool.output("budget", "--entries", "none", "--json"))
      #expect(lifted["entryBudget"] is NSNull && lifted["budget"] as? Int == 64 << 20)
    }
  }

  @Test func `The statistics are those of all processes`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value", "--namespace", "n")
      // What reads a store that no process has open counts nothing.
      _ = try tool.output("get", "key", "--namespace", "n")
      try tool.whileInUse {
        _ = try tool.output("get", "key", "--namespace", "n")
        _ = try tool.run("get", "other", "--namespace", "n")
      }
      let statistics = try tool.json("stat")
      #expect(statistics["entries"] as? Int == 1)
      #expect(statistics["sets"] as? Int == 1)
      #expect(statistics["storeHits"] as? Int == 1)
      #expect(statistics["misses"] as? Int == 1)
      #expect(statistics["hitRatio"] as? Double == 0.5)
      #expect((statistics["processes"] as? [Int])?.count == 1)
      let namespaces = try #require(statistics["namespaces"] as? [[String: Any]])
      #expect(namespaces.map { $0["name"] as? String } == ["n"])
      let table = try tool.output("stat")
      #expect(table.contains("50.0 %"))
      #expect(table.split(separator: "\n").allSatisfy { $0.count < 80 || $0.contains(tool.store) })
    }
  }

  @Test func `A valid store is reported as valid`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value")
      #expect(try tool.output("verify").hasPrefix("Valid: 1 entry, "))
      let answer = try tool.json("verify")
      #expect(answer["sound"] as? Bool == true)
      #expect(answer["errors"] as? Int == 0)
    }
  }

  @Test func `An entry damaged on disk is an error of verify`() throws {
    try withTool { (tool) throws in
      let secret = String(repeating: "larder-test-marker ", count: 20)
      _ = try tool.output("set", "key", secret)
      let marker = Data("larder-test-marker larder-test-marker".utf8)
      var damaged = 0
      for name in try FileManager.default.subpathsOfDirectory(atPath: tool.store)
      where name.hasSuffix("data.mdb") {
        let url = URL(fileURLWithPath: "\(tool.store)/\(name)")
        var bytes = try Data(contentsOf: url)
        while let range = bytes.range(of: marker) {
          bytes[range.lowerBound] ^= 1
          damaged += 1
        }
        let file = try FileHandle(forWritingTo: url)
        try file.write(contentsOf: bytes)
        try file.close()
      }
      #expect(damaged > 0)
      let outcome = try tool.run("verify")
      #expect(outcome.status == .exited(1))
      #expect(outcome.output.contains("checksum"))
      let get = try tool.run("get", "key")
      #expect(get.status == .exited(70))
      #expect(get.standardError.contains("checksum"))
    }
  }

  @Test(arguments: [
    "", "get", "set", "remove", "list", "stat", "verify", "repair", "clear", "top", "compact",
  ])
  func `Help has examples and fits 80 columns`(command: String) throws {
    let tool = try TestExecutable.tool
    let arguments = command.isEmpty ? ["--help"] : [command, "--help"]
    let outcome = try ChildProcess.run(tool.path, arguments, environment: ["COLUMNS": "80"])
    #expect(outcome.status.isSuccess)
    #expect(outcome.output.contains("EXAMPLE"))
    let wide = outcome.lines.filter { $0.count > 80 && !$0.hasPrefix("USAGE") }
    #expect(wide.isEmpty, "\(wide)")
  }
}
#endif
