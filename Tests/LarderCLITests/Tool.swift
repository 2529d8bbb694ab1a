// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderTestSupport
import LarderTesting
import Testing

/// The executable on a separate store.
struct Tool {
  let store: String
  let path: String

  init(store: String) throws {
    self.store = store
    path = try TestExecutable.tool.path
  }

  /// Returns the arguments of a subcommand, which may itself have one, with the store.
  private func onStore(_ arguments: [String]) -> [String] {
    let words = arguments[0] == "queue" ? 2 : 1
    return arguments.prefix(words) + ["--store", store] + arguments.dropFirst(words)
  }

  /// Runs a subcommand on the store. Arguments after `--` stay after it.
  func run(_ arguments: String..., input: [String] = []) throws -> ChildProcess.Outcome {
    try ChildProcess.run(path, onStore(arguments), input: input)
  }

  /// Runs a subcommand that must succeed and write nothing to standard error.
  func output(_ arguments: String..., input: [String] = []) throws -> String {
    let arguments = onStore(arguments)
    let outcome = try ChildProcess.run(path, arguments, input: input)
    #expect(outcome.status.isSuccess, "\(arguments): \(outcome.standardError)")
    #expect(outcome.standardError.isEmpty, "\(arguments): \(outcome.standardError)")
    return outcome.output
  }

  /// The same for a JSON object.
  func json(_ arguments: String...) throws -> [String: Any] {
    let arguments = onStore(arguments) + ["--json"]
    let outcome = try ChildProcess.run(path, arguments)
    #expect(outcome.status.isSuccess, "\(arguments): \(outcome.standardError)")
    return try Tool.object(outcome.output)
  }

  /// Runs a closure while another process has the store open.
  func whileInUse<R>(_ body: () throws -> R) throws -> R {
    let holder = try TestExecutable.tool.start([
      "lock", "in use", "--store", store, "--", "sh", "-c", "echo held; read line",
    ])
    try holder.expect("held")
    let result = try body()
    try holder.send("end")
    #expect(try holder.wait().isSuccess)
    return result
  }

  static func object(_ text: String) throws -> [String: Any] {
    let value = try JSONSerialization.jsonObject(with: Data(text.utf8))
    return try #require(value as? [String: Any])
  }
}

func withTool(_ body: (Tool) throws -> Void) throws {
  try withTemporaryDirectory { path in try body(Tool(store: "\(path)/store")) }
}
#endif
