// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderObjects
import LarderTestSupport
import LarderTesting
import Testing

/// `larder stat --why-big` and `larder compact`.
@Suite(.timeLimit(.minutes(60))) struct SizeCommandTests {
  /// The bytes of the blocks of all files of a store, from the system.
  private func allocated(_ tool: Tool) throws -> Int {
    let cache = tool.store + "/v1"
    let root = FileManager.default.fileExists(atPath: cache) ? cache : tool.store
    let outcome = try ChildProcess.run("du", ["-sk", root])
    return try #require(Int(outcome.output.prefix { $0.isNumber })) * 1024
  }

  /// Returns the causes, after a check that they add up to the blocks of the files.
  private func causes(_ tool: Tool) throws -> [[String: Any]] {
    var (answer, blocks) = ([String: Any](), 0)
    try eventually("no file changes meanwhile") {
      blocks = try allocated(tool)
      answer = try tool.json("stat", "--why-big")
      return try blocks == allocated(tool)
    }
    let causes = try answer.objects("causes")
    let sum = try causes.reduce(0) { try $0 + $1.number("bytes") }
    #expect(try sum == answer.number("allocatedBytes"))
    #expect(sum == blocks, "\(answer)")
    let other = try #require(causes.first { $0["cause"] as? String == "other" })
    #expect(try abs(other.number("bytes")) < max(sum / 100, 16_384), "\(other)")
    return causes
  }

  private func cause(
    _ causes: [[String: Any]], _ code: String, named name: String? = nil
  ) throws -> [String: Any] {
    let found = causes.first {
      $0["cause"] as? String == code && (name == nil || $0["name"] as? String == name)
    }
    return try #require(found, "\(code) is missing")
  }

  @Test func `The causes of the size add up to the blocks of the files`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store, .init(budget: .megabytes(64)))
      _ = try store.changes()
      for key in 0..<1000 {
        try store.setBytes(
          [UInt8](repeating: 1, count: key % 5000), forKey: "key \(key)", in: "space \(key % 3)",
          expires: key % 2 == 0 ? .never : .after(.seconds(3600)), tags: key % 7 == 0 ? ["t"] : [])
      }
      try store.setBytes([UInt8](repeating: 1, count: 300_000), forKey: "large", in: "large")
      try SharedDeque<String>(storage: store, name: "jobs").push(contentsOf: ["a", "b"])
      try store.namespace("space 1").setLimits(.init(maximum: .megabytes(1)))
      try ObjectStore(store).save((0..<300).map { Wagon.sample($0) })
      let causes = try causes(tool)
      let space = try cause(causes, "entries", named: "space 1")
      #expect(try space.number("entries") == 333)
      #expect(
        try space.number("bytes")
          == space.number("keyBytes") + space.number("valueBytes") + space.number("headerBytes"))
      #expect(try cause(causes, "entries", named: "large").number("valueBytes") == 300_000)
      #expect(try cause(causes, "entries", named: "deque/jobs").number("entries") == 3)
      let type = try #require(causes.first { $0["cause"] as? String == "objects" })
      #expect(try type.number("records") >= 300)
      let indexes = causes.filter { $0["cause"] as? String == "index" }
      #expect(indexes.contains { ($0["name"] as? String)?.hasSuffix("Wagon.year") == true })
      for code in [
        "entryPages", "objectPages", "expiryIndex", "namespaceIndexes", "changeLog", "catalog",
        "freeList", "freePages", "sharedTable", "readerTable", "smallFiles",
      ] { #expect(try cause(causes, code).number("bytes") > 0, "\(code)") }
      for cause in causes where !["other", "smallFiles"].contains(cause["cause"] as? String) {
        #expect(cause["action"] is String, "\(cause)")
      }
    }
  }

  @Test func `Removed entries become free pages, which compact returns to the disk`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store, .init(budget: .megabytes(64)))
      for key in 0..<200 { try store.setBytes([UInt8](repeating: 1, count: 20_000), forKey: key) }
      for key in 0..<200 where key != 7 { try store.remove(forKey: key) }
      let before = try causes(tool)
      #expect(try cause(before, "freePages").number("bytes") > 3 << 20)
      let text = try tool.output("stat", "--why-big")
      #expect(text.contains("free pages") && text.contains("larder compact"), "\(text)")
      #expect(text.contains("100.0 %"))
      let answer = try tool.json("compact")
      #expect(try answer.number("fileBytes") < answer.number("originalBytes") / 2, "\(answer)")
      // The last process leaves the former generation with its next operation.
      #expect(try store.bytes(forKey: 7)?.count == 20_000)
      var after: [[String: Any]] = []
      try eventually("the former generation is removed") {
        after = try causes(tool)
        return !after.contains { $0["cause"] as? String == "generation" }
      }
      let free = after.first { $0["cause"] as? String == "freePages" }
      #expect(try free?.number("bytes") ?? 0 < 1 << 20)
    }
  }

  @Test func `A generation that a stopped process still uses is a cause with an action`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      try store.setBytes([1], forKey: 1)
      let peer = try TestExecutable.peer.start()
      #expect(try peer.ask("open \(tool.store)").hasPrefix("opened "))
      #expect(try peer.ask("pin") == "pinned")
      try peer.stop()
      try store.compact()
      let former = try cause(causes(tool), "generation")
      #expect((former["name"] as? String)?.hasSuffix("/g-1") == true)
      #expect((former["action"] as? String)?.contains("Resume or terminate") == true)
      peer.continue()
    }
  }

  @Test func `The snapshot of a checkpoint is no read, and calls for nothing`() throws {
    try withTool { tool in
      // One checkpoint, at the first commit; this process holds its snapshot.
      var options = StoreOptions(durability: .relaxed, syncInterval: .seconds(3600))
      options.idleSyncDelay = nil
      let store = try SharedStore(at: tool.store, options)
      for value in 0..<100 { try store.setBytes([UInt8(value)], forKey: "a") }
      let text = try tool.output("stat", "--why-big")
      let reader = "Reader: process \(ProcessInfo.processInfo.processIdentifier), for a checkpoint"
      #expect(text.contains(reader) && text.contains("None is needed: it is not a read"), "\(text)")
      #expect(!text.contains("terminate"), "\(text)")
    }
  }

  @Test func `Files that a repair kept are a cause with their path`() throws {
    try withTool { tool in
      do {
        let store = try SharedStore(at: tool.store, .init(durability: .durable))
        for key in 0..<500 {
          try store.setBytes([UInt8](repeating: 7, count: 2000), forKey: key)
        }
      }
      let data = URL(fileURLWithPath: tool.store + "/g-1/data.mdb")
      var bytes = try Data(contentsOf: data)
      for offset in 100_000..<140_000 { bytes[offset] = 0xEE }
      let file = try FileHandle(forWritingTo: data)
      try file.write(contentsOf: bytes)
      try file.close()
      _ = try tool.run("repair", "--yes")
      let damaged = try cause(causes(tool), "damaged")
      #expect((damaged["name"] as? String)?.hasSuffix("/damaged-g-1") == true)
      #expect(try damaged.number("bytes") > 1 << 20)
      #expect((damaged["action"] as? String)?.contains("rm -r") == true)
    }
  }

  @Test func `The option excludes --prometheus`() throws {
    try withTool { tool in
      _ = try tool.output("set", "key", "value")
      #expect(try tool.run("stat", "--why-big", "--prometheus").status == .exited(64))
    }
  }
}
#endif
