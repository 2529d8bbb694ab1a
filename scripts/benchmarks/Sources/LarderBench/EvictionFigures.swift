// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LMDBBaseline
import Larder

/// The hit ratios of the eviction policies on real traces, and the costs of eviction.
final class EvictionFigures {
  private let directory: String
  private let reference: EvictionReference?
  private let isQuick: Bool
  /// The measured hit ratios, which several figures use.
  private var measured: [Run: Double] = [:]
  private var loaded: (trace: String, keys: [UInt32])?

  private struct Run: Hashable {
    let cell: EvictionReference.Cell
    let policy: EvictionPolicy
    let processes: EvictionReplay.Processes
  }

  init(directory: String, traces: String, isQuick: Bool) {
    self.directory = directory
    self.isQuick = isQuick
    reference = EvictionReference(traces, isQuick: isQuick)
  }

  var hasTraces: Bool { reference != nil }

  /// The traces of the mean.
  private static let general: Set = [
    "twitter52", "oltp", "p3", "orm_busy", "web12", "corda", "sprite",
  ]

  private var cells: [EvictionReference.Cell] { reference?.cells ?? [] }
  private var generalCells: [EvictionReference.Cell] {
    cells.filter { Self.general.contains($0.trace) }
  }

  private func percent(
    _ cell: EvictionReference.Cell, _ policy: EvictionPolicy,
    _ processes: EvictionReplay.Processes = .one
  ) throws -> Double {
    let run = Run(cell: cell, policy: policy, processes: processes)
    if let known = measured[run] { return known }
    if loaded?.trace != cell.trace {
      loaded = (cell.trace, try reference!.accesses(cell.trace))
    }
    let percent = try EvictionReplay.percent(
      loaded!.keys, cell.capacity, policy, processes, in: directory)
    measured[run] = percent
    return percent
  }

  /// The cell with the largest value, and that value.
  private func worst(
    _ value: (EvictionReference.Cell) throws -> Double
  ) rethrows -> (cell: EvictionReference.Cell, value: Double) {
    let values = try cells.map { ($0, try value($0)) }
    return values.max { $0.1 < $1.1 }!
  }

  // MARK: Hit ratios

  /// The most points by which the sampled policy is below exact LRU.
  func lruWorst() throws -> Figure {
    try belowLRU("eviction.lru_worst_points", .sampledLRU, bar: 0.5)
  }

  /// The most points by which the adaptive policy is below exact LRU.
  func adaptiveWorst() throws -> Figure {
    try belowLRU("eviction.adaptive_worst_below_lru", .adaptive, bar: 1)
  }

  private func belowLRU(
    _ id: String, _ policy: EvictionPolicy, bar: Double
  ) throws -> Figure {
    let worst = try worst { try $0.percents["lru"]! - percent($0, policy) }
    let missed = try cells.filter { try $0.percents["lru"]! - percent($0, policy) > bar }.count
    return Figure(
      id: id, value: worst.value, unit: "points", bar: .atMost(bar),
      own: try percent(worst.cell, policy),
      rival: "exact LRU, simulated: \(worst.cell.name), the worst of \(cells.count) cells; "
        + "\(missed) exceed the bar",
      rivalValue: worst.cell.percents["lru"]!, rivalUnit: "%")
  }

  /// The mean hit ratio of the adaptive policy.
  func adaptiveMean() throws -> Figure {
    func mean(_ percent: (EvictionReference.Cell) throws -> Double) rethrows -> Double {
      try generalCells.reduce(0) { try $0 + percent($1) } / Double(generalCells.count)
    }
    let own = try mean { try percent($0, .adaptive) }
    let others = ["lru", "arc", "wtlfu-hc", "s3fifo-adapt", "opt"].map { name in
      let hundredths = Int((mean { $0.percents[name]! } * 100).rounded())
      return "\(name) \(hundredths / 100).\(hundredths % 100 / 10)\(hundredths % 10)"
    }
    return Figure(
      id: "eviction.adaptive_mean", value: own, unit: "%", bar: .atLeast(58.4), own: own,
      rival: "exact LRU; the same \(generalCells.count) cells, simulated: "
        + others.joined(separator: ", "),
      rivalValue: mean { $0.percents["lru"]! }, rivalUnit: "%")
  }

