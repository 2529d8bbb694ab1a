// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A program and its arguments.
struct Command: Sendable {
  let executable: URL
  let arguments: [String]

  struct Result {
    let status: Int32
    let output: Data
    let diagnostics: Data
  }

  /// Creates a command of a program, which is searched in PATH, and its arguments.
  init(_ words: [String]) throws {
    let name = words[0]
    let directories = ProcessInfo.processInfo.environment["PATH"] ?? ""
    let candidates =
      name.contains("/") ? [name] : directories.split(separator: ":").map { "\($0)/\(name)" }
    guard let path = candidates.first(where: FileManager.default.isExecutableFile) else {
      throw CommandNotFound(name: name)
    }
    self.init(URL(fileURLWithPath: path), Array(words.dropFirst()))
  }

  init(_ executable: URL, _ arguments: [String]) {
    (self.executable, self.arguments) = (executable, arguments)
  }

  /// A text that changes when the program is replaced: another version compiles differently.
  var identity: String {
    get throws {
      let file = executable.resolvingSymlinksInPath()
      let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
      let date = attributes[.modificationDate] as? Date ?? .distantPast
      return "\(file.path) \(attributes[.size] ?? 0) \(date.timeIntervalSince1970)"
    }
  }

  /// Runs the program with the standard output and error of this process.
  func run() throws -> Int32 {
    let process = self.process
    try process.run()
    process.waitUntilExit()
    return process.terminationStatus
  }

  /// Runs the program and returns what it writes.
  func capture() throws -> Result {
    let process = self.process
    let output = Pipe()
    // In a file: a pipe that is not read while the other one is would block the program.
    let diagnostics = FileManager.default.temporaryDirectory
      .appendingPathComponent("cc-\(UUID().uuidString)")
    try Data().write(to: diagnostics)
    defer { try? FileManager.default.removeItem(at: diagnostics) }
    process.standardOutput = output
    process.standardError = try FileHandle(forWritingTo: diagnostics)
    try process.run()
    let text = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return Result(
      status: process.terminationStatus, output: text,
      diagnostics: try Data(contentsOf: diagnostics))
  }

  private var process: Process {
    let process = Process()
    process.executableURL = executable
    process.arguments = arguments
    return process
  }
}

struct CommandNotFound: Error, CustomStringConvertible {
  let name: String
  var description: String { "There is no program \(name) in PATH." }
}
