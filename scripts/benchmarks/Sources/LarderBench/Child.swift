// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Another process, driven by lines: this program once more, or another one.
final class Child {
  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()
  private var rest = Data()

  /// - Parameters:
  ///   - environment: Variables that are added to the environment of this process.
  ///   - shared: The standard input, in place of one that only this child reads.
  init(
    _ arguments: [String], executable: String? = nil, environment: [String: String] = [:],
    input shared: FileHandle? = nil
  ) throws {
    process.executableURL =
      executable.map { URL(fileURLWithPath: $0) } ?? Bundle.main.executableURL
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.arguments = arguments
    process.standardInput = shared ?? input
    process.standardOutput = output
    try process.run()
  }

  /// Runs a program to its end.
  static func wait(_ arguments: [String], executable: String? = nil) throws {
    try Child(arguments, executable: executable).finish()
  }

  func send(_ line: String) throws { try send(Data((line + "\n").utf8)) }

  func send(_ bytes: Data) throws { try input.fileHandleForWriting.write(contentsOf: bytes) }

  func endInput() { try? input.fileHandleForWriting.close() }

  /// The next line the child prints.
  func line() throws -> String {
    while true {
      if let end = rest.firstIndex(of: 10) {
        let line = String(decoding: rest[rest.startIndex..<end], as: UTF8.self)
        rest = Data(rest[rest.index(after: end)...])
        return line
      }
      let more = output.fileHandleForReading.availableData
      guard !more.isEmpty else { throw BenchFailure("A child ended without its answer.") }
      rest.append(more)
    }
  }

  /// The next line, which is numbers.
  func numbers() throws -> [UInt64] {
    let text = try line()
    return try text.split(separator: " ").map { word in
      guard let value = UInt64(word) else { throw BenchFailure("A child said \"\(word)\".") }
      return value
    }
  }

  func number() throws -> Double {
    let text = try line()
    guard let value = Double(text) else { throw BenchFailure("A child said \"\(text)\".") }
    return value
  }

  var pid: Int32 { process.processIdentifier }

  /// Waits for the end of a child that was killed.
  func reap() { process.waitUntilExit() }

  func finish() throws {
    endInput()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw BenchFailure("A child failed with \(process.terminationStatus).")
    }
  }

  // MARK: In the child

  static func say(_ line: String) {
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
  }
}
