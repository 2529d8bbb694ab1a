// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import LarderCoding
import LarderEngine
import LarderUntyped

/// `larder export`: the objects of a type as lines of JSON.
struct ExportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Write all objects of a type to a file, as lines of JSON that lose nothing.",
    discussion: """
      All lines are of one moment, in the order of insertion, however long it takes; meanwhile \
      others write on, and the file of the store may grow by that. Memory is bounded.

      What JSON has not is written as an object with one field: {"$date": seconds since 1970}, \
      {"$uuid": …}, {"$bytes": base64} and {"$cbor": base64}. `larder import` reads it back exactly.

      A file is written beside its place and put there when it is whole. Objects that are damaged \
      are left out and named on standard error; the exit code is 1 then.

      EXAMPLES
        larder export Car cars.jsonl
        larder export Car - | gzip > cars.jsonl.gz
      """)

  @OptionGroup var type: TypeArgument

  @Argument(help: "The file; - is standard output.")
  var file: String

  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let objects = try Objects.open(arguments)
      defer { objects.store.close() }
      let record = try Objects.type(type.type, in: objects)
      let part = file + ".part"
      let output: FileHandle
      if file == "-" {
        output = .standardOutput
      } else {
        guard FileManager.default.createFile(atPath: part, contents: nil),
          let handle = FileHandle(forWritingAtPath: part)
        else { throw ToolError("file", "\(part) cannot be written.") }
        output = handle
      }
      do {
        let (count, leftOut) = try write(objects, record, to: output)
        if file != "-" {
          try output.synchronize()
          try output.close()
          try place(part)
          say(record, count, leftOut)
        }
        if leftOut > 0 { throw Exit.negative }
      } catch {
        if file != "-" { try? FileManager.default.removeItem(atPath: part) }
        throw error
      }
    }
  }

  /// Gives the whole file its name.
  private func place(_ part: String) throws {
    do {
      if FileManager.default.fileExists(atPath: file) {
        _ = try FileManager.default.replaceItemAt(
          URL(fileURLWithPath: file), withItemAt: URL(fileURLWithPath: part))
      } else {
        try FileManager.default.moveItem(atPath: part, toPath: file)
      }
    } catch {
      throw ToolError("file", "\(part) cannot be renamed to \(file): \(error)")
    }
  }

  private func say(_ record: ObjectTypeRecord, _ count: Int, _ leftOut: Int) {
    if arguments.json {
      Console.json(
        .object([
          ("type", .text(record.name)), ("file", .text(file)), ("exported", CBORValue(count)),
          ("leftOut", CBORValue(leftOut)),
        ]))
    } else {
      Console.line(
        "Exported \(Columns.count(count, "object", "objects")) of \(record.name) to \(file)"
          + (leftOut > 0 ? ", left out \(Columns.grouped(leftOut))." : "."))
    }
  }

  private func write(
    _ objects: UntypedObjects, _ record: ObjectTypeRecord, to output: FileHandle
  ) throws -> (count: Int, leftOut: Int) {
    var progress = TransferProgress("exporting")
    defer { progress.clear() }
    var buffer = Data()
    var count = 0
    func empty() throws {
      do { try output.write(contentsOf: buffer) } catch {
        throw ToolError(
          "file", "\(file == "-" ? "Standard output" : file) cannot be written: \(error)")
      }
      buffer.removeAll(keepingCapacity: true)
    }
    let leftOut = try objects.export(record) { line, total in
      buffer.append(contentsOf: line.utf8)
      buffer.append(0x0A)
      count += 1
      if buffer.count >= 1 << 16 { try empty() }
      progress.show(count, share: Double(count) / Double(max(total, 1)))
    }
    try empty()
    return (count, leftOut)
  }
}
