// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Mounts that only the commands of a test see.
private enum ReadOnlyMount {
  /// Only root can make one; not every container may.
  static let isPossible: Bool = {
    let outcome = try? ChildProcess.run("unshare", ["--mount", "true"])
    return outcome?.status.isSuccess ?? false
  }()

  /// Runs a command while the file system of a directory is read-only for it.
  static func run(
    _ command: [String], at path: String, environment: [String: String] = [:]
  ) throws -> ChildProcess.Outcome {
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\""
    return try ChildProcess.run(
      "unshare", ["--mount", "--propagation", "private", "sh", "-c", script, path] + command,
      environment: environment)
  }
}

/// Commands that only read, on stores that no process has open, and on stores in use.
@Suite(.timeLimit(.minutes(15)))
struct QuietReadingTests {
  static let commands = [
    ["verify"], ["verify", "--json"], ["list"], ["list", "--json"], ["stat"],
    ["stat", "--why-big"], ["get", "key 1"], ["get", "no such key"], ["explain", "key 1"],
    ["export", "-"], ["objects"], ["migrations"], ["migrate", "--dry-run"], ["locks"], ["budget"],
    ["remote", "status"], ["queue", "list", "jobs"], ["queue", "status", "jobs"],
    ["top", "--once"],
  ]

  /// A file or directory: no process can set the time of its last change.
  private struct Item: Equatable {
    let contents: [UInt8]
    let changed: UInt64
    let mode: UInt32
  }

  private func items(_ root: String) throws -> [String: Item] {
    var result: [String: Item] = [:]
    for name in try FileManager.default.subpathsOfDirectory(atPath: root) + ["."] {
      let status = try #require(try FileSystem.status(of: root + "/" + name))
      result[name] = Item(
        contents: status.isDirectory ? [] : try TestFiles.contents(of: root + "/" + name),
        changed: status.changed, mode: status.mode)
    }
    return result
  }

  private func differences(_ one: [String: Item], _ other: [String: Item]) -> [String] {
    Set(one.keys).union(other.keys).filter { one[$0] != other[$0] }.sorted()
  }

  private func arguments(_ command: [String], _ tool: Tool) -> [String] {
    var result = command
    let words = ["queue", "remote"].contains(command[0]) ? 2 : 1
    result.insert(contentsOf: ["--store", tool.store], at: words)
    return result
  }

  private func fill(_ tool: Tool, _ durability: String) throws {
    let lines = (0..<400).map { "{\"key\":\"key \($0)\",\"text\":\"value \($0)\"}" }
    _ = try tool.output("import", "-", "--durability", durability, input: lines)
    _ = try tool.output("queue", "push", "jobs", "a", "b")
  }

  /// Leaves a store as a process does that is killed after a commit.
  private func kill(in tool: Tool) throws {
    let holder = try TestExecutable.tool.start([
      "lock", "job", "--store", tool.store, "--", "sh", "-c", "echo held; read line",
    ])
    try holder.expect("held")
    _ = try tool.output("set", "key 1", "value 1")
    holder.kill()
    _ = try holder.wait()
  }

  @Test(arguments: ["cache", "durable", "relaxed", "durableStrict"], [false, true])
  func `A command that reads changes no byte and no time of a store that no process has open`(
    durability: String, wasKilled: Bool
  ) throws {
    try withTool { (tool) throws in
      try fill(tool, durability)
      if wasKilled { try kill(in: tool) }
      let before = try items(tool.store)
      for command in Self.commands {
        let outcome = try ChildProcess.run(tool.path, arguments(command, tool))
        let isMissing = command == ["get", "no such key"]
        #expect(outcome.status == .exited(isMissing ? 1 : 0), "\(command): \(outcome)")
        #expect(differences(before, try items(tool.store)) == [], "\(command)")
      }
      #expect(try tool.output("get", "key 1") == "value 1\n")
      #expect(try tool.output("queue", "list", "jobs") == "a\nb\n")
      #expect(try tool.output("list", "--json").split(separator: "\n").count >= 400)
    }
  }

