// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation

/// A call of a compiler whose result can be stored: it compiles one C file to an object file.
struct CompilerCall: Sendable {
  private let command: Command
  private let source: String
  /// The path of the object file.
  let output: String

  /// The beginnings of options that write further files, or read some that the preprocessor does not.
  private static let unsupported = [
    "-M", "-Wp,", "@", "-fprofile", "-ftest-coverage", "--coverage", "-save", "-gsplit", "-fdump",
    "-fplugin", "-specs",
  ]

  /// Creates a call, or returns `nil` for one that links, that has several files, or that has an option
  /// whose effect the cache does not cover. An unknown option with a separate value counts as a file.
  init?(_ command: Command) {
    var sources: [String] = []
    var output: String?
    var compiles = false
    var rest = command.arguments.makeIterator()
    while let argument = rest.next() {
      switch argument {
      case "-c": compiles = true
      case "-o": output = rest.next()
      case "-I", "-D", "-U", "-isystem", "-include": _ = rest.next()
      case _ where !argument.hasPrefix("-") && !argument.hasPrefix("@"): sources.append(argument)
      default: if Self.unsupported.contains(where: argument.hasPrefix) { return nil }
      }
    }
    guard compiles, sources.count == 1, sources[0].hasSuffix(".c"), let output else { return nil }
    (self.command, self.source, self.output) = (command, sources[0], output)
  }

  /// Returns the hash of all that the object file depends on, or `nil` if the preprocessor fails.
  ///
  /// Headers are in the output of the preprocessor. The name of the object file is left out, so that the
  /// same file is found for another directory.
  func key() throws -> String? {
    let preprocessed = try run(replacing: "-c", by: "-E", output: nil)
    guard preprocessed.status == 0 else { return nil }
    var parts = ["1", try command.identity] + argumentsWithoutOutput
    // Debug information contains the directory.
    if command.arguments.contains(where: { $0.hasPrefix("-g") }) {
      parts.append(FileManager.default.currentDirectoryPath)
    }
    var hash = SHA256()
    for part in parts { hash.update(data: Data("\(part.utf8.count) \(part)".utf8)) }
    hash.update(data: preprocessed.output)
    return hash.finalize().map { String(format: "%02x", $0) }.joined()
  }

  /// Runs the compiler.
  func compile() throws -> Compilation {
    let object = URL(fileURLWithPath: "\(output).\(getpid())")
    defer { try? FileManager.default.removeItem(at: object) }
    let result = try run(replacing: nil, by: "-c", output: object.path)
    return Compilation(
      status: result.status, object: result.status == 0 ? try Data(contentsOf: object) : Data(),
      diagnostics: result.diagnostics)
  }

  private var argumentsWithoutOutput: [String] {
    var arguments = command.arguments
    if let index = arguments.lastIndex(of: "-o") { arguments.removeSubrange(index...index + 1) }
    return arguments
  }

  private func run(
    replacing old: String?, by new: String, output: String?
  ) throws -> Command.Result {
    var arguments = argumentsWithoutOutput
    if let old, let index = arguments.firstIndex(of: old) { arguments[index] = new }
    if let output { arguments += ["-o", output] }
    return try Command(command.executable, arguments).capture()
  }
}
