// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct TransferTests {
  /// A store with an entry of each sort, and a second one.
  private func withStores(_ body: (Tool, Tool, _ directory: String) throws -> Void) throws {
    try withTemporaryDirectory { (path) throws in
      let tool = try Tool(store: path + "/store")
      _ = try tool.output("set", "plain", "Grüße \"x\" \\ \u{1}\nline")
      _ = try tool.output("set", "42", "hello", "--key-type", "integer", "--expires", "1h")
      _ = try tool.output("set", "00ff", "x", "--key-type", "bytes", "--namespace", "other")
      _ = try tool.output("set", "limits", "{\"a\":[1,2.5]}", "--as", "json")
      _ = try tool.output("set", "number", "7", "--as", "integer")
      _ = try tool.output("memo", "--", "echo", "a composite key")
      let raw = path + "/raw"
      var random = SeededRandom(seed: Seed.announce().value)
      try Data((0..<100_000).map { _ in UInt8.random(in: 0...255, using: &random) })
        .write(to: URL(fileURLWithPath: raw))
      let big = try ChildProcess.run(
        "sh", ["-c", "\(tool.path) set big --as bytes --store \(tool.store) < \(raw)"])
      #expect(big.status.isSuccess)
      try body(tool, Tool(store: path + "/other"), path)
    }
  }

  /// The lines of a store, without the fields that an import creates again.
  private func lines(_ tool: Tool) throws -> Set<String> {
    Set(
      try tool.run("export", "-").lines.map {
        $0.replacing(/"created":\d+,/, with: "")
      })
  }

  @Test(arguments: ["entries.jsonl", "entries.cbor"])
  func `What was exported and imported is the same, with its expiry and its kind of key`(
    name: String
  ) throws {
    try withStores { (tool, other, path) throws in
      let file = path + "/" + name
      #expect(try tool.output("export", file) == "Exported 7 entries to \(file).\n")
      #expect(try other.output("import", file) == "Imported 7 entries.\n")
      #expect(try lines(other) == lines(tool))
      #expect(try other.output("get", "42", "--key-type", "integer") == "hello\n")
      #expect(
        try other.output("import", file, "--keep-existing").contains("Imported 0 entries"))
      #expect(try other.run("import", "-", input: ["{}"]).status == .exited(70))
    }
  }

  @Test func `A namespace can be exported alone, and imported into another`() throws {
    try withStores { (tool, other, path) throws in
      let file = path + "/file"
      _ = try tool.output("export", file, "--namespace", "other", "--format", "cbor")
      _ = try other.output("import", file, "--namespace", "third")
      let got = try other.output("get", "00ff", "--key-type", "bytes", "--namespace", "third")
      #expect(got == "x\n")
      let entries = try other.json("stat")["entries"] as? Int
      #expect(entries == 1)
    }
  }

  @Test(arguments: ["file.jsonl", "file.cbor"])
  func `Namespaces that differ in Unicode normalisation stay apart in an import`(
    name: String
  ) throws {
    try withTemporaryDirectory { path in
      let (tool, other) = (try Tool(store: path + "/a"), try Tool(store: path + "/b"))
      let names = ["\u{e9}", "e\u{301}"]
      for (number, name) in names.enumerated() {
        _ = try tool.output("set", "--namespace", name, "key", "\(number)")
      }
      _ = try tool.output("export", path + "/" + name)
      #expect(try other.output("import", path + "/" + name).hasPrefix("Imported 2 entries"))
      for (number, name) in names.enumerated() {
        #expect(try other.output("get", "--namespace", name, "key") == "\(number)\n")
      }
    }
  }

  @Test(arguments: [("entries.jsonl", "line"), ("entries.cbor", "item")])
  func `Of a file that is cut what was read is kept, and the error names the place`(
    name: String, unit: String
  ) throws {
    try withStores { (tool, _, path) throws in
      let file = path + "/" + name
      _ = try tool.output("export", file)
      let whole = try Data(contentsOf: URL(fileURLWithPath: file))
      for length in [1, whole.count / 3, whole.count - 2] {
        let cut = path + "/cut"
        try whole.prefix(length).write(to: URL(fileURLWithPath: cut))
        let target = try Tool(store: path + "/cut-\(length)")
        let outcome = try target.run("import", cut, "--json")
        #expect(outcome.status == .exited(70))
        let error = try Tool.object(outcome.standardError)
        let place = try #require(error[unit] as? Int)
        let stored = try target.json("stat")["entries"] as? Int
        #expect(stored == place - 1)
        #expect(error["stored"] as? Int == stored)
      }
    }
  }

  @Test func `An export under heavy writing is of one moment`() throws {
    try withTemporaryDirectory { (path) throws in
      let tool = try Tool(store: path + "/store")
      let first = path + "/first"
      let second = path + "/second"
      // Each import is one transaction: every export has all values of one of the two.
      for (file, value) in [(first, "a"), (second, "b")] {
        let lines = (0..<2000).map { "{\"key\":\"\($0)\",\"text\":\"\(value)\"}\n" }.joined()
        try Data(lines.utf8).write(to: URL(fileURLWithPath: file))
      }
      _ = try tool.output("import", first)
      let writer = try ChildProcess(
        "sh",
        [
          "-c",
          "while [ ! -e \(path)/stop ]; do for f in \(second) \(first); do "
            + "\(tool.path) import $f --store \(tool.store) > /dev/null; done; done",
        ])
      for _ in 0..<10 {
        let lines = try tool.run("export", "-").lines
        #expect(lines.count == 2000)
        let values = Set(lines.map { $0.suffix(3) })
        #expect(values.count == 1)
      }
      _ = FileManager.default.createFile(atPath: path + "/stop", contents: nil)
      #expect(try writer.wait().isSuccess)
    }
  }

  @Test(arguments: [
    "nonsense", "{\"key\":\"a\"}", "{\"text\":\"a\"}", "{\"key\":\"a\",\"text\":1}",
    "{\"key\":\"a\",\"base64\":\"*\"}", "{\"key\":\"a\",\"text\":\"b\"} more",
    "{\"key\":\"x\",\"keyType\":\"integer\",\"text\":\"b\"}",
    "{\"key\":\"a\",\"text\":\"b\",\"no\":1}",
    "{\"key\":\"a\",\"text\":\"b\",\"expires\":soon}", "{\"key\":\"a\",\"text\":\"\\",
    "{\"key\":\"a\",\"text\":\"b\",\"codec\":\"other\"}", "[1]",
    "{\"key\":\"a\",\"text\":\"\\u12\"}", "{\"key\":\"a\",\"text\":\"b\",\"codec\":99999}",
    "{\"key\":\"a\",\"text\":\"b\",\"codec\":-1}", "{\"key\":\"a\",\"text\":\"b\",\"key\":\"c\"}",
    "{\"key\":\"a\",\"text\":\"b\",\"created\":1,\"created\":1}",
    "{\"keyTag\":256,\"keyBase64\":\"YQ==\",\"text\":\"b\"}",
    "{\"keyTag\":1,\"key\":\"a\",\"text\":\"b\"}",
  ])
  func `An invalid line is refused with its number`(line: String) throws {
    try withTool { (tool) throws in
      let outcome = try tool.run("import", "-", input: ["{\"key\":\"good\",\"text\":\"1\"}", line])
      #expect(outcome.status == .exited(70))
      #expect(outcome.standardError.contains("line 2: "), "\(outcome.standardError)")
      #expect(try tool.output("get", "good") == "1\n")
    }
  }

  @Test func `A copy is a complete separate store and never overwrites another`() throws {
    try withStores { (tool, other, _) throws in
      let arguments = ["copy", other.store, "--store", tool.store]
      #expect(try ChildProcess.run(tool.path, arguments).status == .exited(0))
      #expect(try lines(other) == lines(tool))
      #expect(try other.output("verify").contains("Valid"))
      _ = try other.output("set", "plain", "changed")
      #expect(try tool.output("get", "plain") != "changed\n")
      #expect(try ChildProcess.run(tool.path, arguments).status == .exited(70))
      #expect(try other.output("get", "plain") == "changed\n")
    }
  }
}
#endif