  @Test func `A command that reads changes no byte and no time of a damaged store`() throws {
    try withTool { (tool) throws in
      try fill(tool, "cache")
      let noise = [UInt8](repeating: 0xA5, count: 4 * 4096)
      try TestFiles.overwrite(noise, at: 3 * 4096, in: tool.store + "/v1/g-1/data.mdb")
      let before = try items(tool.store)
      for command in Self.commands where !["top", "verify"].contains(command[0]) {
        let outcome = try ChildProcess.run(tool.path, arguments(command, tool))
        #expect(outcome.status == .exited(70), "\(command): \(outcome)")
        #expect(outcome.standardError.contains("data.mdb is damaged"), "\(command): \(outcome)")
        #expect(differences(before, try items(tool.store)) == [], "\(command)")
      }
    }
  }

  @Test func `A table that is lost or of another mount is made in memory`() throws {
    try withTool { (tool) throws in
      try fill(tool, "durable")
      TestFiles.removeAll(tool.store + "/g-1/shared.table")
      let before = try items(tool.store)
      for command in Self.commands where command[0] != "top" {
        let outcome = try ChildProcess.run(tool.path, arguments(command, tool))
        let isMissing = command == ["get", "no such key"]
        #expect(outcome.status == .exited(isMissing ? 1 : 0), "\(command): \(outcome)")
        #expect(differences(before, try items(tool.store)) == [], "\(command)")
      }
    }
  }

  @Test(
    .enabled(if: ReadOnlyMount.isPossible, "mounts need root"),
    arguments: ["cache", "durable", "relaxed"])
  func `On a read-only file system the commands that read print what they print elsewhere`(
    durability: String
  ) throws {
    try withTool { (tool) throws in
      try fill(tool, durability)
      for command in Self.commands where !["stat", "explain", "top"].contains(command[0]) {
        let here = try ChildProcess.run(tool.path, arguments(command, tool))
        let there = try ReadOnlyMount.run([tool.path] + arguments(command, tool), at: tool.store)
        #expect(there.status == here.status && there.output == here.output, "\(command): \(there)")
      }
      for command in [["stat"], ["explain", "key 1"]] {
        let there = try ReadOnlyMount.run([tool.path] + arguments(command, tool), at: tool.store)
        #expect(there.status.isSuccess, "\(command): \(there)")
      }
      // A write is an error that names the cause.
      let set = try ReadOnlyMount.run(
        [tool.path, "set", "a", "b", "--store", tool.store], at: tool.store)
      #expect(set.status == .exited(70) && set.standardError.contains("read-only"), "\(set)")
    }
  }

  @Test(.enabled(if: ReadOnlyMount.isPossible, "mounts need root"))
  func `A store in use that cannot be written is refused with what to do`() throws {
    try withTool { (tool) throws in
      try fill(tool, "durable")
      let store = try SharedStore(at: tool.store, .init(durability: .durable))
      defer { store.close() }
      for command in [["list"], ["get", "key 1"], ["stat"], ["locks"]] {
        let outcome = try ReadOnlyMount.run(
          [tool.path] + arguments(command, tool) + ["--json"], at: tool.store)
        #expect(outcome.status == .exited(70), "\(command): \(outcome)")
        let error = try Tool.object(outcome.standardError)
        #expect(error["error"] as? String == "inUse", "\(error)")
        #expect((error["message"] as? String)?.contains("larder copy") == true, "\(error)")
      }
      // A command that waits for other processes needs a write.
      store.close()
      let watch = try ReadOnlyMount.run(
        [tool.path, "watch", "--store", tool.store, "--count", "1"], at: tool.store)
      #expect(watch.status == .exited(70), "\(watch)")
    }
  }

  @Test func `A command reads the newest values of a store that another process has open`() throws {
    try withTool { (tool) throws in
      try fill(tool, "cache")
      let store = try SharedStore(at: tool.store)
      defer { store.close() }
      for round in 0..<10 {
        try store.setBytes(Array("round \(round)".utf8), forKey: "now")
        #expect(try tool.output("get", "now") == "round \(round)\n")
        #expect(try tool.output("verify").hasPrefix("Valid"))
      }
    }
  }

