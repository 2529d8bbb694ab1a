// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine

/// `larder query`: the objects that match a condition.
struct QueryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "query",
    abstract: "Find objects of a type by a condition.",
    discussion: """
      The condition has the syntax of Swift, over the stored fields:

        age >= 18 && name.hasPrefix("A")      && || ! ( )   == != < <= > >=
        owner == nil || owner in ["a", "b"]   lists; nil matches a missing field
        age in 18...65, age in 18..<65        ranges
        created >= 2026-01-31                 dates; also 2026-01-31T12:00:00Z
        tags.contains("x")                    contains(all: ["x", "y"]) contains(any: ["x", "y"])
        tags.count > 2 && address.city == 'B' count, isEmpty; fields of fields
        owner.name == 'Ann'                   fields of the object that a @HasOne refers to
        name.matches(/^A.*[0-9]$/)            hasPrefix hasSuffix contains matches
        name.equalsIgnoringCase("anna")       containsIgnoringCase hasPrefixIgnoringCase …

      A constant has the type of its field, as in a program: 0.1 is a Float, a Double or a Decimal.

      The planner selects an index (--explain prints the plan); with --sort and --limit memory \
      holds at most --limit objects. Without --limit a table shows the first 100 objects, --json \
      all.

      With --json each object is one line. Dates are seconds since 1970, bytes base64url; \
      `larder export` writes lines without loss.

      EXIT STATUS
        0   success, with or without matching objects
        1   no such type, or several types of that name
        64  a parse error in the condition or in --sort, a field that does not exist, or a constant
            of another kind than its field

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
      The fields to sort by, separated by commas; - before a field sorts it in descending order. \
      (default: the order of insertion)
      """, valueName: "fields"))
  var sort: String?

  @Option(
    name: .shortAndLong, help: ArgumentHelp("The maximum number of objects.", valueName: "count"))
  var limit: Int?

  @Option(name: .shortAndLong, help: ArgumentHelp("Skip the first N objects.", valueName: "count"))
  var offset = 0

  @Flag(name: .long, help: "Print the query plan without running the query.")
  var explain = false

  @Flag(name: .long, help: "Print only the number of matching objects.")
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
      try refuseFields(query, objects, record)
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

  /// Rejects a field that no object has, and one that has no values like those it is compared with.
  private func refuseFields(
    _ query: DynamicQuery, _ objects: DynamicObjects, _ record: ObjectTypeRecord
  ) throws {
    guard let error = try objects.fieldError(in: query, of: record) else { return }
    // An optional field that is nil in every object is stored in none.
    if error.isUncertain { return Console.printError("larder: \(error.message)") }
    throw ToolError(
      error.code, "\(error.message) \(error.advice)", exit: Exit.usage,
      details: [
        ("field", .text(error.field)), ("near", .array(error.near.map { .text($0) })),
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
      Console.printError("larder: No object matches.")
      return
    }
    Console.write(ObjectTable(rows).text(width: Style.width))
    if isCut {
      Console.printError("larder: There are more objects. Show them with --limit or --offset.")
    }
  }
}
#endif
