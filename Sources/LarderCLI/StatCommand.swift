// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderEngine

/// `larder stat`: the contents and the use of a store.
struct StatCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stat",
    abstract: "Show the contents of a store and its use by all processes.",
    discussion: """
      The counts of reads and writes are the sums of all processes since the store's files were \
      created. The file may reach about twice the budget, and `larder compact` returns free pages; \
      --why-big explains it. `larder top` shows what happens now.

      EXAMPLES
        larder stat
        larder stat --store /var/tmp/app --json | jq .hitRatio
        larder stat --prometheus > larder.prom
        larder stat --why-big                        what the files consist of, and what to do
      """)

  @Argument(help: "The store's directory; the same as --store.")
  var path: String?

  @OptionGroup var arguments: StoreArguments

  @Flag(
    name: .long,
    help: "Write the text format of Prometheus, with the names of the product LarderMetrics.")
  var prometheus = false

  @Flag(
    name: .long,
    help:
      "Explain the size of the store's files: every part, and an action for it. Reads all entries.")
  var whyBig = false

  func validate() throws {
    try arguments.refuse(second: path)
    if prometheus, arguments.json || whyBig {
      throw ValidationError("--prometheus excludes --json and --why-big.")
    }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.at(path).openForReading()
      defer { store.close() }
      if whyBig {
        let report = try SizeReport(store)
        return arguments.json ? Console.json(report.json) : Console.write(report.text)
      }
      let statistics = try store.statistics()
      if prometheus {
        Console.write(statistics.prometheusText())
      } else if arguments.json {
        Console.json(json(statistics))
      } else {
        Console.write(text(statistics))
      }
    }
  }

  private func json(_ statistics: StoreStatistics) -> CBORValue {
    let namespaces = statistics.namespaces.map { namespace in
      CBORValue.object([
        ("name", .text(namespace.name)), ("entries", CBORValue(namespace.entries)),
        ("bytes", CBORValue(namespace.bytes)),
      ])
    }
    return .object([
      ("path", .text(statistics.path)), ("durability", .text(statistics.durability.rawValue)),
      ("generation", .unsigned(statistics.generation)),
      ("entries", CBORValue(statistics.entries)),
      ("expiredEntries", CBORValue(statistics.expiredEntries)),
      ("pinnedEntries", CBORValue(statistics.pinnedEntries)),
      ("pinnedBytes", CBORValue(statistics.pinnedBytes)),
      ("negativeEntries", CBORValue(statistics.negativeEntries)),
      ("negativeBytes", CBORValue(statistics.negativeBytes)),
      ("bytes", CBORValue(statistics.bytes)),
      ("objectBytes", CBORValue(statistics.objectBytes)),
      ("budget", statistics.budget.map { CBORValue($0) } ?? .null),
      ("fileBytes", CBORValue(statistics.fileBytes)),
      ("writesThroughMap", .boolean(statistics.usesWriteMap)),
      ("hitRatio", statistics.hitRatio.map(CBORValue.float) ?? .null),
      ("memoryHits", CBORValue(statistics.memoryHits)),
      ("storeHits", CBORValue(statistics.storeHits)),
      ("negativeHits", CBORValue(statistics.negativeHits)),
      ("misses", CBORValue(statistics.misses)),
      ("sets", CBORValue(statistics.sets)), ("removals", CBORValue(statistics.removals)),
      ("evictions", CBORValue(statistics.evictions)),
      ("expirations", CBORValue(statistics.expirations)),
      ("damagedEntries", CBORValue(statistics.damagedEntries)),
      ("commits", CBORValue(statistics.commits)),
      ("computations", CBORValue(statistics.computations)),
      ("fillsRefused", CBORValue(statistics.rejectedFills)),
      ("readers", CBORValue(statistics.readers)),
      ("maximumReaders", CBORValue(statistics.maximumReaders)),
      ("oldestReader", statistics.oldestReader.map { .object(ReaderLine($0).fields) } ?? .null),
      ("processes", .array(statistics.processes.map { CBORValue(Int($0)) })),
      ("pendingWrites", CBORValue(statistics.pendingWrites)),
      (
        "syncMilliseconds", statistics.syncInterval.map { CBORValue(Int($0.milliseconds)) } ?? .null
      ),
      ("unsyncedCommits", statistics.unsyncedCommits.map { CBORValue($0) } ?? .null),
      ("log", statistics.log.map(log) ?? .null),
      ("namespaces", .array(namespaces)),
    ])
  }

  private func log(_ log: LogStatus) -> CBORValue {
    .object([
      ("fileBytes", CBORValue(log.fileBytes)), ("commits", CBORValue(log.commits)),
      ("unsyncedCommits", CBORValue(log.unsyncedCommits)),
      ("checkpointMilliseconds", CBORValue(Int(clamping: log.checkpointAge.milliseconds))),
      ("syncs", CBORValue(log.syncs)),
    ])
  }

  private func bytes(_ statistics: StoreStatistics) -> String {
    let bytes = "\(ByteCount(bytes: statistics.bytes))"
    guard let budget = statistics.budget else { return bytes + ", no budget" }
    let share = TextLayout.percent(Double(statistics.bytes) / Double(max(budget, 1)))
    return bytes + " of \(ByteCount(bytes: budget)) (\(share))"
  }

  private func description(_ log: LogStatus, of statistics: StoreStatistics) -> String {
    let ratio = Double(log.syncs) / Double(max(statistics.commits, 1))
    // The commits of a relaxed store wait for no sync.
    let syncs =
      statistics.durability == .relaxed
      ? TextLayout.count(log.syncs, "sync", "syncs")
      : "\((ratio * 100).rounded() / 100) syncs per commit"
    return
      "\(ByteCount(bytes: log.fileBytes)), \(TextLayout.count(log.commits, "commit", "commits")) since the "
      + "checkpoint \(log.checkpointAge.milliseconds) ms ago, \(syncs)"
  }

  /// Returns the parts of the entries that have special properties, as far as there are any.
  private func parts(_ statistics: StoreStatistics) -> [(String, String)] {
    var parts: [(String, String)] = []
    if statistics.expiredEntries > 0 {
      parts.append(("expired", TextLayout.grouped(statistics.expiredEntries)))
    }
    for (name, entries, bytes) in [
      ("pinned", statistics.pinnedEntries, statistics.pinnedBytes),
      ("negative", statistics.negativeEntries, statistics.negativeBytes),
    ] where entries > 0 {
      parts.append((name, "\(TextLayout.grouped(entries)), \(ByteCount(bytes: bytes))"))
    }
    if statistics.objectBytes > 0 {
      parts.append(("objects", "\(ByteCount(bytes: statistics.objectBytes))"))
    }
    return parts
  }

  private func text(_ statistics: StoreStatistics) -> String {
    func line(_ name: String, _ value: String) -> String {
      TextLayout.left(name, width: 14) + value + "\n"
    }
    func line(_ name: String, _ value: Int) -> String { line(name, TextLayout.grouped(value)) }
    var text = line("store", statistics.path)
    text += line("kind", "\(statistics.durability), generation \(statistics.generation)")
    if let interval = statistics.syncInterval, let commits = statistics.unsyncedCommits {
      text += line("synced", "every \(interval), \(TextLayout.grouped(commits)) commits since")
    }
    text += statistics.log.map { line("log", description($0, of: statistics)) } ?? ""
    text += line("entries", statistics.entries)
    text += parts(statistics).map(line).joined()
    text += line("bytes", bytes(statistics))
    text += line(
      "file",
      "\(ByteCount(bytes: statistics.fileBytes))"
        + (statistics.usesWriteMap ? ", written through the map" : ""))
    text += line(
      "hit ratio",
      "\(TextLayout.percent(statistics.hitRatio)) "
        + "(memory \(TextLayout.grouped(statistics.memoryHits)), "
        + "store \(TextLayout.grouped(statistics.storeHits)), "
        + "missed \(TextLayout.grouped(statistics.misses)))")
    text += line("sets", statistics.sets)
    text += line("removals", statistics.removals)
    text += line("evictions", statistics.evictions)
    text += line("expirations", statistics.expirations)
    text += line("computations", statistics.computations)
    text += line("commits", statistics.commits)
    if statistics.damagedEntries > 0 { text += line("damaged", statistics.damagedEntries) }
    text += line(
      "readers",
      "\(statistics.readers) of \(TextLayout.grouped(statistics.maximumReaders)) places")
    if let reader = statistics.oldestReader {
      text += line("oldest reader", ReaderLine(reader).text)
    }
    let processes = statistics.processes.map(String.init).joined(separator: " ")
    text += line("processes", "\(statistics.processes.count) present: \(processes)")
    guard !statistics.namespaces.isEmpty else { return text }
    // Two numbers of twelve columns follow the name.
    let width = Style.width.map { max(12, min(40, $0 - 25)) } ?? 40
    let heading =
      TextLayout.left("NAMESPACE", width: width) + TextLayout.right("ENTRIES", width: 12)
      + TextLayout.right("BYTES", width: 12)
    text += "\n" + Style.heading(heading) + "\n"
    for namespace in statistics.namespaces.sorted(by: { $0.name < $1.name }) {
      let name = namespace.name.isEmpty ? "(without a name)" : namespace.name
      text += TextLayout.left(TextLayout.shortened(name, to: width - 2), width: width)
      text += TextLayout.right(TextLayout.grouped(namespace.entries), width: 12)
      text += TextLayout.right("\(ByteCount(bytes: namespace.bytes))", width: 12) + "\n"
    }
    return text
  }
}
#endif