  @Test func `A program that opens a store waits for no command that prints it`() throws {
    try withTool { (tool) throws in
      let value = String(repeating: "v", count: 200)
      let lines = (0..<4000).map { "{\"key\":\"key \($0)\",\"text\":\"\(value)\"}" }
      let file = tool.store + ".jsonl"
      try Data(lines.joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: file))
      _ = try tool.output("import", file)
      // The output is larger than a pipe, so the command waits in the middle of it.
      let list = try TestExecutable.tool.start(["list", "--json", "--store", tool.store])
      _ = try list.nextLine()
      let store = try SharedStore(at: tool.store)
      try store.setBytes([1], forKey: "written meanwhile")
      let rest = try list.remainingLines()
      #expect(rest.count >= 3999 && rest.count <= 4000, "\(rest.count)")
      #expect(try list.wait().isSuccess)
      store.close()
      #expect(try tool.output("verify").hasPrefix("Valid"))
    }
  }

  @Test func `A program writes while commands print a snapshot, and that stays whole`() throws {
    try withTool { (tool) throws in
      let value = String(repeating: "v", count: 200)
      let lines = (0..<4000).map { "{\"key\":\"key \($0)\",\"text\":\"\(value)\"}" }
      let file = tool.store + ".jsonl"
      try Data(lines.joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: file))
      _ = try tool.output("import", file)
      let exports = try (0..<3).map { _ in
        try TestExecutable.tool.start(["export", "-", "--store", tool.store])
      }
      var printed = try exports.map { [try $0.nextLine()] }
      // The pages of the snapshot would be used again by the third commit.
      let store = try SharedStore(at: tool.store)
      for round in 0..<20 {
        try store.write { transaction in
          for number in 0..<4000 {
            try transaction.setBytes(Array("round \(round)".utf8), forKey: "key \(number)")
          }
        }
      }
      for (index, export) in exports.enumerated() {
        printed[index] += try export.remainingLines()
        #expect(try export.wait().isSuccess)
      }
      store.close()
      for lines in printed {
        #expect(lines.count == 4000 && lines.allSatisfy { $0.contains(value) }, "\(lines.count)")
        #expect(lines == printed[0])
      }
      #expect(try tool.output("verify").hasPrefix("Valid"))
    }
  }

  @Test func `Commands that read while programs open, write and close see whole commits only`()
    throws
  {
    try withTool { (tool) throws in
      _ = try tool.output("set", "number", "0")
      let script = """
        while [ ! -e "$1.end" ]; do "$0" get number --store "$1" || exit 1; echo; done
        """
      let readers = try (0..<3).map { _ in
        try ChildProcess("sh", ["-c", script, tool.path, tool.store], standardError: .captured)
      }
      for number in 1...60 {
        let store = try SharedStore(at: tool.store)
        try store.setBytes(Array("\(number)".utf8), forKey: "number")
        store.close()
      }
      try TestFiles.write([], to: tool.store + ".end")
      for reader in readers {
        let seen = try reader.remainingLines().compactMap(Int.init)
        #expect(try reader.wait().isSuccess, "\(reader.standardErrorText)")
        #expect(seen == seen.sorted() && !seen.isEmpty, "\(seen)")
      }
      #expect(try tool.output("verify").hasPrefix("Valid"))
    }
  }

  @Test func `The suites of defaults are read without a change`() throws {
    let directory = try TemporaryDirectory()
    let tool = try TestExecutable.tool.path
    let environment = ["XDG_DATA_HOME": directory.path]
    func run(_ arguments: [String]) throws -> ChildProcess.Outcome {
      try ChildProcess.run(tool, ["defaults"] + arguments, environment: environment)
    }
    #expect(try run(["write", "app", "theme", "dark"]).status.isSuccess)
    let before = try items(directory.path)
    let commands = [
      ["list"], ["list", "app"], ["read", "app"], ["read", "app", "theme"],
      ["read", "app", "none"],
    ]
    for command in commands {
      let outcome = try run(command)
      #expect(outcome.status == .exited(command.last == "none" ? 1 : 0), "\(command): \(outcome)")
      #expect(differences(before, try items(directory.path)) == [], "\(command)")
      guard ReadOnlyMount.isPossible else { continue }
      let there = try ReadOnlyMount.run(
        [tool, "defaults"] + command, at: directory.path, environment: environment)
      #expect(there.output == outcome.output, "\(command): \(there)")
    }
    #expect(try run(["watch", "app", "theme", "--count", "1"]).output == "dark\n")
    for name in ["../app", "a/../app", "..", "app/../../x", "/../"] {
      let outcome = try run(["read", name])
      let isPath = name.hasPrefix("/")
      #expect(outcome.status == .exited(isPath ? 2 : 64), "\(name): \(outcome)")
    }
    #expect(differences(before, try items(directory.path)).allSatisfy { $0.contains("app") })
  }
}
#endif
