// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

/// `larder-bench SUITE [--json FILE] [--quick] [--work DIRECTORY] [FIGURE...]`
@main
struct Bench {
  var json: String?
  var work: String?
  var isQuick = false
  let suite: String
  var wanted: [String] = []

  static func main() async {
    do {
      if Machine.isDebugBuild {
        throw BenchFailure(
          "This is a debug build: its figures would mean nothing. Use scripts/bench.")
      }
      let arguments = Array(CommandLine.arguments.dropFirst())
      switch arguments.first {
      case "--child-open": try ProcessFigures.openChild(arguments[1])
      case "--child-read": try ProcessFigures.readChild(arguments[1], seed: Int(arguments[2])!)
      case "--child-save": try ObjectChildren.save(arguments[1])
      case "--child-fetch": try ObjectChildren.fetch(arguments[1])
      case "--child-migrate": try ObjectChildren.migrate(arguments[1])
      case "--child-first": try ObjectFirstQueryFigure.child(arguments[1], arguments[2])
      case "--child-wait": try SweepFigures.child(arguments[1], arguments[2])
      case "--child-tagged": try TagFigures.child(arguments[1], count: Int(arguments[2])!)
      case "--child-replay":
        try EvictionReplay.child(
          arguments[1], arguments[2], isInTurns: arguments.dropFirst(3).first == "in-turns")
      case "--child-together": try await TogetherChildren.run(Array(arguments.dropFirst()))
      case "core", "objects", "storage", "eviction", "together": try Bench(arguments).run()
      default:
        throw BenchFailure(
          "Name the suite to measure: core, objects, storage, eviction or together.")
      }
    } catch {
      FileHandle.standardError.write(Data("larder-bench: \(error)\n".utf8))
      exit(1)
    }
  }

  init(_ arguments: some Sequence<String>) throws {
    var rest = Array(arguments)
    suite = rest.removeFirst()
    while !rest.isEmpty {
      let argument = rest.removeFirst()
      switch argument {
      case "--quick": isQuick = true
      case "--json", "--work":
        guard !rest.isEmpty else { throw BenchFailure("\(argument) wants a path.") }
        if argument == "--json" { json = rest.removeFirst() } else { work = rest.removeFirst() }
      default:
        let isOfSuite = argument.hasPrefix(suite + ".")
        // Both are facades for who wants less than a database.
        guard isOfSuite || suite == "storage" && argument.hasPrefix("defaults.") else {
          throw BenchFailure("There is no figure or option \(argument).")
        }
        wanted.append(argument)
      }
    }
  }

  private func isWanted(_ id: String) -> Bool {
    wanted.isEmpty || wanted.contains { id.hasPrefix($0) || $0.hasPrefix(id) }
  }

  func run() throws {
    Child.say(Machine.description + "\n")
    let directory = try Files.fresh(in: work)
    defer { Files.remove(directory) }
    var figures: [Figure] = []
    var failures: [String] = []
    var lines: [String] = []
    func measure(_ id: String, _ body: () throws -> Figure) throws {
      guard isWanted(id) else { return }
      do {
        let figure = try body()
        if figures.isEmpty { Child.say(Figure.heading) }
        Child.say(figure.row)
        figures.append(figure)
      } catch {
        // The others are measured all the same.
        Child.say("FAILED: \(id): \(error)")
        failures.append(id)
        lines.append(try Failure.json(id, error))
      }
    }
    func measureAll(_ id: String, _ body: () throws -> [Figure]) throws {
      var waiting: [Figure] = []
      try measure(id) {
        waiting = try body()
        return waiting.removeFirst()
      }
      for figure in waiting { try measure(figure.id) { figure } }
    }
    if suite == "objects" {
      try measureObjects(directory, measure)
    } else if suite == "eviction" {
      lines += try measureEviction(directory, measure)
    } else if suite == "together" {
      lines += try measureTogether(directory, measure, measureAll)
    } else if suite == "storage" {
      let storages = StorageFigures(isQuick: isQuick)
      try measure("storage.memory_get", storages.memoryGet)
      try measure("storage.layers_ns", storages.layers)
      let defaults = DefaultsFigures(directory: directory, isQuick: isQuick)
      try measure("defaults.read_ns", defaults.read)
      try measure("defaults.open_ms", defaults.open)
    } else {
      try measureCore(directory, measure)
    }
    guard !figures.isEmpty || !failures.isEmpty || !lines.isEmpty else {
      throw BenchFailure("No figure was selected.")
    }
    if let json {
      lines = try figures.map { try $0.json() } + [try Machine.json(isQuick: isQuick)] + lines
      let text = lines.map { $0 + "\n" }.joined()
      try Data(text.utf8).write(to: URL(fileURLWithPath: json))
    }
    let missed = figures.filter { !$0.isMet }
    Child.say("")
    Child.say(
      missed.isEmpty
        ? "All \(figures.count) bars are met."
        : "\(missed.count) of \(figures.count) bars are not met: "
          + missed.map(\.id).joined(separator: ", "))
    guard failures.isEmpty else {
      throw BenchFailure("These failed: " + failures.joined(separator: ", ") + ".")
    }
  }

  private typealias Measure = (String, () throws -> Figure) throws -> Void

