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

/// `larder import`: entries, or objects of a type, from a file.
struct ImportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Store the entries, or the objects of a type, of an exported file.",
    discussion: """
      With FILE alone the file contains entries, as lines of JSON or as a CBOR sequence; the first \
      byte selects the format. They are stored in their namespaces, or all in --namespace; expired \
      entries are omitted. A missing store is created.

      With TYPE and FILE each line is one object with its fields, as `larder export` writes it; \
      dates, UUIDs and bytes may be strings or numbers if the program declares such a field. An \
      object replaces a stored object with the same id.

      The first line of an export is the schema of the type. A missing store and a missing type \
      are created from it; a stored type must agree with it. Index entries that only the program \
      can create are created when a program next uses the type, as for a new index.

      Without that line a program must have declared the type. Index entries are created as the \
      program creates them; if that needs the program (a partial index, an index over a computed \
      property or over a custom type, references to other objects), nothing is written.

      A rejected line ends the import, and the error contains its number; \
      the lines before it are stored. Objects are stored a thousand at a time, entries eight \
      thousand, and readers see each batch at once.

      EXIT STATUS
        0   every line was stored
        1   there is no such type, or several of the name, and the file has no schema
        70  a line, or the whole import, was rejected, as standard error describes

      EXAMPLES
        larder import entries.jsonl
        larder import Car cars.jsonl
        gunzip -c cars.jsonl.gz | larder import Car - --keep-existing
      """)

  @OptionGroup var operands: TransferOperands

  @Flag(name: .long, help: "Keep stored entries and objects unchanged.")
  var keepExisting = false

  @OptionGroup var arguments: StoreArguments

  private var file: String { operands.file }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let input: FileHandle
      if file == "-" {
        input = .standardInput
      } else {
        do { input = try FileHandle(forReadingFrom: URL(fileURLWithPath: file)) } catch {
          throw ToolError(
            "file",
            "Cannot read \(file): \(error.localizedDescription) Check the path and its permissions."
          )
        }
      }
      guard let type = operands.type else {
        let store = try arguments.openOrCreate()
        defer { store.close() }
        return try EntryTransfer(operands, arguments).importing(
          input, into: store, keepsExisting: keepExisting)
      }
      try importing(input, as: type)
    }
  }

  private func importing(_ input: FileHandle, as type: String) throws {
    var lines = LineReader {
      do { return Array(try input.read(upToCount: 1 << 16) ?? Data()) } catch {
        throw ToolError("file", "Cannot read \(file): \(error)")
      }
    }
    let first = try lines.next()
    let header = try first.flatMap { try ObjectSchemaHeader(line: $0) }
    let objects = try ObjectCommandSupport.open(arguments, importing: header)
    defer { objects.store.close() }
    let record =
      try header.map { try objects.type(named: type, importing: $0) }
      ?? ObjectCommandSupport.type(type, in: objects)
    var importing = try ObjectImport(
      objects, record, isExport: header != nil, keepsExisting: keepExisting)
    do {
      if header == nil, let first { try importing.add(first, line: 1) }
      try read(&lines, into: &importing)
      say(record, importing.tally)
    } catch let error as DynamicObjectError {
      let stored = TextLayout.count(importing.tally.total, "line", "lines")
      let place =
        error.line.map { "\(file == "-" ? "standard input" : file), line \($0): " } ?? ""
      throw ToolError(
        error.code.rawValue,
        "\(place)\(error.message) (\(stored) before it stored)",
        details: (error.line.map { [("line", CBORValue($0))] } ?? [])
          + [("stored", CBORValue(importing.tally.total))])
    }
  }

  private func read(_ lines: inout LineReader, into importing: inout ObjectImport) throws {
    let size = (try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int) ?? nil
    var progress = TransferProgress("importing")
    defer { progress.clear() }
    while let line = try lines.next() {
      try importing.add(line, line: lines.number)
      progress.show(
        lines.number, share: size.map { Double(lines.position) / Double(max($0, 1)) })
    }
    try importing.flush()
  }

  private func say(_ record: ObjectTypeRecord, _ tally: ObjectImport.Tally) {
    if arguments.json {
      Console.json(
        .object([
          ("type", .text(record.name)), ("inserted", CBORValue(tally.inserted)),
          ("replaced", CBORValue(tally.replaced)), ("unchanged", CBORValue(tally.unchanged)),
          ("kept", CBORValue(tally.kept)),
        ]))
      return
    }
    var parts = ["\(TextLayout.grouped(tally.inserted)) new"]
    if tally.replaced > 0 { parts.append("\(TextLayout.grouped(tally.replaced)) replaced") }
    if tally.unchanged > 0 { parts.append("\(TextLayout.grouped(tally.unchanged)) unchanged") }
    if tally.kept > 0 { parts.append("\(TextLayout.grouped(tally.kept)) kept as they were") }
    Console.line(
      "Imported \(TextLayout.count(tally.total, "object", "objects")) of \(record.name): "
        + parts.joined(separator: ", ") + ".")
  }
}
#endif
