// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderDynamic
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

@Suite(.timeLimit(.minutes(15)))
struct ItemImportTests {
  private func withFile(_ body: (Tool, _ file: String) throws -> Void) throws {
    try withTemporaryDirectory { (path) throws in
      let file = path + "/storage.sqlite"
      try Data(CacheKitFile.bytes).write(to: URL(fileURLWithPath: file))
      try body(Tool(store: path + "/store"), file)
    }
  }

  @Test func `What PersistentCacheKit stored is read by a cache, with its expiry`() throws {
    try withFile { (tool, file) throws in
      let said = try tool.output(
        "import", file, "--namespace", "messages", "--key-type", "uuid")
      #expect(
        said == "Imported 2 entries, left out: 1 expired or stored already, "
          + "15 of other namespaces or kinds of key.\n")
      let numbers = try tool.output(
        "import", file, "--namespace", "numbers", "--key-type", "integer")
      #expect(numbers.hasPrefix("Imported 8 entries,"))
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

  @Test func `A cache of mixed types reads what one of PersistentCacheKit stored`() throws {
    try withFile { (tool, file) throws in
      let answer = try Tool.object(
        tool.output("import", file, "--mixed", "--json"))
      // Without a namespace every key is a text; the one value that is not an item is reported.
      #expect(answer["stored"] as? Int == 15 && answer["leftOut"] as? Int == 1)
      #expect(answer["removed"] as? Int == 1 && answer["unreadable"] as? Int == 1)
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

  @Test func `Without a namespace keys are unchanged, and existing entries may be kept`() throws {
    try withFile { (tool, file) throws in
      _ = try tool.output("set", "name", "mine")
      _ = try tool.output("import", file, "--keep-existing")
      let texts = PersistentCache<String, String>(storage: try SharedStore(at: tool.store))
      #expect(texts["text"] == "plain text" && texts["name"] == "mine")
      _ = try tool.output("import", file)
      #expect(texts["name"] == "Grüße")
    }
  }

  @Test func `An import that fails is an error with the reason`() throws {
    try withFile { (tool, file) throws in
      let log = file + "-wal"
      try Data([1]).write(to: URL(fileURLWithPath: log))
      let unfinished = try tool.run("import", file)
      #expect(unfinished.status == .exited(70) && unfinished.standardError.contains(log))
      try FileManager.default.removeItem(atPath: log)
      let lines = file + ".jsonl"
      try Data("{}\n".utf8).write(to: URL(fileURLWithPath: lines))
      let other = try tool.run("import", lines, "--key-type", "uuid")
      #expect(other.status == .exited(70) && other.standardError.contains("no SQLite file"))
      let cut = file + ".cut"
      try Data(CacheKitFile.bytes.prefix(2048)).write(to: URL(fileURLWithPath: cut))
      let damaged = try tool.run("import", cut)
      #expect(damaged.status == .exited(70) && damaged.standardError.contains("damaged"))
      #expect(try tool.run("import", file, "--mixed", "--key-type", "uuid").status == .exited(64))
    }
  }

  @Test func `A damaged SQLite file is read or refused, never a crash`() throws {
    let whole = CacheKitFile.bytes
    func read(_ bytes: [UInt8]) -> Bool {
      (try? PersistentCacheKitFile(bytes).entries(namespace: "", type: .text) { _ in }) != nil
    }
    #expect(read(whole))
    for length in stride(from: 0, to: whole.count - 1, by: 7) {
      #expect(!read(Array(whole[..<length])))
    }
    let seed = Seed.announce()
    var random = seed.generator()
    var refused = 0
    for _ in 0..<4000 {
      var bytes = whole
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = [
          0, 0xFF, 0x80, UInt8.random(in: 0...255, using: &random),
        ].randomElement(using: &random)!
      }
      if !read(bytes) { refused += 1 }
    }
    #expect(refused > 0, "\(seed)")
  }
}
