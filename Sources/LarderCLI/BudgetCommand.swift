// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LarderCoding
import LarderEngine

/// `larder budget`: shows and changes the budgets and the eviction policy of a store.
struct BudgetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "budget",
    abstract: "Show or change what a store may contain, and its eviction policy.",
    discussion: """
      Without options it shows the limits and what the store contains. A change applies to every \
      process from its next write on. A lower budget evicts entries in steps of a thousand, and other \
      processes write between them.

      EXAMPLES
        larder budget
        larder budget /var/tmp/app --bytes 512M
        larder budget --entries 100000 --policy sampledLRU
        larder budget --entries none
      """)

  @Argument(help: "The store's directory; the same as --store.")
  var path: String?

  @Option(
    name: .long,
    help: ArgumentHelp("The most bytes, such as 64M or 2G, or none.", valueName: "size"))
  var bytes: String?

  @Option(
    name: .long, help: ArgumentHelp("The most entries, or none.", valueName: "count"))
  var entries: String?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The rule by which entries are evicted: \(Self.policies).", valueName: "policy"))
  var policy: String?

  @OptionGroup var arguments: StoreArguments

  private static var policies: String {
    EvictionPolicy.all.map(\.description).joined(separator: " or ")
  }

  func validate() throws {
    try arguments.refuse(second: path)
    var limits = StoreLimits(budget: nil)
    _ = try apply(to: &limits)
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let store = try arguments.at(path).openExisting()
      defer { store.close() }
      var limits = try store.limits()
      if try apply(to: &limits) { try store.setLimits(limits) }
      show(try store.limits(), try store.statistics())
    }
  }

  /// Changes limits as the options say. Returns whether there are any.
  private func apply(to limits: inout StoreLimits) throws -> Bool {
    if let bytes {
      let count = ByteSize.parse(bytes)
      guard count != nil || bytes == "none" else {
        throw ValidationError(
          "Invalid size \"\(bytes)\". Pass a number with or without K, M, G or T, or none.")
      }
      limits.budget = count.map { .bytes($0) }
    }
    if let entries {
      guard entries == "none" || Int(entries) ?? 0 > 0 else {
        throw ValidationError(
          "Invalid count \"\(entries)\". Pass a number of entries from one on, or none.")
      }
      limits.entryBudget = Int(entries)
    }
    if let policy {
      guard let found = EvictionPolicy(policy) else {
        throw ValidationError("There is no policy \"\(policy)\". Pass \(Self.policies).")
      }
      limits.evictionPolicy = found
    }
    return bytes != nil || entries != nil || policy != nil
  }

  private func show(_ limits: StoreLimits, _ statistics: StoreStatistics) {
    if arguments.json {
      return Console.json(
        .object([
          ("path", .text(statistics.path)), ("bytes", CBORValue(statistics.bytes)),
          ("budget", limits.budget.map { CBORValue($0.bytes) } ?? .null),
          ("entries", CBORValue(statistics.entries)),
          ("entryBudget", limits.entryBudget.map { CBORValue($0) } ?? .null),
          ("policy", .text("\(limits.evictionPolicy)")),
          ("evictions", CBORValue(statistics.evictions)),
        ]))
    }
    func line(_ name: String, _ value: String, of limit: String?) -> String {
      TextLayout.left(name, width: 12) + value + (limit.map { " of \($0)" } ?? ", no limit") + "\n"
    }
    Console.write(
      line(
        "bytes", "\(ByteCount(bytes: statistics.bytes))", of: limits.budget.map { "\($0)" })
        + line(
          "entries", TextLayout.grouped(statistics.entries),
          of: limits.entryBudget.map { TextLayout.grouped($0) })
        + TextLayout.left("policy", width: 12) + "\(limits.evictionPolicy)\n"
        + TextLayout.left("evicted", width: 12) + TextLayout.grouped(statistics.evictions) + "\n")
  }
}
