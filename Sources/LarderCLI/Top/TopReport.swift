// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderCoding
import LarderEngine

/// The rates of a store between two observations, and its state at the second one.
struct TopReport {
  /// The counters that are shown as rates, with their names in JSON answers.
  static let counters: [(Counter, String)] = [
    (.memoryHits, "memoryHits"), (.storeHits, "storeHits"), (.misses, "misses"),
    (.absentHits, "negativeHits"), (.sets, "sets"), (.removals, "removals"),
    (.evictions, "evictions"), (.expirations, "expirations"), (.commits, "commits"),
    (.computations, "computations"),
  ]
  private static let reads: [Counter] = [.memoryHits, .storeHits, .misses]

  let now: StoreObservation
  let seconds: Double
  /// The uses of the interval, or `nil` if they were not sampled.
  let keys: HotKeys?
  private let before: StoreObservation
  private let counters: [UInt64]
  let commitTimes: CommitTimes
  let processes: [Process]

  /// A process and its counters in the interval.
  struct Process {
    let state: StoreObservation.Process
    fileprivate let counters: [UInt64]
    fileprivate let seconds: Double

    func rate(_ wanted: Counter...) -> Double {
      Double(StoreObservation.sum(counters, wanted)) / seconds
    }
    var reads: Double { Double(StoreObservation.sum(counters, TopReport.reads)) / seconds }
  }

  init(_ before: StoreObservation, _ now: StoreObservation, keys: HotKeys?) {
    (self.before, self.now, self.keys) = (before, now, keys)
    let seconds = max(Double(now.time.nanoseconds &- before.time.nanoseconds) / 1e9, 1e-3)
    self.seconds = seconds
    counters = Self.difference(now.counters, before.counters)
    let isSame = now.binding == before.binding
    var times = CommitTimes()
    var processes: [Process] = []
    for process in now.processes {
      let last = before.processes.first {
        isSame && $0.pid == process.pid && $0.startTime == process.startTime
      }
      times = times + process.commitTimes.since(last?.commitTimes)
      let counters = last.map { Self.difference(process.counters, $0.counters) }
      processes.append(
        Process(state: process, counters: counters ?? process.counters, seconds: seconds))
    }
    commitTimes = times
    self.processes = processes.sorted { left, right in
      let (first, second) = (left.reads + left.rate(.sets), right.reads + right.rate(.sets))
      return first == second ? left.state.pid < right.state.pid : first > second
    }
  }

  /// Counters of another store, or of a table that was created again, may be less than before.
  private static func difference(_ now: [UInt64], _ before: [UInt64]) -> [UInt64] {
    zip(now, before).map { $0 >= $1 ? $0 - $1 : 0 }
  }

  func rate(_ wanted: Counter...) -> Double {
    Double(StoreObservation.sum(counters, wanted)) / seconds
  }

  /// The share of some counters in the reads of the interval; `nil` without reads.
  func ratio(_ wanted: Counter...) -> Double? { Self.ratio(counters, wanted) }

  /// The share of hits in all reads since the store was created.
  var ratioOfAllTime: Double? { Self.ratio(now.counters, [.memoryHits, .storeHits]) }

  private static func ratio(_ counters: [UInt64], _ wanted: [Counter]) -> Double? {
    let all = StoreObservation.sum(counters, reads)
    return all == 0 ? nil : Double(StoreObservation.sum(counters, wanted)) / Double(all)
  }

  /// The process that has the writer lock, and for how many milliseconds.
  var writer: (pid: Int32, milliseconds: Double)? {
    let held = now.processes.compactMap { process in
      process.writingNanoseconds.map { (process.pid, Double($0) / 1e6) }
    }
    return held.max { $0.1 < $1.1 }
  }

  /// The readers of snapshots that are not the newest.
  var laggards: [StoreObservation.Reader] {
    now.content?.readers.filter { $0.commitsBehind > 0 } ?? []
  }

  /// A namespace, with its changes and sampled uses.
  struct Namespace {
    let name: String
    let record: NamespaceRecord
    /// The changes in a second; `nil` if one of the observations has no records.
    let entries: Double?
    let bytes: Double?
    let uses: Int?
  }

  /// The namespaces: those with the most sampled uses, then those with the largest change, first.
  var namespaces: [Namespace] {
    let content = now.content?.namespaces ?? [:]
    let list = content.map { number, record in
      // A namespace that did not exist had no entries.
      let last = before.content.map { $0.namespaces[number] ?? NamespaceRecord(name: []) }
      func change(_ value: (NamespaceRecord) -> UInt64) -> Double? {
        last.map { (Double(value(record)) - Double(value($0))) / seconds }
      }
      return Namespace(
        name: String(decoding: record.name, as: UTF8.self), record: record,
        entries: change(\.entries), bytes: change(\.bytes), uses: keys?.uses(ofNamespace: number))
    }
    return list.sorted { left, right in
      let (first, second) = (
        (left.uses ?? 0, abs(left.bytes ?? 0), left.record.bytes),
        (right.uses ?? 0, abs(right.bytes ?? 0), right.record.bytes)
      )
      return first == second ? left.name < right.name : first > second
    }
  }

  /// Returns the name of a namespace.
  func name(ofNamespace number: UInt32) -> String? {
    now.content?.namespaces[number].map { String(decoding: $0.name, as: UTF8.self) }
  }
}

/// The sampled uses of an interval, by key.
struct HotKeys {
  /// A key and its uses.
  struct Key {
    let hash: UInt64
    var reads = 0
    var misses = 0
    var writes = 0
    var entry: ObservedEntry?
    var uses: Int { reads + misses + writes }
  }

  /// The number of keys whose names are searched.
  private static let mostResolved = 200

  private(set) var keys: [Key] = []
  /// All sampled uses.
  private(set) var uses = 0
  /// Whether the samples are all uses of the interval.
  private(set) var isComplete = true

  init(_ burst: UseSampler.Burst, _ observer: StoreObserver) {
    var tally: [UInt64: Key] = [:]
    for sample in burst.samples {
      var key = tally[sample.hash] ?? Key(hash: sample.hash)
      switch sample.kind {
      case .memoryHit, .storeHit: key.reads += 1
      case .miss: key.misses += 1
      case .put, .remove: key.writes += 1
      }
      tally[sample.hash] = key
    }
    keys = tally.values.sorted { ($1.uses, $0.hash) < ($0.uses, $1.hash) }
    let entries = observer.entries(ofHashes: keys.prefix(Self.mostResolved).map(\.hash))
    for index in keys.indices.prefix(Self.mostResolved) {
      keys[index].entry = entries[keys[index].hash]
    }
    uses = burst.samples.count
    isComplete = !burst.isFull
  }

  /// Returns the uses of the resolved keys of a namespace.
  func uses(ofNamespace number: UInt32) -> Int {
    keys.prefix(Self.mostResolved).reduce(0) { $0 + ($1.entry?.namespace == number ? $1.uses : 0) }
  }
}
#endif