  /// The largest difference between one process that replays a trace and four that replay it in turns,
  /// with the accesses in the same order.
  func fourProcesses() throws -> Figure {
    func difference(
      _ cell: EvictionReference.Cell, _ processes: EvictionReplay.Processes
    ) throws -> Double {
      try abs(percent(cell, .adaptive, processes) - percent(cell, .adaptive))
    }
    let worst = try worst { try difference($0, .inTurns(4)) }
    let free = try cells.map { try difference($0, .free(4)) }
    func hundredths(_ value: Double) -> String {
      let whole = Int((value * 100).rounded())
      return "\(whole / 100).\(whole % 100 / 10)\(whole % 10)"
    }
    return Figure(
      id: "eviction.four_processes_points", value: worst.value, unit: "points",
      bar: .atMost(0.5), own: try percent(worst.cell, .adaptive, .inTurns(4)),
      rival:
        "one process: \(worst.cell.name), the worst of \(cells.count) cells; without turns, in "
        + "another order: median \(hundredths(Rounds.median(free))), worst "
        + "\(hundredths(free.max()!)), \(free.count { $0 > 0.5 }) over 0.5",
      rivalValue: try percent(worst.cell, .adaptive), rivalUnit: "%")
  }

  // MARK: Costs

  /// The nanoseconds by which a store makes a memory hit slower.
  func hitCost() throws -> Figure {
    try MemoryFigures(directory: directory, isQuick: isQuick).recency(id: "eviction.hit_cost")
  }

  /// The times of inserts into a full store, and into one that evicts nothing, in nanoseconds.
  private lazy var inserts:
    Result<(full: [Double], free: [Double], ratio: Rounds.Comparison), any Error> =
      Result { try measureInserts() }

  private func measureInserts() throws -> (
    full: [Double], free: [Double], ratio: Rounds.Comparison
  ) {
    let count = isQuick ? 10_000 : 100_000
    let perRound = 1000
    let value = [UInt8](repeating: 7, count: 100)
    func store(_ name: String, entries: Int?) throws -> SharedStore {
      var options = StoreOptions(budget: .gigabytes(1))
      options.entryBudget = entries
      options.evictionPolicy = .adaptive
      let store = try SharedStore(at: "\(directory)/inserts-\(name)", options)
      for start in stride(from: 0, to: count, by: 1000) {
        try store.write { transaction in
          for key in start..<start + 1000 { try transaction.setBytes(value, forKey: key) }
        }
      }
      return store
    }
    let (full, free) = (try store("full", entries: count), try store("free", entries: nil))
    defer {
      for store in [full, free] {
        store.close()
        Files.remove(store.path)
      }
    }
    var times: [Bool: [Double]] = [:]
    var numbers = Numbers(seed: 11)
    func insert(into store: SharedStore, _ round: Int) throws -> Double {
      let namespace = try store.namespace("")
      let first = count + round * perRound
      // Uses, so that eviction has to choose.
      for _ in 0..<2 * perRound {
        _ = try namespace.bytes(forKey: first - 1 - Int.random(in: 0..<count, using: &numbers))
      }
      var own: [Double] = []
      own.reserveCapacity(perRound)
      for key in first..<first + perRound {
        let start = bench_now()
        try namespace.setBytes(value, forKey: key)
        own.append(Double(bench_now() - start))
      }
      if round > 0 { times[store === full, default: []] += own }
      return Rounds.median(own)
    }
    let ratio = try Rounds.compare(count: isQuick ? 9 : 101) { round in
      try insert(into: full, round)
    } rival: { round in
      try insert(into: free, round)
    }
    guard try full.statistics().entries <= count, try full.statistics().evictions > 0 else {
      throw BenchFailure("The full store did not evict.")
    }
    return (times[true]!, times[false]!, ratio)
  }

  /// The median insert into a full store over that into a store that evicts nothing.
  func insertFull() throws -> Figure {
    let inserts = try inserts.get()
    let (full, free) = (Rounds.median(inserts.full), Rounds.median(inserts.free))
    return Figure(
      id: "eviction.insert_full", value: full / free, unit: "x", bar: .atMost(2),
      own: full / 1000, rival: "Larder: inserts into a store without eviction",
      rivalValue: free / 1000, rivalUnit: "us", spread: inserts.ratio.spread)
  }

  /// The slowest insert into a full store over the median one.
  func insertWorst() throws -> Figure {
    let inserts = try inserts.get()
    let sorted = inserts.full.sorted()
    let median = Rounds.median(sorted)
    func times(_ value: Double) -> Int { Int((value / median).rounded()) }
    let rare = times(sorted[sorted.count * 9999 / 10_000])
    return Figure(
      id: "eviction.insert_worst", value: sorted.last! / median, unit: "x", bar: .atMost(100),
      own: sorted.last! / 1000,
      rival: "Larder: the slowest insert into a store without eviction; of \(sorted.count) inserts "
        + "with eviction, one in 10,000 takes more than \(rare) x",
      rivalValue: inserts.free.max()! / 1000, rivalUnit: "us")
  }
}
