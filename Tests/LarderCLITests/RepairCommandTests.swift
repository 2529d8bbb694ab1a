// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct RepairCommandTests {
  /// A durable store with some entries and one damaged page, which holds the key `marked`.
  private func makeDamaged(_ tool: Tool) throws {
    let secret = String(repeating: "larder-test-marker ", count: 20)
    _ = try tool.output("set", "marked", secret, "--durability", "durable")
    for key in 0..<30 {
      _ = try tool.output("set", "key \(key)", String(repeating: "v", count: 500))
    }
    let file = tool.store + "/g-1/data.mdb"
    var bytes = try Data(contentsOf: URL(fileURLWithPath: file))
    let marker = Data("larder-test-marker larder-test-marker".utf8)
    // Every page that holds it: one in use, others that were once.
    while let range = bytes.range(of: marker) {
      let page = range.lowerBound & ~4095
      bytes.replaceSubrange(page..<(page + 4096), with: Data(repeating: 0, count: 4096))
      try TestFiles.overwrite([UInt8](repeating: 0, count: 4096), at: page, in: file)
    }
  }

  @Test func `A damaged durable store is verified, repaired, and valid afterwards`() throws {
    try withTool { (tool) throws in
      try makeDamaged(tool)
      let verify = try tool.run("verify")
      #expect(verify.status == .exited(1) && verify.output.contains("error: data.mdb"), "\(verify)")
      let dry = try tool.run("repair", "--dry-run")
      #expect(dry.status == .exited(1) && dry.output.contains("Can be repaired"), "\(dry)")
      let unasked = try tool.run("repair")
      #expect(
        unasked.status == .exited(64) && unasked.standardError.contains("--yes"), "\(unasked)")
      #expect(try tool.run("get", "key 1").status == .exited(70))

      let repair = try tool.run("repair", "--yes", "--json")
      #expect(repair.status == .exited(1), "\(repair)")
      let report = try Tool.object(repair.output)
      let kept = try #require(report["kept"] as? Int)
      let lost = try #require(report["lost"] as? Int)
      #expect(kept + lost == 31 && lost >= 1 && kept > 15, "\(report)")
      #expect(report["outcome"] as? String == "repaired")
      let files = try #require(report["damagedFiles"] as? String)
      #expect(TestFiles.exists(files + "/data.mdb"))

      #expect(try tool.output("verify").hasPrefix("Valid: \(kept) entries"))
      #expect(try tool.output("repair").hasPrefix("Valid: nothing to do for \(kept) entries"))
      #expect(try tool.run("get", "marked").status == .exited(1))
      _ = try tool.output("set", "marked", "again")
      #expect(try tool.output("get", "marked") == "again\n")
    }
  }

  @Test func `What cannot be repaired ends with 2 and stays as it is`() throws {
    try withTool { (tool) throws in
      #expect(try tool.run("repair", "--yes").status == .exited(2))
      _ = try tool.output("set", "key", "value", "--durability", "durable")
      let file = tool.store + "/g-1/data.mdb"
      try TestFiles.overwrite([UInt8](repeating: 0, count: 8192), at: 0, in: file)
      let generation = tool.store + "/g-1"
      for name in TestFiles.names(in: generation) where name == "synced" || name.hasPrefix("log-") {
        TestFiles.removeAll(generation + "/" + name)
      }
      let before = try TestFiles.contents(of: file)
      let outcome = try tool.run("repair", "--yes", "--json")
      #expect(outcome.status == .exited(2), "\(outcome)")
      #expect(try Tool.object(outcome.standardError)["error"] as? String == "damaged")
      #expect(try TestFiles.contents(of: file) == before)
      let verify = try tool.run("verify", "--json")
      #expect(verify.status == .exited(1), "\(verify)")
      #expect(try Tool.object(verify.output)["errors"] as? Int ?? 0 >= 1)
    }
  }

  @Test func `The directory may be named without an option`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value")
      for command in ["verify", "repair"] {
        let outcome = try ChildProcess.run(tool.path, [command, tool.store])
        #expect(outcome.status.isSuccess && outcome.output.hasPrefix("Valid"), "\(outcome)")
        let twice = try tool.run(command, tool.store)
        #expect(twice.status == .exited(64), "\(twice)")
      }
    }
  }
}
#endif
