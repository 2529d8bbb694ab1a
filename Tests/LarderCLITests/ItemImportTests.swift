// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderTesting
import Testing

private struct Message: Codable, Sendable {
  var from: String
  var text: String
  var at: Date
  var likes: Int
  var score: Float
  var ratio: Double
  var data: Data
  var isRead: Bool
  var huge: UInt64
  var replies: [String]
}

@Suite(.timeLimit(.minutes(60)))
struct ItemImportTests {
  private func withFile(_ body: (Tool, _ file: String) throws -> Void) throws {
    try withTemporaryDirectory { (path) throws in
      let file = path + "/storage.sqlite"
      try Data(CacheKitFile.bytes).write(to: URL(fileURLWithPath: file))
      try body(Tool(store: path + "/store"), file)
    }
  }

  private static let script = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appendingPathComponent("scripts/import-persistentcachekit").path

  private static let hasPython: Bool =
    (try? ChildProcess.run("python3", ["-c", "import sqlite3"]).status.isSuccess) ?? false

  private func convert(_ arguments: String...) throws -> ChildProcess.Outcome {
    try ChildProcess.run("python3", [Self.script] + arguments)
  }

  @Test(.enabled(if: hasPython, "python3 with sqlite3 is not installed"))
  func `What PersistentCacheKit stored is read by a cache, with its expiry`() throws {
    try withFile { (tool, file) throws in
      let lines = try convert(file, "--namespace", "messages", "--key-type", "uuid")
      #expect(lines.standardError.contains("15 of other namespaces or types of key"))
      let said = try tool.output("import", "-", input: lines.lines)
      #expect(said == "Imported 2 entries, left out 1 (expired, or stored already).\n")
      let numbers = try convert(file, "--namespace", "numbers", "--key-type", "integer")
      #expect(try tool.output("import", "-", input: numbers.lines) == "Imported 8 entries.\n")
      let store = try SharedStore(at: tool.store)
      let messages = PersistentCache<UUID, Message>(storage: store, namespace: "messages")
      func key(_ number: Int) throws -> UUID {
        try #require(UUID(uuidString: "00000000-0000-0000-0000-00000000000\(number)"))
      }
      for number in 1...2 {
        let message = try #require(messages[key(number)])
        #expect(message.from == "Ada" && message.likes == -number && message.isRead)
        #expect(message.text == (number == 1 ? "one" : String(repeating: "long ", count: 300)))
        #expect(message.at.timeIntervalSinceReferenceDate == 700_000_000.25 + Double(number))
        #expect(message.score == 0.1 as Float && message.ratio == 0.1)
        #expect(message.huge == 1 << 62 && message.replies == ["a", "ä€😀"])
        #expect(message.data == Data([1, 2, UInt8(number)]))
      }
      #expect(try messages[key(3)] == nil)
      #expect(try messages[item: key(1)]?.expiration == nil)
      let expiration = try messages[item: key(2)]?.expiration
      #expect(expiration == Date(timeIntervalSince1970: 4_000_000_000.5))
      let thousands = PersistentCache<Int, Int>(storage: store, namespace: "numbers")
      for number in 0..<8 { #expect(thousands[number] == number * 1000) }
      #expect(try store.verify() == [])
    }
  }

  @Test(.enabled(if: hasPython, "python3 with sqlite3 is not installed"))
  func `A cache of mixed types reads what one of PersistentCacheKit stored`() throws {
    try withFile { (tool, file) throws in
      let lines = try convert(file, "--mixed")
      // Without a namespace every key is a text; the one value that is not an item is reported.
      #expect(lines.standardError.hasSuffix("omitted: 1 removed, 1 unreadable.\n"))
      let answer = try Tool.object(tool.output("import", "-", "--json", input: lines.lines))
      #expect(answer["stored"] as? Int == 15 && answer["leftOut"] as? Int == 1)
      let cache = MixedPersistentCache(storage: try SharedStore(at: tool.store))
      #expect(cache[Key<String>("text")] == "plain text")
      #expect(cache[Key<Float>("Float")] == 0.1)
      #expect(cache[Key<[String]>("list")] == ["a", "b"])
      let when = try #require(cache[item: Key<Date>("when")])
      #expect(when.value == Date(timeIntervalSinceReferenceDate: 5.5))
      #expect(when.expiration == Date(timeIntervalSince1970: 4_000_000_000.5))
      #expect(cache[Key<Int>("list")] == nil)
    }
  }

  @Test(.enabled(if: hasPython, "python3 with sqlite3 is not installed"))
  func `Without a namespace keys are unchanged, and existing entries may be kept`() throws {
    try withFile { (tool, file) throws in
      _ = try tool.output("set", "name", "mine")
      let lines = try convert(file).lines
      _ = try tool.output("import", "-", "--keep-existing", input: lines)
      let texts = PersistentCache<String, String>(storage: try SharedStore(at: tool.store))
      #expect(texts["text"] == "plain text" && texts["name"] == "mine")
      _ = try tool.output("import", "-", input: lines)
      #expect(texts["name"] == "Grüße")
    }
  }

  @Test(.enabled(if: hasPython, "python3 with sqlite3 is not installed"))
  func `An import from a damaged SQLite file is read or refused with a reason`() throws {
    try withTemporaryDirectory { path in
      let file = path + "/storage.sqlite"
      let missing = try convert(file)
      #expect(missing.status == .exited(70) && missing.standardError.contains(file))
      let whole = CacheKitFile.bytes
      let seed = Seed.announce()
      var random = seed.generator()
      for round in 0..<40 {
        var bytes = whole
        if round < 10 {
          bytes.removeLast(512 * (round + 1))
        } else {
          for _ in 0..<3 {
            bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(
              in: 0...255, using: &random)
          }
        }
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        let outcome = try convert(file)
        #expect([.exited(0), .exited(70)].contains(outcome.status), "\(seed)")
        #expect(!outcome.standardError.contains("Traceback"), "\(seed)")
        if round < 10 { #expect(outcome.status == .exited(70)) }
      }
      #expect(try convert(file, "--mixed", "--key-type", "uuid").status == .exited(64))
    }
  }
}
#endif
