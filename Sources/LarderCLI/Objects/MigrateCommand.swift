// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine

/// `larder migrate --dry-run`: which migrations were applied, and what is under way.
struct MigrateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrate",
    abstract: "Show which migrations were applied and what is under way. Programs apply them.",
    discussion: """
      What a migration does is code of the program that declares it, so this tool applies none; \
      with --dry-run it says what the store knows: the migrations that were applied, the one that \
      is under way and how far it is, and indexes that are not complete. A migration that no \
      program has begun yet is known to that program only; its own rehearsal is \
      `store.migrate(_:dryRun: true)`.

      What is under way goes on when a program starts that declares it: `migrate(_:)` takes up a \
      migration where it was left; the first save or query of a type continues the build of its \
      indexes.

      EXIT CODES
        0   nothing is under way
        1   a migration or an index is
        64  without --dry-run

      EXAMPLE
        larder migrate --dry-run --store /var/lib/app
      """)

  @Flag(name: .long, help: "Only say what is known.")
  var dryRun = false

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard dryRun else {
      throw ValidationError(
        "A program applies its migrations: what they do is in its code. See what the store knows of "
          + "them with --dry-run.")
    }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let objects = try ObjectCommandSupport.open(arguments)
      defer { objects.store.close() }
      let (types, migrations) = try objects.summary()
      let building = types.flatMap { type in
        type.record.indexes.filter { $0.builtTo != nil }.map { (type, $0) }
      }
      let applied = migrations.filter(\.record.isApplied)
      let going = migrations.filter { !$0.record.isApplied }
      if arguments.json {
        Console.json(
          .object([
            ("applied", .array(applied.map(json))), ("underWay", .array(going.map(json))),
            (
              "incompleteIndexes",
              .array(
                building.map { type, index in
                  .object([
                    ("type", .text(type.record.name)), ("index", .text(index.name)),
                    ("builtTo", .unsigned(index.builtTo!)),
                    ("last", .unsigned(type.books.nextSequence - 1)),
                  ])
                })
            ),
          ]))
      } else {
        show(applied, going)
        for (type, index) in building {
          let share = Double(index.builtTo!) / Double(max(type.books.nextSequence - 1, 1))
          Console.line(
            "not complete  the index \"\(index.name)\" of \(type.record.name), "
              + "\(TextLayout.percent(share)); the next program that uses the type continues")
        }
        if migrations.isEmpty, building.isEmpty {
          Console.line("No migration was applied, and nothing is under way.")
        }
      }
      if !going.isEmpty || !building.isEmpty { throw Exit.negative }
    }
  }

  private func show(
    _ applied: [DynamicObjects.MigrationSummary], _ going: [DynamicObjects.MigrationSummary]
  ) {
    for migration in applied {
      let record = migration.record
      var line =
        "applied       \(record.order). \"\(record.name)\", \(Timestamp(record.applied).iso)"
      if record.done > 0 {
        line += ", \(TextLayout.count(Int(clamping: record.done), "object", "objects"))"
      }
      if record.dropped > 0 {
        line += ", \(TextLayout.grouped(Int(clamping: record.dropped))) dropped"
      }
      if record.damaged > 0 {
        line += ", \(TextLayout.grouped(Int(clamping: record.damaged))) damaged"
      }
      Console.line(line)
    }
    for migration in going {
      let record = migration.record
      var line = "under way     \"\(record.name)\""
      if let name = migration.sourceName { line += " of \(name)" }
      line += ", \(TextLayout.percent(Self.share(migration))) copied"
      Console.line(line + "; migrate(_:) of a program goes on with it")
    }
  }

  private static func share(_ migration: DynamicObjects.MigrationSummary) -> Double {
    let last = max(Double(migration.source.nextSequence) - 1, 1)
    return min(Double(migration.record.next - min(migration.record.next, 1)) / last, 1)
  }

  private func json(_ migration: DynamicObjects.MigrationSummary) -> CBORValue {
    let record = migration.record
    return .object([
      ("name", .text(record.name)),
      ("order", record.isApplied ? .unsigned(record.order) : .null),
      ("applied", record.isApplied ? .text(Timestamp(record.applied).iso) : .null),
      ("type", CBORValue(migration.sourceName)), ("objects", .unsigned(record.done)),
      ("dropped", .unsigned(record.dropped)), ("damaged", .unsigned(record.damaged)),
      ("share", record.isApplied ? .null : .float(Self.share(migration))),
    ])
  }
}
