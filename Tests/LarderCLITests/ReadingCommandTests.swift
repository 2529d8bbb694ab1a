// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderTesting
import Testing

/// Commands that only read, on stores that a program would empty or restore.
@Suite(.timeLimit(.minutes(60)))
struct ReadingCommandTests {
  private static let commands = [
    ["verify"], ["verify", "--json"], ["list"], ["list", "--json"], ["stat"],
    ["stat", "--why-big"], ["get", "key 1"], ["explain", "key 1"], ["export", "-"], ["objects"],
    ["query", "Car"], ["migrate", "--dry-run"], ["migrations"], ["locks"], ["budget"],
    ["queue", "list", "jobs"], ["queue", "status", "jobs"], ["watch", "--count", "1"],
    ["advise", "--seconds", "1"],
  ]

  private func fill(_ tool: Tool, _ durability: String) throws -> String {
    let lines = (0..<400).map { "{\"key\":\"key \($0)\",\"text\":\"value \($0)\"}" }
    _ = try tool.output("import", "-", "--durability", durability, input: lines)
    return tool.store + (durability == "cache" ? "/v1" : "")
  }

  /// The files that hold data, and the directories.
  private func contents(_ root: String) throws -> [String: [UInt8]] {
    var result: [String: [UInt8]] = [:]
    for name in try FileManager.default.subpathsOfDirectory(atPath: root) {
      let file = name.split(separator: "/").last.map(String.init) ?? name
      let isCoordination = ["presence", "lock.mdb", "shared.table", "gate"].contains(file)
      var isDirectory: ObjCBool = false
      _ = unsafe FileManager.default.fileExists(
        atPath: root + "/" + name, isDirectory: &isDirectory)
      result[name] =
        isCoordination || isDirectory.boolValue
        ? [] : try TestFiles.contents(of: root + "/" + name)
    }
    return result
  }

  @Test(arguments: commands)
  func `A command that reads leaves a damaged cache as it is, and fails`(
    command: [String]
  ) throws {
    try withTool { (tool) throws in
      let root = try fill(tool, "cache")
      let noise = [UInt8](repeating: 0xA5, count: 4 * 4096)
      try TestFiles.overwrite(noise, at: 3 * 4096, in: root + "/g-1/data.mdb")
      let before = try contents(root)
      var arguments = command
      arguments.insert(contentsOf: ["--store", tool.store], at: command[0] == "queue" ? 2 : 1)
      let outcome = try ChildProcess.run(tool.path, arguments)
      #expect(outcome.status == .exited(command[0] == "verify" ? 1 : 70), "\(outcome)")
      let texts = outcome.output + outcome.standardError
      #expect(texts.contains("data.mdb is damaged") && texts.contains("larder repair"), "\(texts)")
      let after = try contents(root)
      #expect(after.keys.sorted() == before.keys.sorted())
      for (name, bytes) in before { #expect(after[name] == bytes, "\(name)") }
      // What was readable before the command still is.
      let repair = try tool.run("repair", "--yes", "--json")
      let report = try Tool.object(repair.output)
      #expect(report["kept"] as? Int ?? 0 > 0, "\(repair)")
    }
  }

  /// Lets the store look like one that was in use when the system went down.
  private func markAsInUse(_ generation: String) throws {
    var state = try #require(try StoreState.read(from: generation + "/state"))
    state.isDirty = true
    state.bootID ^= 1
    try state.write(to: generation + "/state")
    TestFiles.removeAll(generation + "/shared.table")
  }

  @Test(arguments: ["cache", "durable"])
  func `A command that reads neither discards nor restores after a crash of the system`(
    durability: String
  ) throws {
    try withTool { (tool) throws in
      let root = try fill(tool, durability)
      try markAsInUse(root + "/g-1")
      let before = try contents(root)
      let isCache = durability == "cache"
      for command in [["list"], ["stat"], ["get", "key 1"]] {
        let outcome = try ChildProcess.run(tool.path, command + ["--store", tool.store])
        #expect(outcome.status == .exited(70), "\(outcome)")
        #expect(outcome.standardError.contains("Nothing was changed"), "\(outcome)")
      }
      let verify = try tool.run("verify")
      #expect(verify.status == .exited(isCache ? 1 : 0), "\(verify)")
      #expect(verify.output.contains("went down"), "\(verify)")
      let after = try contents(root)
      for (name, bytes) in before where !name.hasSuffix("shared.table") {
        #expect(after[name] == bytes, "\(name)")
      }
      if !isCache {
        // A command that writes opens the store as a program does.
        let write = try tool.run("set", "another", "value")
        #expect(write.status.isSuccess && write.standardError.contains("restored"), "\(write)")
        #expect(try tool.output("list", "--json").split(separator: "\n").count == 401)
      }
    }
  }

  @Test func `A damaged entry of a cache stays until a program finds it`() throws {
    try withTool { (tool) throws in
      let secret = String(repeating: "larder-test-marker ", count: 20)
      _ = try tool.output("set", "key", secret)
      let file = tool.store + "/v1/g-1/data.mdb"
      var bytes = Data(try TestFiles.contents(of: file))
      let marker = Data("larder-test-marker larder-test-marker".utf8)
      while let range = bytes.range(of: marker) {
        bytes[range.lowerBound] ^= 1
        try TestFiles.overwrite([bytes[range.lowerBound]], at: range.lowerBound, in: file)
      }
      for _ in 0..<2 {
        let get = try tool.run("get", "key")
        #expect(get.status == .exited(70) && get.standardError.contains("checksum"), "\(get)")
        #expect(try tool.run("verify").status == .exited(1))
      }
      #expect(try TestFiles.contents(of: file) == [UInt8](bytes))
    }
  }
}
#endif
