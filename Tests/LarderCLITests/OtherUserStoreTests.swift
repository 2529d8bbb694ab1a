// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTestSupport
import LarderTesting
import Testing

/// Another user of the machine.
enum UnprivilegedUser {
  /// Only root can act as another user; and that user has to reach the tool.
  static var isPossible: Bool {
    guard getuid() == 0, let tool = try? TestExecutable.tool.path else { return false }
    return (try? run("test -x \(tool)").status.isSuccess) ?? false
  }

  static func run(_ script: String) throws -> ChildProcess.Outcome {
    // The account of uid 65534, by the name that this system gives it.
    let command = "exec su \"$(id -nu 65534)\" -s /bin/sh -c \"$0\""
    return try ChildProcess.run("sh", ["-c", command, script])
  }
}

/// The tool's errors about a store that it may not access.
@Suite(.timeLimit(.minutes(60)), .enabled(if: UnprivilegedUser.isPossible))
struct ForeignStoreTests {
  @Test(arguments: ["stat", "export -", "copy /nowhere/copy", "list", "get key", "stat --json"])
  func `A store of another user is reported with its owner`(command: String) throws {
    try withTemporaryDirectory { (path) throws in
      let manager = FileManager.default
      let tool = try Tool(store: path + "/store")
      _ = try tool.output("set", "key", "value")
      func tell(_ store: String) throws -> ChildProcess.Outcome {
        var words = command.split(separator: " ")
        words.insert("--store \(store)", at: 1)
        return try UnprivilegedUser.run("\(tool.path) \(words.joined(separator: " "))")
      }
      // The store itself is closed to others; then a directory above it as well.
      for (mode, sentence) in [
        (0o755, "belongs to user 0, not to you"), (0o700, "\(path) belongs to user 0, not to you"),
      ] {
        try manager.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        let outcome = try tell(tool.store)
        #expect(outcome.status == .exited(70), "\(outcome.standardError)")
        #expect(outcome.output.isEmpty)
        #expect(
          outcome.standardError.replacing("\\/", with: "/").contains(sentence),
          "\(outcome.standardError)")
        #expect(!outcome.standardError.contains("no store"))
      }
      // In an accessible directory a missing store is reported as missing.
      try manager.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
      #expect(try tell(path + "/none").status == .exited(2))
    }
  }
}
#endif
