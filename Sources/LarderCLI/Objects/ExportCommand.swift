// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine

/// `larder export`: the entries of a store, or the objects of a type, as a file.
struct ExportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Write the cache entries, or all objects of a type, to a file.",
    discussion: """
      With FILE alone the entries of --namespace, or of all namespaces, are written. Each is a \
      line of JSON with namespace, key, keyType, codec, expires and text or base64; or, with \
      --format cbor (or a file that ends in .cbor), an item of a CBOR sequence. With TYPE and FILE \
      the objects of the type are written as lines of JSON; the first line is the schema of the \
      type, so that the import needs no program.

      The file contains one snapshot; objects are in the order of insertion. Other processes write \
      during the export, and the file of the store may grow by their writes. Memory is bounded.

      In objects, values without a JSON type are an object with one field: {"$date": seconds since \
      1970}, {"$uuid": …}, {"$bytes": base64} and {"$cbor": base64}. `larder import` restores \
      them exactly.

      A file is written under a temporary name and renamed when it is complete; a pipe or a device \
      is written directly. Damaged entries are omitted and printed to standard error; the exit \
      status is 1 then.

      EXAMPLES
        larder export entries.jsonl
        larder export --namespace profiles --format cbor - | zstd > profiles.cbor.zst
        larder export Car cars.jsonl
        larder export Car - | gzip > cars.jsonl.gz
      """)

  @OptionGroup var operands: TransferOperands

  @OptionGroup var arguments: StoreArguments

  private var file: String { operands.file }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      guard let type = operands.type else {
        let store = try arguments.openForReading()
        defer { store.close() }
        return try toFile(
          { try EntryTransfer(operands, arguments).export(store, to: &$0) },
          { count, leftOut in say(entries: count, leftOut) })
      }
      let objects = try ObjectCommandSupport.open(arguments)
      defer { objects.store.close() }
      let record = try ObjectCommandSupport.type(type, in: objects)
      try toFile(
        { try write(objects, record, to: &$0) },
        { count, leftOut in say(record, count, leftOut) })
    }
  }

  /// Writes a file that is renamed to its path when it is complete.
  private func toFile(
    _ body: (inout OutputBuffer) throws -> (count: Int, leftOut: Int), _ say: (Int, Int) -> Void
  ) throws {
    let output = try AtomicOutputFile(file)
    do {
      var buffer = OutputBuffer(output.handle, file: file)
      let (count, leftOut) = try body(&buffer)
      try output.finish()
      if file != "-" { say(count, leftOut) }
      if leftOut > 0 { throw Exit.negative }
    } catch {
      output.discard()
      throw error
    }
  }

  private func say(entries count: Int, _ leftOut: Int) {
    if arguments.json {
      Console.json(
        .object([
          ("file", .text(file)), ("exported", CBORValue(count)), ("leftOut", CBORValue(leftOut)),
        ]))
    } else {
      Console.line(
        "Exported \(TextLayout.count(count, "entry", "entries")) to \(file)"
          + (leftOut > 0 ? ", omitted \(TextLayout.grouped(leftOut)) that are damaged." : "."))
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
        "Exported \(TextLayout.count(count, "object", "objects")) of \(record.name) to \(file)"
          + (leftOut > 0 ? ", omitted \(TextLayout.grouped(leftOut))." : "."))
    }
  }

  private func write(
    _ objects: DynamicObjects, _ record: ObjectTypeRecord, to output: inout OutputBuffer
  ) throws -> (count: Int, leftOut: Int) {
    var progress = TransferProgress("exporting")
    defer { progress.clear() }
    var count = 0
    func append(_ line: String) {
      output.bytes.append(contentsOf: line.utf8)
      output.bytes.append(0x0A)
    }
    let leftOut = try objects.export(record, header: append) { line, total in
      append(line)
      count += 1
      try output.writeIfFull()
      progress.show(count, share: Double(count) / Double(max(total, 1)))
    }
    try output.write()
    return (count, leftOut)
  }
}
#endif
