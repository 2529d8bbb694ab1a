// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct CommandTests {
  @Test func `A text that was set is got, exactly`() throws {
    try withTool { (tool) throws in
      #expect(try tool.output("set", "greeting", "Grüße, 世界") == "")
      #expect(try tool.output("get", "greeting") == "Grüße, 世界\n")
      let bytes1 = try tool.json("get", "greeting")["valueBytes"] as? Int
      #expect(bytes1 == 15)
    }
  }

  @Test func `Standard input is stored with its final newline`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "lines", input: ["one", "two"])
      let value2 = try tool.json("get", "lines")["value"] as? String
      #expect(value2 == "one\ntwo\n")
      #expect(try tool.output("get", "lines") == "one\ntwo\n")
    }
  }

  @Test(
    arguments: [
      ("integer", "-42", "-42"), ("integer", "170141183460469231731687303715884105728", nil),
      ("double", "2.5", "2.5"), ("boolean", "true", "true"),
      ("uuid", "123e4567-e89b-42d3-a456-426614174000", "123E4567-E89B-42D3-A456-426614174000"),
      ("date", "2027-01-31T12:00:00Z", "2027-01-31T12:00:00.000Z"),
      ("json", "{\"b\":[1,null]}", "{\"b\":[1,null]}"),
    ] as [(String, String, String?)])
  func `A value of each kind is printed as it was meant`(
    kind: String, given: String, shown: String?
  ) throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "--as", kind, "--", "key", given)
      #expect(try tool.output("get", "key") == (shown ?? given) + "\n")
      let codec3 = try tool.json("get", "key")["codec"] as? String
      #expect(codec3 == kind)
    }
  }

  @Test(arguments: ["integer", "double", "boolean", "uuid", "date", "json"])
  func `A value that is not of its kind is refused and nothing is created`(kind: String) throws {
    try withTool { (tool) throws in
      let outcome = try tool.run("set", "key", "nonsense}", "--as", kind)
      #expect(outcome.status == .exited(64))
      #expect(outcome.standardError.contains("The value is not"))
      #expect(!FileManager.default.fileExists(atPath: tool.store))
    }
  }

  @Test func `Keys of different types and namespaces are different keys`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "1", "text")
      _ = try tool.output("set", "1", "integer", "--key-type", "integer")
      _ = try tool.output("set", "1", "elsewhere", "--namespace", "other")
      #expect(try tool.output("get", "1") == "text\n")
      #expect(try tool.output("get", "1", "--key-type", "integer") == "integer\n")
      #expect(try tool.output("get", "1", "--namespace", "other") == "elsewhere\n")
      let wrong = try tool.run("get", "one", "--key-type", "integer")
      #expect(wrong.status == .exited(64))
      #expect(wrong.standardError.contains("decimal number"))
    }
  }

  @Test(arguments: ["get key", "remove key", "list", "stat", "verify", "clear --yes"])
  func `A command on a missing store reports it and creates none`(command: String) throws {
    try withTool { (tool) throws in
      var arguments = command.split(separator: " ").map(String.init)
      arguments += ["--store", tool.store]
      let outcome = try ChildProcess.run(tool.path, arguments)
      #expect(outcome.status == .exited(2))
      #expect(outcome.output == "")
      #expect(outcome.standardError.contains("There is no store at \(tool.store)"))
      #expect(!FileManager.default.fileExists(atPath: tool.store))
    }
  }

  @Test func `A missing key exits with 1, and the JSON output names the reason`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value")
      #expect(try tool.run("get", "other").status == .exited(1))
      #expect(try tool.run("remove", "other").status == .exited(1))
      let outcome = try tool.run("get", "other", "--json")
      #expect(outcome.output == "")
      let error4 = try Tool.object(outcome.standardError)["error"] as? String
      #expect(error4 == "notFound")
    }
  }

  @Test func `What was removed is gone`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value")
      _ = try tool.output("remove", "key")
      #expect(try tool.run("get", "key").status == .exited(1))
      let entries5 = try tool.json("stat")["entries"] as? Int
      #expect(entries5 == 0)
    }
  }

  @Test func `Clearing a namespace keeps the others, and clearing everything requires --yes`()
    throws
  {
    try withTool { (tool) throws in
      _ = try tool.output("set", "a", "1", "--namespace", "x")
      _ = try tool.output("set", "b", "2", "--namespace", "y")
      #expect(try tool.run("clear").status == .exited(64))
      #expect(
        try tool.output("clear", "--namespace", "x") == "Removed 1 entry of namespace \"x\".\n")
      #expect(try tool.run("get", "a", "--namespace", "x").status == .exited(1))
      #expect(try tool.output("get", "b", "--namespace", "y") == "2\n")
      #expect(try tool.output("clear", "--yes") == "Removed 1 entry.\n")
      #expect(try tool.run("get", "b", "--namespace", "y").status == .exited(1))
    }
  }

  @Test func `The store's own durability is found out, and a wrong one is refused`() throws {
    try withTool { (tool) throws in
      _ = try tool.output("set", "key", "value", "--durability", "durable")
      let durability6 = try tool.json("stat")["durability"] as? String
      #expect(durability6 == "durable")
      #expect(try tool.output("get", "key") == "value\n")
      let outcome = try tool.run("get", "key", "--durability", "cache", "--json")
      #expect(outcome.status == .exited(70))
      let error = try Tool.object(outcome.standardError)
      #expect(error["error"] as? String == "durabilityMismatch")
    }
  }
}
#endif
