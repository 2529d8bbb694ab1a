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

/// The first commands and mistakes of a person at the terminal.
@Suite(.timeLimit(.minutes(60)))
struct ConvenienceTests {
  private func lines(_ text: String) throws -> [[String: Any]] {
    try text.split(separator: "\n").map { try Tool.object(String($0)) }
  }

  @Test func `A list as JSON has every entry, however many, and a limit is one`() throws {
    try withTool { (tool) throws in
      let keys = (0..<150).map { "key-\($0)" }
      let store = try SharedStore(at: tool.store)
      defer { store.close() }
      let cache = PersistentCache<String, String>(storage: store)
      for key in keys { try cache.setValue("value", forKey: key) }
      let all = try lines(tool.output("list", "--json"))
      #expect(Set(all.compactMap { $0["key"] as? String }) == Set(keys))
      #expect(try lines(tool.output("list", "--json", "--limit", "7")).count == 7)
      let table = try tool.run("list")
      #expect(table.standardError.contains("There are more"))
    }
  }

  @Test
  func `A size is what counts against the budget, and valueBytes is the value, in every answer`()
    throws
  {
    try withTool { (tool) throws in
      let set = try tool.json("set", "greeting", "Hello")
      let get = try tool.json("get", "greeting")
      let list = try Tool.object(tool.output("list", "--json"))
      let stat = try tool.json("stat")
      for answer in [set, get, list, stat] {
        #expect(answer["bytes"] as? Int == 64 + "greeting".utf8.count + "Hello".utf8.count)
      }
      for answer in [set, get, list] { #expect(answer["valueBytes"] as? Int == 5) }
    }
  }

  @Test func `Several keys, a prefix and standard input are removed`() throws {
    try withTool { (tool) throws in
      for key in ["a", "b", "c", "user/1", "user/2", "user", "d", "e"] {
        _ = try tool.output("set", key, "x")
      }
      _ = try tool.output("set", "user/3", "x", "--namespace", "other")
      #expect(try tool.output("remove", "a", "b") == "")
      let some = try tool.run("remove", "c", "none")
      #expect(some.status == .exited(1) && some.standardError.contains("\"none\""))
      #expect(try tool.json("remove", "--prefix", "user/")["removed"] as? Int == 2)
      #expect(try tool.output("remove", "--stdin", input: ["d", "e"]) == "")
      let rest = try lines(tool.output("list", "--json")).compactMap { $0["key"] as? String }
      #expect(Set(rest) == ["user", "user/3"])
      for wrong in [["remove"], ["remove", "a", "--prefix", "b"], ["remove", "--prefix", ""]] {
        let refused = try ChildProcess.run(tool.path, wrong + ["--store", tool.store])
        #expect(refused.status == .exited(64))
      }
    }
  }

  @Test func `A value that is not text is refused with the option that stores it`() throws {
    try withTool { (tool) throws in
      let refused = try ChildProcess.run(
        "/bin/sh",
        ["-c", "printf '\\377' | \"$0\" set key --store \"$1\"", tool.path, tool.store])
      #expect(refused.status == .exited(64) && refused.standardError.contains("--as bytes"))
    }
  }

  @Test(arguments: [("lst", "list"), ("stats", "stat"), ("remvoe", "remove"), ("qeury", "query")])
  func `A mistyped command is answered with the nearest`(word: String, name: String) throws {
    let path = try TestExecutable.tool.path
    let refused = try ChildProcess.run(path, [word, "--store", "/nowhere"])
    #expect(refused.status == .exited(64))
    #expect(refused.standardError.contains("Did you mean \"\(name)\""), "\(refused.standardError)")
    let unlike = try ChildProcess.run(path, ["xylophone"])
    #expect(unlike.status == .exited(64) && !unlike.standardError.contains("Did you mean"))
  }

  @Test func `A misspelt field of a query is an error with the nearest names`() throws {
    try withTool { (tool) throws in
      let objects = try ObjectStore(at: tool.store)
      defer { objects.close() }
      try objects.save((0..<10).map { Wagon.sample($0) })
      for arguments in [["modle == \"A\""], ["model == \"A\"", "--sort", "-modle"]] {
        let refused = try ChildProcess.run(
          tool.path, ["query", "Wagon"] + arguments + ["--store", tool.store])
        #expect(refused.status == .exited(64), "\(refused.output)")
        #expect(refused.standardError.contains("\"modle\""))
        #expect(refused.standardError.contains("Did you mean \"model\"?"))
      }
      // A field that some objects lack is a field.
      #expect(try tool.output("query", "Wagon", "plate == nil", "--count") == "5\n")
      #expect(try tool.output("query", "Wagon", "tags.count == 2", "--count") == "2\n")
    }
  }

  @Test func `A copy prints its number of objects`() throws {
    try withTool { (tool) throws in
      let objects = try ObjectStore(at: tool.store)
      defer { objects.close() }
      try objects.save((0..<10).map { Wagon.sample($0) })
      let copy = try tool.json("copy", tool.store + "-copy")
      #expect(copy["objects"] as? Int == 10 && copy["entries"] as? Int == 0)
      #expect(try tool.output("copy", tool.store + "-other").contains("10 objects"))
    }
  }

  @Test func `One remembered result is removed, and the others stay`() throws {
    try withMemo { (ground) throws in
      let (one, other) = (MemoGround.counting + "echo one", MemoGround.counting + "echo other")
      for script in [one, other] { #expect(try ground.memo([], script).status.isSuccess) }
      #expect(ground.runs == 2)
      let forgotten = try ground.memo(["--forget"], one)
      #expect(forgotten.status.isSuccess && forgotten.output.isEmpty)
      #expect(try ground.memo(["--forget"], one).status == .exited(1))
      #expect(try ground.memo([], other).output == "other\n")
      #expect(ground.runs == 2)
      #expect(try ground.memo([], one).output == "one\n")
      #expect(ground.runs == 3)
    }
  }
}
#endif
