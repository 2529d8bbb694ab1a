// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderEngine
import LarderRecovery

/// `larder repair`: salvages the readable data of a damaged store.
struct RepairCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "repair",
    abstract: "Salvage the readable data of a damaged store into new files.",
    discussion: """
      The command checks the files and prints a plan. It changes nothing without --yes or a \
      confirmation at a terminal. No process may have the store open.

      Every kept entry is complete, with its commit version, creation time and expiration. The \
      damaged files of a durable store are quarantined; remove them when all data is there. If the \
      command is killed, the store is unchanged or repaired.

      EXIT STATUS
        0   nothing to do, or all data was kept
        1   data was lost, or may have been
        2   the repair failed, or there is no store; nothing was changed
        64  usage error, or --yes is missing
      With --dry-run the exit status is that of the planned repair.

      EXAMPLES
        larder repair /var/lib/app --dry-run
        larder repair /var/lib/app --yes
      """)

  @Argument(help: "The store's directory; the same as --store.")
  var path: String?

  @Flag(name: .long, help: "Check the files and print the plan only.")
  var dryRun = false

  @Flag(name: .shortAndLong, help: "Repair without confirmation.")
  var yes = false

  @Flag(name: .long, help: "Keep the damaged files of a cache too.")
  var keepDamagedFiles = false

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    try arguments.refuse(second: path)
    if dryRun, yes { throw ValidationError("--dry-run and --yes exclude each other.") }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let place = arguments.at(path).path
      do {
        try repair(place)
      } catch let error as StoreError {
        throw ToolError(error.code.rawValue, "\(place): \(error.message)", exit: Exit.noStore)
      }
    }
  }

  private func repair(_ place: String) throws {
    let plan = try SharedStore.repair(at: place, dryRun: true)
    if plan.outcome == .sound || dryRun { return try answer(plan) }
    if !yes {
      if !arguments.json { Console.write(text(plan)) }
      guard Console.isInputTerminal, !arguments.json else {
        throw ToolError.usage("Repairing the store requires --yes. Nothing was changed.")
      }
      Console.write("Repair it? [y/N] ")
      guard ["y", "yes"].contains(readLine()?.lowercased()) else {
        throw ToolError.usage("The repair was not confirmed. Nothing was changed.")
      }
    }
    try answer(SharedStore.repair(at: place, keepsDamagedFiles: keepDamagedFiles))
  }

  private func answer(_ report: RepairReport) throws {
    if arguments.json { Console.json(json(report)) } else { Console.write(text(report)) }
    if !report.isComplete { throw Exit.negative }
  }

  // MARK: Output

  private func text(_ report: RepairReport) -> String {
    guard report.outcome != .sound else { return nothingToDo(report) }
    var text = ""
    for finding in report.findings.prefix(20) { text += "\(finding)\n" }
    if report.findings.count > 20 {
      text += "... and \(report.findings.count - 20) findings more\n"
    }
    text += "\n" + TextLayout.left("NAMESPACE", width: 40)
    text += TextLayout.right("KEPT", width: 12) + TextLayout.right("LOST", width: 12) + "\n"
    for namespace in report.namespaces {
      let name = namespace.name.isEmpty ? "(without a name)" : namespace.name
      text += TextLayout.left(TextLayout.shortened(name, to: 38), width: 40)
      text += TextLayout.right(TextLayout.grouped(namespace.kept), width: 12)
      text += TextLayout.right(TextLayout.grouped(namespace.lost), width: 12) + "\n"
    }
    if !report.types.isEmpty {
      text += "\n" + TextLayout.left("OBJECTS", width: 40)
      text += TextLayout.right("KEPT", width: 12) + TextLayout.right("LOST", width: 12) + "\n"
      for type in report.types {
        text += TextLayout.left(TextLayout.shortened(type.name, to: 38), width: 40)
        text += TextLayout.right(TextLayout.grouped(type.kept), width: 12)
        text += TextLayout.right(TextLayout.grouped(type.lost), width: 12) + "\n"
      }
      if report.types.contains(where: \.isRecovered) {
        text += "Types named recovered-N lost their names; rename them with a migration.\n"
      }
    }
    text +=
      "\n\(TextLayout.grouped(report.pagesRead)) pages read, \(report.pagesDamaged) damaged, "
      + "\(report.pagesUnreachable + report.pagesScavenged) unreachable, "
      + "\(report.pagesScavenged) of them recovered.\n"
    if report.mayMissCommits {
      text += "The last commits may be missing.\n"
    }
    if report.isDiscarded {
      text += "Commits of the cache may be missing: it starts empty.\n"
    }
    if report.evicted > 0 {
      text +=
        "\(TextLayout.count(report.evicted, "entry", "entries")) did not fit into the budget.\n"
    }
    var kept = TextLayout.count(report.kept, "entry", "entries")
    if !report.types.isEmpty {
      kept += " and " + TextLayout.count(report.objectsKept, "object", "objects")
    }
    let lost =
      "\(TextLayout.grouped(report.lost + report.objectsLost)) lost"
      + (report.isLossKnown ? "" : ", perhaps more: the counters are damaged too")
    switch report.outcome {
    case .repaired: text += "Repaired: \(kept) kept, \(lost).\n"
    default: text += "Can be repaired: \(kept) can be kept, \(lost).\n"
    }
    if let files = report.damagedFiles { text += "The damaged files are in \(files).\n" }
    return text
  }

  private func nothingToDo(_ report: RepairReport) -> String {
    var kept = TextLayout.count(report.kept, "entry", "entries")
    if !report.types.isEmpty {
      kept += " and " + TextLayout.count(report.objectsKept, "object", "objects")
    }
    return "Valid: nothing to do for \(kept).\n"
  }

  private func json(_ report: RepairReport) -> CBORValue {
    let namespaces = report.namespaces.map { namespace in
      CBORValue.object([
        ("name", .text(namespace.name)), ("kept", CBORValue(namespace.kept)),
        ("lost", CBORValue(namespace.lost)), ("recovered", .boolean(namespace.isRecovered)),
      ])
    }
    let types = report.types.map { type in
      CBORValue.object([
        ("name", .text(type.name)), ("kept", CBORValue(type.kept)),
        ("lost", CBORValue(type.lost)), ("recovered", .boolean(type.isRecovered)),
      ])
    }
    return .object([
      ("path", .text(report.path)), ("outcome", .text(report.outcome.rawValue)),
      ("durability", .text(report.durability.rawValue)), ("kept", CBORValue(report.kept)),
      ("lost", CBORValue(report.lost)), ("evicted", CBORValue(report.evicted)),
      ("objectsKept", CBORValue(report.objectsKept)),
      ("objectsLost", CBORValue(report.objectsLost)), ("types", .array(types)),
      ("lossKnown", .boolean(report.isLossKnown)), ("complete", .boolean(report.isComplete)),
      ("mayMissCommits", .boolean(report.mayMissCommits)),
      ("discarded", .boolean(report.isDiscarded)),
      ("pagesRead", CBORValue(report.pagesRead)),
      ("pagesDamaged", CBORValue(report.pagesDamaged)),
      ("pagesUnreachable", CBORValue(report.pagesUnreachable)),
      ("pagesScavenged", CBORValue(report.pagesScavenged)),
      ("damagedFiles", CBORValue(report.damagedFiles)), ("namespaces", .array(namespaces)),
      ("findings", .array(report.findings.map(\.json))),
    ])
  }
}
#endif
