// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import LarderCoding
import LarderDynamic
import LarderEngine

/// `larder import`: entries, or objects of a type, from a file.
struct ImportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Store the entries, or the objects of a type, of a file that `larder export` wrote.",
    discussion: """
      With FILE alone it holds entries, as lines of JSON or as a CBOR sequence; which of the two is \
      seen by its first byte. They go to the namespaces they name, or all to --namespace; what has \
      expired meanwhile is left out. A missing store is created.

      FILE may also be the storage.sqlite of PersistentCacheKit, which is seen by its first bytes. Its \
      keys run namespace and key together, so name the namespace: keys that begin with it are \
      taken, without it, into the namespace of that name; and say with --key-type what the cache's \
      keys are. Removed and expired values, and keys of other namespaces, are left out and counted.

      With TYPE and FILE each line is one object with its fields, as `larder export` writes it; dates, UUIDs and bytes \
      may be plain texts or numbers where the program declares such a field. An object with the id \
      of a stored one replaces it.

      The first line of an export is the schema of the type. A missing store and a missing type are \
      created from it; a stored type must agree with it. Index entries that only the program can make \
      are made when a program next uses the type, as for a new index.

      Without that line the type must have been declared by a program. Index entries are made as the program makes \
      them; where that cannot be done without it (a partial index, one over a computed property or \
      over a type of the program's own, references to other objects), nothing is written.

      A line that is refused ends the import and is named by its number (an item of an SQLite file \
      by its key); the lines before it are stored. Objects are stored a thousand at a time, entries eight thousand, and readers see each \
      batch at once.

      EXIT CODES
        0   every line was stored
        1   there is no such type, or several of the name, and the file has no schema
        70  a line was refused, or the whole import was; the sentence says which

      EXAMPLES
        larder import entries.jsonl
        larder import ~/Library/Caches/SQLiteCacheStorage.shared/storage.sqlite \
          --namespace messages --key-type uuid
        larder import Car cars.jsonl
        gunzip -c cars.jsonl.gz | larder import Car - --keep-existing
      """)

  @OptionGroup var operands: TransferOperands

  @Flag(name: .long, help: "Leave alone what is stored already.")
  var keepExisting = false

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp(
      "Of an SQLite file: what its keys are. (default: text)", valueName: "type"))
  var keyType: KeyTextFormat?

  @Flag(
    name: .long, help: "Of an SQLite file: its values are for a MixedPersistentCache.")
  var mixed = false

  @OptionGroup var arguments: StoreArguments

  private var file: String { operands.file }

  func validate() throws {
    if operands.type != nil, keyType != nil || mixed {
      throw ValidationError("--key-type and --mixed are for SQLite files of PersistentCacheKit.")
    }
    if mixed, keyType ?? .text != .text {
      throw ValidationError("The keys of a MixedPersistentCache are texts.")
    }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let input: FileHandle
      if file == "-" {
        input = .standardInput
      } else {
        guard let handle = FileHandle(forReadingAtPath: file) else {
          throw ToolError("file", "\(file) cannot be read.")
        }
        input = handle
      }
      guard let type = operands.type else {
        let store = try arguments.openOrCreate()
        defer { store.close() }
        let items =
          keyType != nil || mixed
          ? PersistentCacheKitImportOptions(keyType ?? .text, isMixed: mixed) : nil
        return try EntryTransfer(operands, arguments).importing(
          input, into: store, keepsExisting: keepExisting, items: items)
      }
      try importing(input, as: type)
    }
  }

  private func importing(_ input: FileHandle, as type: String) throws {
    var lines = LineReader {
      do { return Array(try input.read(upToCount: 1 << 16) ?? Data()) } catch {
        throw ToolError("file", "\(file) cannot be read: \(error)")
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
