// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderCoding
import LarderDefaults
import LarderTestSupport
import LarderTesting
import Testing

/// The tool with separate suites.
private struct Suites {
  let directory: TemporaryDirectory
  let path: String

  init() throws {
    directory = try TemporaryDirectory()
    path = try TestExecutable.tool.path
  }

  var environment: [String: String] { ["XDG_DATA_HOME": directory.path] }

  func run(_ arguments: String...) throws -> ChildProcess.Outcome {
    try ChildProcess.run(path, ["defaults"] + arguments, environment: environment)
  }

  func output(_ arguments: String...) throws -> String {
    let outcome = try ChildProcess.run(path, ["defaults"] + arguments, environment: environment)
    #expect(outcome.status.isSuccess, "\(arguments): \(outcome.standardError)")
    #expect(outcome.standardError.isEmpty, "\(arguments): \(outcome.standardError)")
    return outcome.output
  }
}

@Suite(.timeLimit(.minutes(60)))
struct DefaultsCommandTests {
  @Test(
    arguments: [
      ("text", "dark mode", "dark mode"), ("integer", "-42", "-42"), ("double", "0.5", "0.5"),
      ("float", "0.1", "0.1"), ("boolean", "true", "true"), ("json", "[1, 2]", "[1,2]"),
      ("date", "2027-01-31T12:00:00Z", "2027-01-31T12:00:00.000Z"),
    ])
  func `A default of each kind is read as it was written, listed and deleted`(
    kind: String, given: String, shown: String
  ) throws {
    let suites = try Suites()
    #expect(try suites.output("write", "app", "--type", kind, "--", "key", given) == "")
    #expect(try suites.output("read", "app", "key") == shown + "\n")
    #expect(try suites.output("read", "app") == "key = \(shown)\n")
    let object = try Tool.object(try suites.output("read", "app", "key", "--json"))
    #expect(object["type"] as? String == kind)
    #expect(try suites.output("list") == "app\n")
    #expect(try suites.output("list", "app").contains(kind))
    #expect(try suites.output("delete", "app", "key") == "")
    #expect(try suites.run("delete", "app", "key").status == .exited(1))
    #expect(try suites.run("read", "app", "key").status == .exited(1))
  }

  @Test func `Looking at a suite that is not there creates none`() throws {
    let suites = try Suites()
    #expect(try suites.run("read", "app", "key").status == .exited(2))
    #expect(try suites.run("list", "app").status == .exited(2))
    #expect(try suites.run("delete", "app", "--all").status == .exited(2))
    #expect(try FileManager.default.contentsOfDirectory(atPath: suites.directory.path) == [])
  }

  @Test(arguments: ["../x", "", "a/b", ".."])
  func `A suite whose name leads elsewhere is refused`(name: String) throws {
    let suites = try Suites()
    let outcome = try suites.run("write", name, "key", "value")
    #expect(outcome.status == .exited(64))
    #expect(outcome.standardError.contains("cannot name a suite"))
    #expect(try FileManager.default.contentsOfDirectory(atPath: suites.directory.path) == [])
  }

  @Test func `Without a type, a value keeps that of the one it replaces`() throws {
    let suites = try Suites()
    _ = try suites.output("write", "app", "volume", "0.5", "--type", "double")
    _ = try suites.output("write", "app", "volume", "0.75")
    let volume = try Tool.object(try suites.output("read", "app", "volume", "--json"))
    #expect(volume["type"] as? String == "double")
    #expect(volume["value"] as? Double == 0.75)
    let refused = try suites.run("write", "app", "volume", "loud")
    #expect(refused.status == .exited(64))
    #expect(refused.standardError.contains("type double"))
    #expect(refused.standardError.contains("--type"))
    #expect(try suites.output("read", "app", "volume") == "0.75\n")
    _ = try suites.output("write", "app", "volume", "loud", "--type", "string")
    #expect(try suites.output("read", "app", "volume") == "loud\n")
    // As Swift calls them.
    _ = try suites.output("write", "app", "count", "3", "--type", "int")
    _ = try suites.output("write", "app", "isOn", "true", "--type", "bool")
    _ = try suites.output("write", "app", "sizes", "[1,2]", "--type", "json")
    #expect(try suites.run("write", "app", "sizes", "[1,").status == .exited(64))
    _ = try suites.output("write", "app", "sizes", "[3]")
    let all = try Tool.object(try suites.output("read", "app", "--json"))
    #expect(all["count"] as? Int == 3)
    #expect(all["isOn"] as? Bool == true)
    #expect(all["sizes"] as? [Int] == [3])
    #expect(try suites.run("write", "app", "count", "1", "--type", "color").status == .exited(64))
  }

  @Test func `A value that makes no sense creates no suite`() throws {
    let suites = try Suites()
    #expect(try suites.run("write", "app", "n", "x", "--type", "integer").status == .exited(64))
    #expect(try FileManager.default.contentsOfDirectory(atPath: suites.directory.path) == [])
  }

  @Test func `A value that cannot be read is named, and the others are shown`() throws {
    let suites = try Suites()
    _ = try suites.output("write", "app", "good", "yes")
    let defaults = try Defaults(at: suites.directory.path + "/larder/defaults/app")
    try defaults.setStored(codec: CodecIdentifier.cbor.rawValue, payload: [0xBF], forKey: "bad")
    defaults.close()
    for options in [[], ["--json"]] {
      let outcome = try ChildProcess.run(
        suites.path, ["defaults", "read", "app"] + options, environment: suites.environment)
      #expect(outcome.status == .exited(1))
      #expect(outcome.output.contains("yes"))
      #expect(outcome.standardError.contains("bad"))
    }
    #expect(try !suites.run("read", "app", "bad").status.isSuccess)
    #expect(try suites.output("list", "app").contains("bad"))
    _ = try suites.output("write", "app", "bad", "\"good\"")
    #expect(try suites.output("read", "app", "bad") == "\"good\"\n")
  }

  @Test func `Watching a default prints what becomes of it`() throws {
    let suites = try Suites()
    _ = try suites.output("write", "app", "theme", "light")
    let watch = try ChildProcess(
      suites.path, ["defaults", "watch", "app", "theme", "--count", "3"],
      environment: suites.environment)
    try watch.expect("light")
    _ = try suites.output("write", "app", "other", "x")
    _ = try suites.output("write", "app", "theme", "dark")
    try watch.expect("dark")
    _ = try suites.output("delete", "app", "--all")
    try watch.expect("")
    #expect(try watch.wait() == .exited(0))
  }
}
#endif
