// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
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

      With --namespace the options are the limits of that namespace: it evicts from itself at a \
      maximum, and evictions for the budget of the store leave it its minimum.

      EXAMPLES
        larder budget
        larder budget /var/tmp/app --bytes 512M
        larder budget --entries 100000 --policy sampledLRU
        larder budget --entries none
        larder budget --namespace thumbnails --minimum 8M --bytes 64M
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
    name: .shortAndLong,
    help: ArgumentHelp("Show or change the limits of this namespace.", valueName: "name"))
  var namespace: String?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The bytes that are left to the namespace, such as 8M, or none.", valueName: "size"))
  var minimum: String?

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
    guard namespace == nil ? minimum == nil : policy == nil else {
      throw ValidationError(
        "--minimum is a limit of a namespace, and --policy is one of the store; pass --namespace with "
          + "the first only.")
    }
    var ofNamespace = NamespaceLimits()
    _ = try apply(to: &ofNamespace)
    var limits = StoreLimits(budget: nil)
    _ = try apply(to: &limits)
  }

  func run() throws {
    try Console.reporting(json: arguments.json) {
      let isChange = bytes != nil || entries != nil || policy != nil || minimum != nil
      let place = arguments.at(path)
      let store = try isChange ? place.openExisting() : place.openForReading()
      defer { store.close() }
      if let namespace {
        let space = try store.namespace(namespace)
        var limits = try space.limits()
        if try apply(to: &limits) { try space.setLimits(limits) }
        return show(try space.limits(), of: namespace, try store.statistics())
      }
      var limits = try store.limits()
      if try apply(to: &limits) { try store.setLimits(limits) }
      show(try store.limits(), try store.statistics())
    }
  }

  /// Changes limits as the options say. Returns whether there are any.
  private func apply(to limits: inout StoreLimits) throws -> Bool {
    if let bytes { limits.budget = try size(bytes) }
    if let entries { limits.entryBudget = try count(entries) }
    if let policy {
      guard let found = EvictionPolicy(policy) else {
        throw ValidationError("There is no policy \"\(policy)\". Pass \(Self.policies).")
      }
      limits.evictionPolicy = found
    }
    return bytes != nil || entries != nil || policy != nil
  }

  /// Changes limits of a namespace as the options say. Returns whether there are any.
  private func apply(to limits: inout NamespaceLimits) throws -> Bool {
    if let bytes { limits.maximum = try size(bytes) }
    if let minimum { limits.minimum = try size(minimum) }
    if let entries { limits.maximumEntries = try count(entries) }
    return bytes != nil || minimum != nil || entries != nil
  }

  private func size(_ text: String) throws -> ByteCount? {
    let count = ByteSize.parse(text)
    guard count != nil || text == "none" else {
      throw ValidationError(
        "Invalid size \"\(text)\". Pass a number with or without K, M, G or T, or none.")
    }
    return count.map { .bytes($0) }
  }

  private func count(_ text: String) throws -> Int? {
    guard text == "none" || Int(text) ?? 0 > 0 else {
      throw ValidationError(
        "Invalid count \"\(text)\". Pass a number of entries from one on, or none.")
    }
    return Int(text)
  }

  private func show(
    _ limits: NamespaceLimits, of namespace: String, _ statistics: StoreStatistics
  ) {
    let found = statistics.namespaces.first { $0.name == namespace }
    let (bytes, entries) = (found?.bytes ?? 0, found?.entries ?? 0)
    if arguments.json {
      return Console.json(
        .object([
          ("path", .text(statistics.path)), ("namespace", .text(namespace)),
          ("bytes", CBORValue(bytes)),
          ("minimum", limits.minimum.map { CBORValue($0.bytes) } ?? .null),
          ("maximum", limits.maximum.map { CBORValue($0.bytes) } ?? .null),
          ("entries", CBORValue(entries)),
          ("maximumEntries", limits.maximumEntries.map { CBORValue($0) } ?? .null),
        ]))
    }
    Console.write(
      line("bytes", "\(ByteCount(bytes: bytes))", of: limits.maximum.map { "\($0)" })
        + line(
          "entries", TextLayout.grouped(entries),
          of: limits.maximumEntries.map { TextLayout.grouped($0) })
        + TextLayout.left("minimum", width: 12)
        + (limits.minimum.map { "\($0)\n" } ?? "none\n"))
  }

  private func line(_ name: String, _ value: String, of limit: String?) -> String {
    TextLayout.left(name, width: 12) + value + (limit.map { " of \($0)" } ?? ", no limit") + "\n"
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
#endif
