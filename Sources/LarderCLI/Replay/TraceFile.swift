// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderCoding
import LarderDynamic
import LarderMemo

/// A file with a trace, plain or compressed by gzip; `-` is standard input.
struct TraceFile {
  private let path: String
  /// The directory for a copy of compressed standard input.
  private let directory: String

  init(_ path: String, directory: String) {
    self.path = path
    self.directory = directory
  }

  /// The name of the trace in tables and errors.
  var name: String { path == "-" ? "standard input" : path }

  private static let magic: [UInt8] = [0x1F, 0x8B]
  private static let pieceSize = 1 << 16

  /// Reads the trace.
  ///
  /// - Throws: ``ToolError`` for a file that cannot be read, and for an invalid line.
  func read(_ format: TraceFormat?) throws -> Trace {
    let input = try open()
    defer { if path != "-" { try? input.close() } }
    let first = try piece(input)
    guard first.starts(with: Self.magic) else {
      var held: [UInt8]? = first
      return try parse(format) {
        defer { held = nil }
        return try held ?? piece(input)
      }
    }
    let packed = try seekable(input, after: first)
    let gzip: HelperProcess
    do {
      gzip = try HelperProcess(.named("gzip"), ["-dc"], input: packed.fileDescriptor)
    } catch {
      throw ToolError("gzip", "Cannot unpack \(name): \(error.message)")
    }
    let trace: Result<Trace, any Error> = Result { try parse(format) { gzip.read() } }
    // After an invalid line gzip has not ended.
    if case .failure = trace { gzip.kill() }
    let failure = gzip.finish()
    if let failure, case .success = trace { throw unpackError(failure) }
    // An incomplete file ends within a line, which is not the cause.
    if case .failure(let error as ToolError) = trace, error.code == "emptyTrace", let failure {
      throw unpackError(failure)
    }
    return try trace.get()
  }

  private func unpackError(_ status: String) -> ToolError {
    ToolError(
      "gzip",
      "Cannot unpack \(name): gzip \(status); its message is above. Check the file with gzip -t.")
  }

  private func open() throws -> FileHandle {
    if path == "-" { return .standardInput }
    let type = try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
    if type == .typeDirectory {
      throw ToolError("file", "\(path) is a directory. Name the file of a trace.")
    }
    do { return try FileHandle(forReadingFrom: URL(fileURLWithPath: path)) } catch {
      throw ToolError(
        "file",
        "Cannot read \(path): \(error.localizedDescription) Check the path and its permissions.")
    }
  }

  private func piece(_ input: FileHandle) throws -> [UInt8] {
    do { return Array(try input.read(upToCount: Self.pieceSize) ?? Data()) } catch {
      throw ToolError("file", "Cannot read \(name): \(error)")
    }
  }

  /// Returns a descriptor at the first byte: a pipe is copied to a file.
  private func seekable(_ input: FileHandle, after first: [UInt8]) throws -> FileHandle {
    if path != "-", (try? input.seek(toOffset: 0)) != nil { return input }
    let copy = directory + "/input.gz"
    do {
      try Data(first).write(to: URL(fileURLWithPath: copy))
      let output = try FileHandle(forUpdating: URL(fileURLWithPath: copy))
      try output.seekToEnd()
      while case let piece = try piece(input), !piece.isEmpty {
        try output.write(contentsOf: piece)
      }
      try output.seek(toOffset: 0)
      return output
    } catch let error as ToolError {
      throw error
    } catch {
      throw ToolError("file", "Cannot write \(copy): \(error.localizedDescription)")
    }
  }

  private func parse(
    _ format: TraceFormat?, _ read: @escaping () throws -> [UInt8]
  ) throws -> Trace {
    var lines = LineReader(read: read)
    var parser = TraceParser(file: name, format: format)
    var progress = TransferProgress("reading", of: ("line", "lines"))
    defer { progress.clear() }
    do {
      while let line = try lines.next() {
        try parser.add(line, number: lines.number)
        progress.show(lines.number, share: nil)
      }
    } catch let error as DynamicObjectError {
      throw ToolError(
        error.code.rawValue, "\(name), line \(lines.number + 1): \(error.message)",
        details: [("line", .unsigned(UInt64(lines.number + 1)))])
    }
    return try parser.finish()
  }
}
#endif
