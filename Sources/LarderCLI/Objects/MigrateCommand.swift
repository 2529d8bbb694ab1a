// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine

/// `larder migrate --dry-run`: the applied migrations and the one in progress.
struct MigrateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "migrate",
    abstract: "Show the applied migrations and those in progress.",
    discussion: """
      A migration is code of the program that declares it, so this tool applies none. With \
      --dry-run it prints the migrations that were applied, the one in progress and its share, and \
      indexes that are not complete. The store does not contain migrations that no program has \
      started; a program tries them with `store.migrate(_:dryRun: true)`.

      A migration in progress continues when a program that declares it calls `migrate(_:)`; the \
      first save or query of a type continues the build of its indexes.

      EXIT STATUS
        0   nothing is in progress
        1   a migration or an index is in progress
        64  without --dry-run

      EXAMPLE
        larder migrate --dry-run --store /var/lib/app
      """)

  @Flag(name: .long, help: "Print the state of migrations.")
  var dryRun = false

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    guard dryRun else {
      throw ValidationError(
        "Only the program that declares a migration applies it. Pass --dry-run to print the state "
          + "of migrations.")
    }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let objects = try ObjectCommandSupport.open(arguments)
      defer { objects.store.close() }
      let (types, migrations) = try objects.summary()
      let building = types.flatMap { type in
        type.record.indexes.filter { !$0.isComplete }.map { (type, $0) }
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
                    ("builtTo", .unsigned(index.builtTo ?? type.books.nextSequence - 1)),
                    ("last", .unsigned(type.books.nextSequence - 1)),
                    ("violated", .boolean(index.isViolated == true)),
                  ])
                })
            ),
          ]))
      } else {
        show(applied, going)
        for (type, index) in building {
          let last = type.books.nextSequence - 1
          let share = Double(index.builtTo ?? last) / Double(max(last, 1))
          Console.line(
            "not complete  the index \"\(index.name)\" of \(type.record.name), "
              + (index.isViolated == true
                ? "because stored objects have equal values; change or delete all but one"
                : index.isBuilt
                  ? "because programs could not decode some objects; one that can continues"
                  : "\(TextLayout.percent(share)); the next program that uses the type continues"))
        }
        if migrations.isEmpty, building.isEmpty {
          Console.line("No migration was applied, and none is in progress.")
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
      var line = "in progress   \"\(record.name)\""
      if let name = migration.sourceName { line += " of \(name)" }
      line += ", \(TextLayout.percent(Self.share(migration))) copied"
      Console.line(line + "; migrate(_:) of a program continues it")
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
#endif
