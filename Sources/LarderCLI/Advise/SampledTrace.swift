// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine

/// The trace of a store's sampled uses, for a cache whose capacity is scaled by the same share.
///
/// The trace begins with the entries that the store contained, in the order of their last use: a
/// simulated cache starts as full as the store was. Then each sampled read is a get. A write that
/// follows a miss of its key is the set of that get. Reads of keys that have no entry and were not
/// written are counted separately, because no capacity makes them hits.
struct SampledTrace {
  private(set) var trace = Trace()
  /// The namespace of each key; zero if it has no entry any more.
  private(set) var namespaces: [UInt32] = []
  private(set) var memoryHits = 0
  private(set) var storeHits = 0
  private(set) var misses = 0
  /// The reads of keys that are never stored.
  private(set) var absentReads = 0
  /// The reads that are the first sampled use of a key without an entry.
  private(set) var firstReads = 0
  /// The share of the store's bytes and entries that the sampled keys have.
  private let shares: (bytes: Double, entries: Double)
  /// The divisor of the sizes: values of a simulated cache have 2 kB on average, at most.
  private let divisor: Double

  private struct Key {
    let number: Int32
    var isAwaitingSet = false
  }
  private var keys: [UInt64: Key] = [:]

  /// Creates the trace of a sample.
  ///
  /// - Parameters:
  ///   - bytes: The bytes of all entries when the sample began.
  ///   - entries: Their number.
  init(_ accesses: SampledAccesses, bytes: Int, entries: Int) {
    let before = accesses.before
    let stored = before.reduce(0) { $0 + $1.bytes }
    // A sample of few entries shows their sizes badly.
    shares =
      before.count >= 64 && bytes > 0 && entries > 0
      ? (Double(stored) / Double(bytes), Double(before.count) / Double(entries))
      : (accesses.share, accesses.share)
    var known: [UInt64: SampledEntry] = [:]
    for entry in before + accesses.after { known[entry.hash] = entry }
    let total = known.values.reduce(0) { $0 + $1.bytes }
    let mean = known.isEmpty ? 128 : total / known.count
    divisor = max(1, Double(mean) / 2048)
    var storable = Set(known.keys)
    for sample in accesses.samples where ![.miss, .remove].contains(sample.kind) {
      storable.insert(sample.hash)
    }
    for entry in before.sorted(by: { ($0.lastUse, $0.uses) < ($1.lastUse, $1.uses) }) {
      append(entry.hash, .put, known, mean)
      for _ in 0..<min(entry.uses, 3) { append(entry.hash, .get, known, mean) }
    }
    trace.warmUp = trace.count
    for sample in accesses.samples { add(sample, storable.contains(sample.hash), known, mean) }
    // The largest of the maps is not needed any more.
    keys = [:]
  }

  /// The gets that are counted.
  var gets: Int {
    (trace.warmUp..<trace.count).reduce(0) { $0 + (trace.operation($1) == .get ? 1 : 0) }
  }

  /// All sampled reads.
  var reads: Int { memoryHits + storeHits + misses }

  /// The ratio of hits of the store.
  var hitRatio: Double { Double(memoryHits + storeHits) / Double(max(reads, 1)) }

  /// Returns the capacity of a simulated cache for a capacity of the store.
  func scaled(_ capacity: Trace.Capacity) -> Trace.Capacity {
    switch capacity {
    case .entries(let count): .entries(max(1, Int(Double(count) * shares.entries)))
    case .bytes(let count): .bytes(max(4096, Int(Double(count) * shares.bytes / divisor)))
    }
  }

  /// Returns the bytes in the store for bytes of a simulated cache.
  func unscaled(bytes: Int) -> Int { Int(Double(bytes) * divisor / max(shares.bytes, 1e-9)) }

  private mutating func add(
    _ sample: Sample, _ isStorable: Bool, _ known: [UInt64: SampledEntry], _ mean: Int
  ) {
    switch sample.kind {
    case .memoryHit: memoryHits += 1
    case .storeHit: storeHits += 1
    case .miss: misses += 1
    case .put, .remove: break
    }
    guard isStorable else {
      absentReads += sample.kind == .miss ? 1 : 0
      return
    }
    if keys[sample.hash] == nil, sample.kind == .miss { firstReads += 1 }
    let isAwaitingSet = keys[sample.hash]?.isAwaitingSet ?? false
    switch sample.kind {
    case .memoryHit, .storeHit: append(sample.hash, .get, known, mean)
    case .miss:
      // The same program may search twice before it writes, and others at the same time.
      if !isAwaitingSet { append(sample.hash, .get, known, mean) }
    case .put: if !isAwaitingSet { append(sample.hash, .put, known, mean) }
    case .remove: append(sample.hash, .remove, known, mean)
    }
    keys[sample.hash]?.isAwaitingSet = sample.kind == .miss
  }

  private mutating func append(
    _ hash: UInt64, _ operation: Trace.Operation, _ known: [UInt64: SampledEntry], _ mean: Int
  ) {
    let next = Int32(trace.keyCount)
    let number = keys[hash, default: Key(number: next)].number
    if number == next {
      keys[hash] = Key(number: next)
      namespaces.append(known[hash]?.namespace ?? 0)
    }
    let cost = Int(Double(known[hash]?.bytes ?? mean) / divisor)
    let rest = cost - EntryHeader.size - EncodedKey(Int(number)).bytes.count
    trace.append(number, size: Int32(clamping: min(max(rest, 0), Trace.largestSize)), operation)
  }
}
#endif
