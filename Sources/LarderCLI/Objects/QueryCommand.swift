// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine

/// `larder query`: objects that fit a condition.
struct QueryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "query",
    abstract: "Find objects of a type by a condition.",
    discussion: """
      The condition is written like in a program, over the fields as they are stored:

        age >= 18 && name.hasPrefix("A")      && || ! ( )   == != < <= > >=
        owner == nil || owner in ["a", "b"]   lists; nil is what is missing
        age in 18...65, age in 18..<65        ranges
        created >= 2026-01-31                 dates; also 2026-01-31T12:00:00Z
        tags.contains("x")                    contains(all: ["x", "y"]) contains(any: ["x", "y"])
        tags.count > 2 && address.city == 'B' count, isEmpty; fields of fields
        name.matches(/^A.*[0-9]$/)            hasPrefix hasSuffix contains matches
        name.equalsIgnoringCase("anna")       containsIgnoringCase hasPrefixIgnoringCase …

      An index is used where it helps (--explain says which); with --sort and --limit only the \
      objects wanted are kept in memory. Without --limit a table shows the first 100, --json all.

      With --json each object is one line. Dates are seconds since 1970 there, bytes base64url; \
      `larder export` writes lines that lose nothing.

      EXIT CODES
        0   answered, whether anything was found or not
        1   there is no such type, or several of the name
        64  the condition or the sort is not understood, or names a field that there is not

      EXAMPLES
        larder query Car 'year >= 2020 && tags.contains("fast")' --sort -year,model --limit 10
        larder query Car --count
        larder query Car 'owner == nil' --explain
      """)

  @OptionGroup var type: TypeArgument

  @Argument(help: "The condition. (default: every object)")
  var condition = ""

  @Option(
    name: .shortAndLong, parsing: .unconditional,
    help: ArgumentHelp(
      """
      The fields to sort by, separated by commas; - before one turns it round. (default: the order \
      of insertion)
      """, valueName: "fields"))
  var sort: String?

  @Option(name: .shortAndLong, help: ArgumentHelp("At most this many.", valueName: "count"))
  var limit: Int?

  @Option(name: .shortAndLong, help: ArgumentHelp("Without the first so many.", valueName: "count"))
  var offset = 0

  @Flag(name: .long, help: "Say how the query is answered, instead of answering it.")
  var explain = false

  @Flag(name: .long, help: "Only say how many there are.")
  var count = false

  @OptionGroup var arguments: StoreArguments

  private static let tableLimit = 100

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit must not be negative.") }
    if offset < 0 { throw ValidationError("--offset must not be negative.") }
    if explain, count { throw ValidationError("--explain and --count exclude each other.") }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      var query = DynamicQuery(limit: limit, offset: offset)
      query.condition = try ObjectCommandSupport.reading("in the condition") {
        try QueryParser.condition(condition)
      }
      if let sort {
        query.sort = try ObjectCommandSupport.reading("in --sort") { try QueryParser.sort(sort) }
      }
      let objects = try ObjectCommandSupport.open(arguments)
      defer { objects.store.close() }
      let record = try ObjectCommandSupport.type(type.type, in: objects)
      try refuseUnknownField(query, objects, record)
      if explain {
        let text = try objects.explain(query, of: record)
        if arguments.json {
          Console.json(
            .object([
              ("type", .text(record.name)),
              ("plan", .array(text.split(separator: "\n").map { .text(String($0)) })),
            ]))
        } else {
          Console.line(text)
        }
      } else if count {
        let number = try objects.count(query, of: record)
        if arguments.json {
          Console.json(.object([("type", .text(record.name)), ("count", CBORValue(number))]))
        } else {
          Console.line("\(number)")
        }
      } else if arguments.json {
        try objects.query(query, of: record) { object in
          Console.json(object.value, pretty: false)
          return true
        }
      } else {
        try show(query, objects, record)
      }
    }
  }

  /// A misspelt field is a mistake and not a field that every object lacks.
  private func refuseUnknownField(
    _ query: DynamicQuery, _ objects: DynamicObjects, _ record: ObjectTypeRecord
  ) throws {
    guard let field = try objects.unknownField(in: query, of: record) else { return }
    let what = "No object of \(record.name) has a field \"\(field.name)\"."
    guard field.isDeclared || !field.near.isEmpty else {
      // An optional field that is nil in every object is not stored in any.
      return Console.printError("larder: \(what)")
    }
    let advice =
      field.near.isEmpty
      ? " There are \(field.known.joined(separator: ", "))."
      : " Did you mean \(NearNames.list(field.near))?"
    throw ToolError(
      "unknownField", what + advice, exit: Exit.usage,
      details: [
        ("field", .text(field.name)), ("near", .array(field.near.map { .text($0) })),
      ])
  }

  private func show(
    _ query: DynamicQuery, _ objects: DynamicObjects, _ record: ObjectTypeRecord
  ) throws {
    var query = query
    if limit == nil { query.limit = Self.tableLimit + 1 }
    var rows: [DynamicObject] = []
    try objects.query(query, of: record) { object in
      rows.append(object)
      return true
    }
    let isCut = limit == nil && rows.count > Self.tableLimit
    if isCut { rows.removeLast() }
    guard !rows.isEmpty else {
      Console.printError("No object fits.")
      return
    }
    Console.write(ObjectTable(rows).text(width: Style.width))
    if isCut { Console.printError("There are more. Show them with --limit or --offset.") }
  }
}