  private func measureObjects(_ directory: String, _ measure: Measure) throws {
    let ids = [
      "fetch_cold", "fetch_hot", "indexed_equal", "indexed_range", "scan", "scan_filter",
      "aggregate", "repeat",
      "save", "update_where",
    ].map { "objects." + $0 }
    if ids.contains(where: isWanted) {
      let population = try ObjectPopulation(in: directory, count: 100_000)
      let reads = ObjectReadFigures(population, isQuick: isQuick)
      try measure("objects.fetch_cold", reads.cold)
      try measure("objects.fetch_hot", reads.hot)
      let queries = ObjectQueryFigures(population, isQuick: isQuick)
      for isInMemory in [true, false] {
        let suffix = isInMemory ? "" : "_cold"
        try measure("objects.indexed_equal" + suffix) {
          try queries.indexedEqual(isInMemory: isInMemory)
        }
        try measure("objects.indexed_range" + suffix) {
          try queries.indexedRange(isInMemory: isInMemory)
        }
      }
      try measure("objects.scan", queries.scan)
      try measure("objects.repeat", queries.repeated)
      let scans = ObjectScanFigures(population, isQuick: isQuick)
      try measure("objects.scan_filter", scans.filter)
      try measure("objects.aggregate", scans.aggregate)
      try measure("objects.save") { try ObjectSaveFigure(population, isQuick: isQuick).save() }
      try measure("objects.update_where", scans.update)
    }
    if isWanted("objects.rows") || wanted.contains(where: { $0.hasPrefix("objects.rows") }) {
      let rows = try ObjectRowsFigures(directory: directory + "/rows", isQuick: isQuick)
      try measure("objects.rows_substring", rows.substring)
      try measure("objects.rows_group", rows.group)
      try measure("objects.rows_file", rows.file)
      try measure("objects.rows_rename", rows.rename)
    }
    try measure("objects.fulltext") {
      try FullTextFigure(directory: directory + "/text", isQuick: isQuick).search()
    }
    try measure("objects.query_5000") {
      let few = try ObjectPopulation(in: directory + "/few", count: 5000)
      return try ObjectQueryFigures(few, isQuick: isQuick).fiveThousand()
    }
    try measure("objects.first_query") {
      try ObjectFirstQueryFigure(directory: directory + "/first", isQuick: isQuick).firstQuery()
    }
    let migration = ObjectMigrationFigure(directory: directory, isQuick: isQuick)
    try measure("objects.migration_memory", migration.memory)
  }

  /// Returns the line of what is absent.
  private func measureEviction(_ directory: String, _ measure: Measure) throws -> [String] {
    let traces = ProcessInfo.processInfo.environment["LARDER_BENCH_TRACES"] ?? "../shared/traces"
    let eviction = EvictionFigures(directory: directory, traces: traces, isQuick: isQuick)
    var lines: [String] = []
    if eviction.hasTraces {
      try measure("eviction.lru_worst_points", eviction.lruWorst)
      try measure("eviction.adaptive_mean", eviction.adaptiveMean)
      try measure("eviction.adaptive_worst_below_lru", eviction.adaptiveWorst)
      try measure("eviction.four_processes_points", eviction.fourProcesses)
    } else {
      let reason = "there is no \(traces)/reference.csv; name their directory with --traces"
      Child.say("The traces are absent: \(reason). Hit ratios are not measured.")
      lines.append(try Absence.json("eviction traces", reason))
    }
    try measure("eviction.hit_cost", eviction.hitCost)
    try measure("eviction.insert_full", eviction.insertFull)
    try measure("eviction.insert_worst", eviction.insertWorst)
    let sweeps = SweepFigures(directory: directory, isQuick: isQuick)
    try measure("eviction.sweep_longest", sweeps.longest)
    let tags = TagFigures(directory: directory, isQuick: isQuick)
    try measure("eviction.tag_invalidation", tags.invalidation)
    try measure("eviction.sliding_writes", tags.slidingWrites)
    return lines
  }

  /// Returns the line of what is absent.
  private func measureTogether(
    _ directory: String, _ measure: Measure,
    _ measureAll: (String, () throws -> [Figure]) throws -> Void
  ) throws -> [String] {
    let redis = ProcessInfo.processInfo.environment["LARDER_BENCH_REDIS"].flatMap {
      $0.isEmpty ? nil : $0
    }
    let together = TogetherFigures(directory: directory, isQuick: isQuick, redis: redis)
    try measureAll("together.delivery", together.delivery)
    try measure("together.feed_cost", together.feedCost)
    try measure("together.idle_wakeups", together.idleWakeUps)
    try measure("together.single_flight_extra", together.singleFlight)
    try measure("together.takeover", together.takeover)
    try measureAll("together.increment", together.increments)
    try measure("together.lock", together.lock)
    try measure("together.queue", together.queue)
    return redis == nil ? [try Absence.json("redis", "no server could be started")] : []
  }

  private func measureCore(_ directory: String, _ measure: Measure) throws {
    let memory = MemoryFigures(directory: directory, isQuick: isQuick)
    try measure("core.memory_hit_int", memory.hitInt)
    try measure("core.memory_hit_string", memory.hitString)
    try measure("core.lru_cost_hit") { try memory.recency() }
    try measure("core.set_behind", memory.setWriteBehind)
    let codecs = CodecFigures(isQuick: isQuick)
    try measure("core.cbor_decode", codecs.decode)
    try measure("core.cbor_encode", codecs.encode)
    let processes = ProcessFigures(directory: directory, isQuick: isQuick)
    let storeIDs = [
      "core.store_get", "core.two_readers", "core.set_batch", "core.set_committed",
      "core.set_relaxed",
    ]
    if storeIDs.contains(where: isWanted) {
      let population = try StoreDataset(in: directory)
      let stores = StoreFigures(population, isQuick: isQuick)
      try measure("core.store_get", stores.get)
      try measure("core.two_readers") { try processes.twoReaders(population) }
      try measure("core.set_batch", stores.setBatch)
      try measure("core.set_committed", stores.setCommitted)
      // The last one: it leaves the store and its rival with different values.
      try measure("core.set_relaxed") { try stores.setRelaxed(in: directory) }
    }
    try measure("core.open_1gb", processes.open)
  }
}
