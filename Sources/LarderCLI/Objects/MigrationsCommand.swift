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

/// `larder migrations`: the stored schemas, and their differences from those of a program.
struct MigrationsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrations",
    abstract: "Show the stored and the declared schema of each type, and the difference.",
    discussion: """
      Prints version, fields, indexes and applied migrations of each type. With --schema FILE it \
      prints the difference from the schemas in a file: a program writes a line for each type with \
      `store.schemaDescription(of:example:)`, and the first line of an export (`larder export`) is \
      the schema of another store. - reads standard input.

      EXIT STATUS
        0   there is no difference
        1   a schema of the file differs from the stored one
        64  the file has no schema

      EXAMPLES
        larder migrations --store /var/lib/app
        larder migrations --schema program.jsonl
        larder export Car - --store /backup | head -1 | larder migrations --schema -
      """)

  @Option(
    name: .long, help: "A file with schemas of a program or of another store, one on each line.")
  var schema: String?

  @OptionGroup var arguments: StoreArguments

  private struct Entry {
    let name: String
    let record: ObjectTypeRecord?
    /// The differences; `nil` if the file has no schema of the type.
    let differences: [String]?
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let declared = try schema.map(Self.schemas) ?? []
      let objects = try ObjectCommandSupport.open(arguments)
      defer { objects.store.close() }
      let records = try objects.summary().types.map(\.record).filter { $0.movedTo == nil }
      var entries = records.map { record in
        let header = declared.first { $0.type == record.name }
        return Entry(
          name: record.name, record: record,
          differences: header.map { SchemaDifference.lines(record, $0) })
      }
      for header in declared where !records.contains(where: { $0.name == header.type }) {
        entries.append(
          Entry(name: header.type, record: nil, differences: SchemaDifference.lines(nil, header)))
      }
      if arguments.json {
        Console.json(.object([("types", .array(entries.map(json)))]))
      } else if entries.isEmpty {
        Console.printError("larder: No objects are stored. Programs save them with LarderObjects.")
      } else {
        Console.write(entries.map(text).joined(separator: "\n"))
      }
      if entries.contains(where: { $0.differences?.isEmpty == false }) { throw Exit.negative }
    }
  }

  private static func schemas(_ file: String) throws -> [ObjectSchemaHeader] {
    let bytes: Data
    do {
      bytes =
        file == "-"
        ? FileHandle.standardInput.readDataToEndOfFile()
        : try Data(contentsOf: URL(fileURLWithPath: file))
    } catch {
      throw ToolError("unreadableFile", "\(file) cannot be read: \(error)", exit: Exit.failure)
    }
    let lines = Array(bytes).split(separator: 0x0A)
    let headers = try lines.compactMap { try ObjectSchemaHeader(line: $0) }
    guard !headers.isEmpty else {
      throw ToolError(
        "noSchema",
        "\(file) has no schema. Write it with `store.schemaDescription(of:example:)`, or take the "
          + "first line of `larder export TYPE`.", exit: Exit.usage)
    }
    return headers
  }

  private func json(_ entry: Entry) -> CBORValue {
    let indexes = entry.record?.indexes.filter { !$0.fields.isEmpty } ?? []
    return .object([
      ("name", .text(entry.name)),
      ("version", entry.record.map { CBORValue(Int($0.version)) } ?? .null),
      ("fields", entry.record?.schema.map { .array($0.map { .text($0) }) } ?? .null),
      (
        "indexes",
        .array(
          indexes.map { index in
            .object([
              ("name", .text(index.name)), ("fields", .array(index.fields.map { .text($0) })),
              ("types", .text(index.definition)), ("unique", .boolean(index.isUnique)),
              ("complete", .boolean(index.isComplete)),
            ])
          })
      ),
      ("migrations", .array((entry.record?.migrations ?? []).map { .text($0) })),
      ("differences", entry.differences.map { .array($0.map { .text($0) }) } ?? .null),
    ])
  }

  private func text(_ entry: Entry) -> String {
    var text = entry.name + "\n"
    func add(_ name: String, _ values: [String]) {
      for (position, value) in values.enumerated() {
        text += "  " + TextLayout.left(position == 0 ? name : "", width: 12) + value + "\n"
      }
    }
    if let record = entry.record {
      add("version", ["\(record.version)"])
      add("fields", record.schema ?? [])
      let indexes = record.indexes.filter { !$0.fields.isEmpty }.map { index in
        "\(index.name): \(index.fields.joined(separator: ", ")) (\(index.definition))"
          + (index.isUnique ? ", unique" : "") + (index.isComplete ? "" : ", not complete")
      }
      add("indexes", indexes)
      add("migrations", record.migrations.map { "\"\($0)\"" })
    }
    if let differences = entry.differences {
      add("difference", differences.isEmpty ? ["none"] : differences)
    }
    return text
  }
}
#endif
