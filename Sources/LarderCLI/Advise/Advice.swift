// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine

/// The hits of a simulated cache, by namespace.
struct NamespaceHits: Equatable {
  private(set) var total = 0
  private(set) var byNamespace: [UInt32: Int] = [:]

  mutating func add(_ namespace: UInt32) {
    total += 1
    byNamespace[namespace, default: 0] += 1
  }
}

/// The hit ratios that a store would have with other budgets, computed from sampled uses.
///
/// A simulated cache has the sampled keys and the same share of the budget ("miniature simulation",
/// Waldspurger et al., USENIX ATC 2017). For the policy of the library it is a real store in a
/// temporary directory, for exact LRU a model.
struct Advice {
  /// The hits with one budget.
  struct Point {
    let factor: Double
    /// The budget of the store, which the simulated caches have a share of.
    let capacity: Trace.Capacity
    let adaptive: NamespaceHits
    let leastRecentlyUsed: NamespaceHits
  }

  static let factors = [0.25, 0.5, 1, 2, 4]
  /// The share of the hits that a memory tier of the advised size has.
  static let memoryShare = 0.9

  let sampled: SampledTrace
  let accesses: SampledAccesses
  private(set) var points: [Point] = []
  /// The counted gets of each namespace.
  private(set) var gets: [UInt32: Int] = [:]
  /// The bytes of the most recently used values that have 90 % of the hits of exact LRU.
  private(set) var memoryBytes = 0
  /// The reads that the sample should have, less those that it has: the correction SHARDS-adj for
  /// sampled keys that are used more or less often than other keys.
  private let missingReads: Double

  /// Computes the ratios for parts and multiples of a capacity.
  ///
  /// - Parameter directory: The directory for temporary stores.
  init(
    _ sampled: SampledTrace, _ accesses: SampledAccesses, around capacity: Trace.Capacity,
    directory: String
  ) throws {
    self.sampled = sampled
    self.accesses = accesses
    let expected = Double(accesses.reads) * accesses.share
    let error = expected / Double(max(sampled.reads, 1))
    // Reads of objects and losses explain a larger difference.
    let isUsable = accesses.isComplete && accesses.share < 0.99 && (0.7...1.4).contains(error)
    missingReads = isUsable ? expected - Double(sampled.reads) : 0
    let trace = sampled.trace
    for index in trace.warmUp..<trace.count where trace.operation(index) == .get {
      gets[namespace(index), default: 0] += 1
    }
    for factor in Self.factors {
      points.append(try point(factor, capacity, directory))
    }
    memoryBytes = advisedMemory(capacity)
  }

  /// The number of counted gets.
  var getCount: Int { gets.values.reduce(0, +) }

  /// Returns the ratio of hits among all gets.
  func ratio(_ hits: NamespaceHits) -> Double {
    let all = Double(getCount) + missingReads
    return min(max((Double(hits.total) + missingReads) / max(all, 1), 0), 1)
  }

  /// Returns the ratio of hits among the gets of a namespace.
  func ratio(_ hits: NamespaceHits, in namespace: UInt32) -> Double {
    Double(hits.byNamespace[namespace] ?? 0) / Double(max(gets[namespace] ?? 0, 1))
  }

  // MARK: Simulations

  private func namespace(_ index: Int) -> UInt32 {
    sampled.namespaces[Int(sampled.trace.keys[index])]
  }

  private func point(
    _ factor: Double, _ capacity: Trace.Capacity, _ directory: String
  ) throws -> Point {
    let number = max(1, Int((Double(capacity.number) * factor).rounded()))
    let wanted: Trace.Capacity = capacity.isEntries ? .entries(number) : .bytes(number)
    let scaled = sampled.scaled(wanted)
    return Point(
      factor: factor, capacity: wanted, adaptive: try adaptive(scaled, directory),
      leastRecentlyUsed: leastRecentlyUsed(scaled))
  }

  private func adaptive(_ capacity: Trace.Capacity, _ directory: String) throws -> NamespaceHits {
    let trace = sampled.trace
    var hits = NamespaceHits()
    let replays = TraceReplay(trace: trace, processes: 1, directory: directory)
    try replays.withStore(.adaptive, capacity) { store in
      var replay = try AccessReplay(trace, in: store)
      for index in 0..<trace.count where try replay.replay(index) { hits.add(namespace(index)) }
    }
    return hits
  }

  private func leastRecentlyUsed(_ capacity: Trace.Capacity) -> NamespaceHits {
    var hits = NamespaceHits()
    _ = PolicySimulation(sampled.trace, capacity).leastRecentlyUsed { hits.add(namespace($0)) }
    return hits
  }

  /// Returns the smallest size with the share of the hits that a memory tier should have.
  private func advisedMemory(_ capacity: Trace.Capacity) -> Int {
    let trace = sampled.trace
    let all = (0..<trace.warmUp).reduce(0) { $0 + trace.cost($1) }
    var range =
      1...max(
        all, (trace.warmUp..<trace.count).reduce(0) { $0 + trace.cost($1) }, 4096)
    if case .bytes(let budget) = sampled.scaled(capacity), range.upperBound > budget {
      range = 1...budget
    }
    let wanted = Int(Double(leastRecentlyUsed(.bytes(range.upperBound)).total) * Self.memoryShare)
    guard wanted > 0 else { return 0 }
    while range.upperBound - range.lowerBound > range.upperBound / 16 {
      let middle = (range.lowerBound + range.upperBound) / 2
      let isEnough = leastRecentlyUsed(.bytes(middle)).total >= wanted
      range = isEnough ? range.lowerBound...middle : middle...range.upperBound
    }
    return sampled.unscaled(bytes: range.upperBound)
  }
}
#endif
