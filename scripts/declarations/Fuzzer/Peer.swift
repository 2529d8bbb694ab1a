// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A running program.
final class Peer {
  enum Outcome {
    case answer(Answer)
    /// The process has exited.
    case ended
    case hangs
  }

  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()
  private let errors: URL
  private var buffer: [UInt8] = []

  /// A program that has not answered for so long hangs.
  private static let limit = 300_000

  init(_ program: URL, store: String, errors: URL) throws {
    self.errors = errors
    try Data().write(to: errors)
    process.executableURL = program
    process.arguments = [store]
    process.standardInput = input
    process.standardOutput = output
    process.standardError = try FileHandle(forWritingTo: errors)
    try process.run()
  }

  /// The end of the standard error of the program.
  var lastWords: String {
    let text = (try? String(contentsOf: errors, encoding: .utf8)) ?? ""
    return String(text.suffix(2000))
  }

  var pid: Int32 { process.processIdentifier }

  /// A program that has ended gets nothing, and gives no answer.
  func send(_ request: Request) throws {
    let data = try JSONEncoder().encode(request) + Data("\n".utf8)
    try? input.fileHandleForWriting.write(contentsOf: data)
  }

  func receive() throws -> Outcome {
    let file = output.fileHandleForReading.fileDescriptor
    var chunk = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      if let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
        let line = Data(buffer[..<end])
        buffer.removeSubrange(...end)
        return .answer(try JSONDecoder().decode(Answer.self, from: line))
      }
      var descriptor = pollfd(fd: file, events: Int16(POLLIN), revents: 0)
      if poll(&descriptor, 1, Int32(Self.limit)) == 0 { return .hangs }
      let count = read(file, &chunk, chunk.count)
      if count <= 0 { return .ended }
      buffer += chunk[..<count]
    }
  }

  func kill() {
    _ = Foundation.kill(pid, SIGKILL)
    process.waitUntilExit()
  }

  /// Ends the program by the end of its input.
  func close() {
    try? input.fileHandleForWriting.close()
    process.waitUntilExit()
  }
}
