// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderCoding
import LarderEngine
import LarderRecovery

/// `larder repair`: salvages what is readable of a damaged store.
struct RepairCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "repair",
    abstract: "Salvage what is readable of a damaged store into new files.",
    discussion: """
      First the files are checked and it says what it would do; nothing happens without --yes, or \
      an answer at a terminal. No process may have the store open.

      Every entry that is kept is whole, and has its label, its date and its deadline. The damaged \
      files of a durable store stay beside the new ones; remove them when you miss nothing. Killed \
      in the middle of it, the store is as it was, or repaired.

      EXIT CODES
        0   nothing was to be done, or everything was kept
        1   something was lost, or may have been
        2   it could not be repaired, or there is no store; nothing was changed
        64  the command line makes no sense, or --yes is missing
      With --dry-run they say what would be.

      EXAMPLES
        larder repair /var/lib/app --dry-run
        larder repair /var/lib/app --yes
      """)

  @Argument(help: "The store's directory; the same as --store.")
  var path: String?

  @Flag(name: .long, help: "Only check, and say what would be done.")
  var dryRun = false

  @Flag(name: .shortAndLong, help: "Do it without asking.")
  var yes = false

  @Flag(name: .long, help: "Keep the damaged files of a cache as well.")
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
        throw ToolError.usage("Nothing was done. Say --yes to repair the store.")
      }
      Console.write("Repair it? [y/N] ")
      guard ["y", "yes"].contains(readLine()?.lowercased()) else {
        throw ToolError.usage("Nothing was done.")
      }
    }
    try answer(SharedStore.repair(at: place, keepsDamagedFiles: keepDamagedFiles))
  }

  private func answer(_ report: RepairReport) throws {
    if arguments.json { Console.json(json(report)) } else { Console.write(text(report)) }
    if !report.isComplete { throw Exit.negative }
  }

  // MARK: Words

  private func text(_ report: RepairReport) -> String {
    guard report.outcome != .sound else {
      return "Sound: nothing to do for \(TextLayout.count(report.kept, "entry", "entries")).\n"
    }
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
        text += "What a type \"recovered-...\" was is lost: give it its name with a migration.\n"
      }
    }
    text +=
      "\n\(TextLayout.grouped(report.pagesRead)) pages read, \(report.pagesDamaged) damaged, "
      + "\(report.pagesUnreachable + report.pagesScavenged) that nothing leads to, "
      + "\(report.pagesScavenged) of them read all the same.\n"
    if report.mayMissCommits {
      text += "The newest meta page was not usable: the last commits may be missing.\n"
    }
    if report.isDiscarded { text += "The system went down while it was in use: it starts empty.\n" }
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
      + (report.isLossKnown ? "" : ", and maybe more: the books are damaged as well")
    switch report.outcome {
    case .repaired: text += "Repaired: \(kept) kept, \(lost).\n"
    default: text += "Can be repaired: \(kept) can be kept, \(lost).\n"
    }
    if let files = report.damagedFiles { text += "The damaged files are in \(files).\n" }
    return text
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
