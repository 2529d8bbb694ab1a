// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A stored entry of a sampled key.
package struct SampledEntry: Sendable {
  /// The hash, as in ``Sample/hash``.
  package let hash: UInt64
  /// The cost of the entry against the budget, in bytes.
  package let bytes: Int
  package let namespace: UInt32
  /// The time of the last use in milliseconds since 1970.
  package let lastUse: Int64
  /// The uses since the admission to an eviction queue, at most three.
  package let uses: Int

  /// Creates an entry.
  package init(hash: UInt64, bytes: Int, namespace: UInt32, lastUse: Int64 = 0, uses: Int = 0) {
    self.hash = hash & Sample.hashMask
    self.bytes = bytes
    self.namespace = namespace
    self.lastUse = lastUse
    self.uses = uses
  }
}

/// The sampled uses of a period, and the stored entries of the sampled keys.
package struct SampledAccesses: Sendable {
  package var samples: [Sample] = []
  /// Uses of keys with a hash prefix below this are in the sample.
  package var threshold = UInt32.max
  /// Whether the sample has every use of the sampled keys. Otherwise it consists of several parts.
  package var isComplete = true
  /// The reads of all keys since the sample began.
  package var reads = 0
  /// The entries at the start and at the end.
  package var before: [SampledEntry] = []
  package var after: [SampledEntry] = []
  package var seconds = 0.0

  /// Creates an empty sample.
  package init() {}

  /// The share of the keys that is sampled.
  package var share: Double { Double(threshold) / Double(UInt32.max) }

  /// Removes what is not below a lower threshold.
  mutating func lower(to threshold: UInt32) {
    self.threshold = threshold
    samples.removeAll { hashPrefix($0.hash) >= threshold }
    before.removeAll { hashPrefix($0.hash) >= threshold }
  }
}

/// The collector of the uses that all processes of a store sample; see `SharedTable+Samples.swift`.
///
/// It begins with a share of the keys that has about 8,192 entries. If the ring fills up between two
/// collections, or the sample becomes large, it halves the share down to one of 256 entries. So a
/// process records at most about 80,000 uses in a second, whatever its rate of hits.
package struct AccessSampler: ~Copyable {
  private static let wantedEntries = 8192.0
  private static let fewestEntries = 256.0
  /// The most samples that are kept.
  private static let mostSamples = 1 << 18
  /// The time between two collections, for each slot of the ring.
  private static let nanosecondsPerSlot: UInt64 = 12_000
  /// The time in milliseconds after which another process may sample if this one was killed.
  private static let lease: UInt64 = 2000

  private let core: StoreCore
  private var generation: Generation
  private var result = SampledAccesses()
  private let lowest: UInt32
  private var readsBefore = 0
  private var isClaimed = true

  /// Claims the sampling of a store.
  ///
  /// - Returns: `nil` if another process samples the store.
  package init?(_ core: StoreCore) throws {
    let generation = try core.generation()
    let entries = try Double(max(core.statistics().entries, 1))
    func threshold(_ wanted: Double) -> UInt32 {
      wanted >= entries ? .max : UInt32(Double(UInt32.max) * wanted / entries)
    }
    guard Self.claim(generation) else { return nil }
    self.core = core
    self.generation = generation
    result.threshold = threshold(Self.wantedEntries)
    lowest = threshold(Self.fewestEntries)
  }

  deinit { if isClaimed { generation.table.endSampling() } }

  private static var now: UInt64 { Clocks.monotonicNanoseconds() / 1_000_000 }

  private static func claim(_ generation: Generation) -> Bool {
    generation.table.claimSampling(milliseconds: now, until: now + lease)
  }

  /// Collects the uses of a period. Returns early if the sample has its largest size.
  ///
  /// - Returns: The sample. Afterwards no process samples.
  package consuming func run(for duration: Duration) throws -> SampledAccesses {
    result.before = try core.sampledEntries(below: result.threshold)
    let start = Clocks.monotonicNanoseconds()
    let end = start &+ Clocks.nanoseconds(of: duration)
    restart()
    arm()
    var now = start
    while now < end, result.samples.count < Self.mostSamples, isClaimed {
      let pause = UInt64(generation.table.shape.sampleSlots) * Self.nanosecondsPerSlot
      Event().wait(nanoseconds: min(pause, end - now))
      try collect()
      now = Clocks.monotonicNanoseconds()
    }
    if isClaimed {
      _ = generation.table.takeSamples(into: &result.samples)
      generation.table.endSampling()
      isClaimed = false
    }
    result.lower(to: result.threshold)
    result.reads = max(reads - readsBefore, 0)
    result.seconds = Double(now - start) / 1e9
    result.after = try core.sampledEntries(below: result.threshold)
    return result
  }

  private mutating func collect() throws {
    let current = try core.generation()
    if current !== generation {
      generation.table.endSampling()
      generation = current
      result.isComplete = false
      isClaimed = Self.claim(current)
      if isClaimed { arm() }
      return
    }
    let isFull = generation.table.takeSamples(into: &result.samples)
    if isFull, result.threshold > lowest {
      // A part of the uses is missing: begin again with fewer keys.
      result.lower(to: max(result.threshold / 2, lowest))
      restart()
    } else if isFull {
      result.isComplete = false
    }
    if result.samples.count >= Self.mostSamples, result.threshold > lowest {
      result.lower(to: max(result.threshold / 2, lowest))
    }
    arm()
  }

  private func arm() {
    generation.table.renewSampling(threshold: result.threshold, until: Self.now + Self.lease)
  }

  private mutating func restart() {
    result.samples = []
    readsBefore = reads
  }

  /// The reads of all processes since the generation began.
  private var reads: Int {
    [Counter.memoryHits, .storeHits, .misses].reduce(0) { sum, counter in
      sum &+ Int(clamping: generation.table.total(counter))
    }
  }
}

extension StoreCore {
  /// Returns the visible entries with a hash prefix below a threshold. Reads only these.
  package func sampledEntries(below threshold: UInt32) throws -> [SampledEntry] {
    var result: [SampledEntry] = []
    var position: UInt64? = 0
    while let start = position, hashPrefix(start) < threshold {
      let (entries, next) = try page(of: nil, from: start, limit: 512)
      let uses = try generation().table.uses
      for entry in entries where hashPrefix(entry.hash) < threshold {
        result.append(
          SampledEntry(
            hash: entry.hash, bytes: entry.bytes, namespace: entry.namespace,
            lastUse: entry.lastUse, uses: uses.uses(hashPrefix(entry.hash))))
      }
      position = next
    }
    return result
  }
}
