// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderTesting
import Testing

/// The tool with suites of its own.
private struct Suites {
  let directory: TemporaryDirectory
  let path: String

  init() throws {
    directory = try TemporaryDirectory()
    path = try PeerExecutable.tool.path
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

@Suite(.timeLimit(.minutes(5)))
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
