// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderEngine

/// `larder advise`: the hit ratio that a store in use would have with other budgets.
struct AdviseCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "advise",
    abstract: "Measure which budget and policy a store in use needs.",
    discussion: """
      All processes that use the store record their uses of a sample of the keys for some seconds, \
      together at most about 80,000 uses in a second. The command then replays the sample with a quarter, \
      half, twice and four times the budget, scaled by the share of the keys: for the adaptive \
      policy in a temporary store, and for exact LRU, which sampledLRU is close to, in a model. It \
      changes nothing in the store. Uses of objects are not sampled.

      A larger budget keeps entries for longer than the sample lasts. If many reads are the first \
      use of their key in the sample, the ratios of larger budgets are too low: sample for longer.

      EXIT STATUS
        0   the sample was replayed
        2   there is no store at this path
        64  usage error
        70  no process used the store, or another one samples it

      EXAMPLES
        larder advise
        larder advise /var/tmp/app --seconds 60
        larder advise --json | jq '.budgets[] | [.factor, .adaptive, .lru]'
      """)

  @Argument(help: "The store's directory; the same as --store.")
  var path: String?

  @Option(name: .long, help: ArgumentHelp("The duration of the sample.", valueName: "count"))
  var seconds = 10

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    try arguments.refuse(second: path)
    guard (1...3600).contains(seconds) else {
      throw ValidationError("Invalid --seconds \(seconds): the range is 1 to 3600.")
    }
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.at(path).openForReading(awaitsOthers: true)
      defer { store.close() }
      let report = try advise(store)
      if arguments.json { Console.json(report.json) } else { Console.write(report.text) }
    }
  }

  private func advise(_ store: SharedStore) throws -> AdviceReport {
    let statistics = try store.statistics()
    let limits = try store.limits()
    if Console.isErrorTerminal { Console.printError("Sampling for \(seconds) s.") }
    let accesses = try sample(store)
    let sampled = SampledTrace(accesses, bytes: statistics.bytes, entries: statistics.entries)
    guard sampled.gets > 0 else { throw noReads(statistics.path, sampled) }
    let directory = try TraceReplay.temporaryDirectory()
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let advice = try Advice(
      sampled, accesses, around: Self.capacity(limits, statistics), directory: directory)
    let names = try Dictionary(
      uniqueKeysWithValues: store.core.namespaces().map {
        ($0.number, String(decoding: $0.record.name, as: UTF8.self))
      })
    return AdviceReport(
      advice, limits, statistics, names: names,
      pageFit: Self.pageFit(accesses.after, try store.core.pageSize))
  }

  private func sample(_ store: SharedStore) throws -> SampledAccesses {
    guard let sampler = try AccessSampler(store.core) else {
      throw ToolError(
        "alreadySampled",
        "Another process samples \(store.core.directory.path). Wait until it has ended; if it was "
          + "killed, for two seconds.")
    }
    return try sampler.run(for: .seconds(seconds))
  }

  private func noReads(_ path: String, _ sampled: SampledTrace) -> ToolError {
    ToolError(
      "noReads",
      sampled.absentReads > 0
        ? "All \(sampled.absentReads) sampled reads of \(path) are of keys that no process stored. "
          + "Check that the programs write what they did not find."
        : "No process read an entry of \(path) in \(seconds) s. Run the command while the programs "
          + "that use the store are busy, or pass a longer --seconds.")
  }

  /// Returns the limit that the store reaches first, or its present size if it has none.
  private static func capacity(
    _ limits: StoreLimits, _ statistics: StoreStatistics
  ) -> Trace.Capacity {
    let bytes = limits.budget.map { Double(statistics.bytes) / Double(max($0.bytes, 1)) }
    let entries = limits.entryBudget.map { Double(statistics.entries) / Double(max($0, 1)) }
    if let count = limits.entryBudget, entries ?? 0 >= bytes ?? -1 { return .entries(count) }
    return .bytes(limits.budget?.bytes ?? max(statistics.bytes, 4096))
  }

  private static func pageFit(_ entries: [SampledEntry], _ pageSize: Int) -> [UInt32: PageFit] {
    var result: [UInt32: PageFit] = [:]
    for entry in entries {
      result[entry.namespace, default: PageFit()].add(entryOf: entry.bytes, pageSize: pageSize)
    }
    return result
  }
}
#endif
