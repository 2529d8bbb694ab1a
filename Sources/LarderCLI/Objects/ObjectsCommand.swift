// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine

/// `larder objects`: the object types of a store.
struct ObjectsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "objects",
    abstract: "Show the object types: counts, versions, indexes, references.",
    discussion: """
      Programs save these types with LarderObjects. The bytes include the index keys of the objects.

      EXAMPLES
        larder objects --store /var/lib/app
        larder objects --json | jq '.types[] | {name, count}'
      """)

  @OptionGroup var arguments: StoreArguments

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let objects = try ObjectCommandSupport.open(arguments)
      defer { objects.store.close() }
      let types = try objects.summary().types
      if arguments.json {
        Console.json(.object([("types", .array(types.map(json)))]))
      } else if types.isEmpty {
        Console.printError("larder: No objects are stored. Programs save them with LarderObjects.")
      } else {
        Console.write(types.map(text).joined(separator: "\n"))
      }
    }
  }

  private func json(_ type: DynamicObjects.Summary) -> CBORValue {
    let record = type.record
    let indexes = record.indexes.filter { !$0.fields.isEmpty }.map { index in
      CBORValue.object([
        ("name", .text(index.name)), ("fields", .array(index.fields.map { .text($0) })),
        ("types", .text(index.definition)), ("unique", .boolean(index.isUnique)),
        ("complete", .boolean(index.isComplete)),
      ])
    }
    let references = (record.relations ?? []).map { relation in
      CBORValue.object([
        ("field", .text(relation.path.joined(separator: "."))), ("to", .text(relation.target)),
        ("onDelete", .text(relation.onDelete)),
        ("onTargetDelete", .text(relation.onTargetDelete)),
      ])
    }
    return .object([
      ("name", .text(record.name)), ("version", CBORValue(Int(record.version))),
      ("count", .unsigned(type.books.count)), ("bytes", .unsigned(type.books.bytes)),
      ("budget", type.books.budget > 0 ? .unsigned(type.books.budget) : .null),
      ("mostObjects", type.books.mostObjects > 0 ? .unsigned(type.books.mostObjects) : .null),
      ("fields", record.schema.map { .array($0.map { .text($0) }) } ?? .null),
      ("indexes", .array(indexes)), ("references", .array(references)),
      ("migration", CBORValue(record.migration)), ("movedTo", CBORValue(record.movedTo)),
    ])
  }

  private func text(_ type: DynamicObjects.Summary) -> String {
    let record = type.record
    func line(_ name: String, _ value: String) -> String {
      "  " + TextLayout.left(name, width: 12) + value + "\n"
    }
    var text = record.name + "\n"
    if let name = record.movedTo { return text + line("moved to", name) }
    text += line(
      "objects",
      "\(TextLayout.grouped(Int(clamping: type.books.count))), "
        + "\(ByteCount(bytes: Int(clamping: type.books.bytes)))")
    if type.books.isBounded {
      var limits: [String] = []
      if type.books.budget > 0 {
        limits.append("\(ByteCount(bytes: Int(clamping: type.books.budget)))")
      }
      if type.books.mostObjects > 0 {
        limits.append(
          TextLayout.count(Int(clamping: type.books.mostObjects), "object", "objects"))
      }
      text += line("budget", limits.joined(separator: ", "))
    }
    var version = "\(record.version)"
    if let from = record.minimumReaderVersion { version += ", readable from \(from)" }
    if let migration = record.migration { version += ", migration \"\(migration)\" under way" }
    text += line("version", version)
    if let schema = record.schema { text += line("fields", schema.joined(separator: ", ")) }
    for (number, index) in record.indexes.filter({ !$0.fields.isEmpty }).enumerated() {
      var value = "\(index.name): \(index.fields.joined(separator: ", ")) (\(index.definition))"
      if index.isUnique { value += ", unique" }
      if !index.isComplete { value += ", not complete" }
      text += line(number == 0 ? "indexes" : "", value)
    }
    for (number, relation) in (record.relations ?? []).enumerated() {
      text += line(
        number == 0 ? "references" : "",
        "\(relation.path.joined(separator: ".")) to \(relation.target) "
          + "(deleted: \(relation.onDelete); target deleted: \(relation.onTargetDelete))")
    }
    let refers = record.indexes.contains {
      $0.fields.isEmpty && $0.name != UnindexedNotes.name
    }
    if refers, record.relations == nil {
      text += line("references", "to other objects, without rules")
    }
    return text
  }
}
#endif
