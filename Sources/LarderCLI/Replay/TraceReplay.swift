// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderMemo

/// The counts of replayed accesses.
struct AccessTally: Equatable {
  var accesses = 0
  var hits = 0
  var bytes = 0
  var hitBytes = 0
  /// The misses whose value exceeds the budget of the store, so that it was not stored.
  var oversized = 0
  /// The duration in nanoseconds.
  var nanoseconds = 0

  static func + (left: AccessTally, right: AccessTally) -> AccessTally {
    AccessTally(
      accesses: left.accesses + right.accesses, hits: left.hits + right.hits,
      bytes: left.bytes + right.bytes, hitBytes: left.hitBytes + right.hitBytes,
      oversized: left.oversized + right.oversized,
      nanoseconds: max(left.nanoseconds, right.nanoseconds))
  }

  var hitRatio: Double { Double(hits) / Double(max(accesses, 1)) }
  var byteHitRatio: Double { Double(hitBytes) / Double(max(bytes, 1)) }
  var perSecond: Int { Int(Double(accesses) * 1e9 / Double(max(nanoseconds, 1))) }
}

/// The result of a replay with one policy and one capacity.
struct ReplayRun {
  let policy: EvictionPolicy
  let capacity: Trace.Capacity
  /// The counts of each process.
  let processes: [AccessTally]
  let evictions: Int
  /// The duration of the replay by all processes, in nanoseconds.
  let nanoseconds: Int

  var total: AccessTally {
    var total = processes.reduce(AccessTally(), +)
    total.nanoseconds = nanoseconds
    return total
  }
}

/// The replay of accesses through a store: a get, and after a miss a set.
struct AccessReplay {
  private let trace: Trace
  private let namespace: StoreNamespace
  private(set) var tally = AccessTally()
  /// The value of a trace without sizes, or of the last stored size.
  private var value = [UInt8](repeating: 7, count: Trace.fixedSize)

  /// The accesses that one process replays in sequence.
  static let chunk = 64

  init(_ trace: Trace, in store: SharedStore) throws {
    self.trace = trace
    namespace = try store.namespace("replay")
  }

  static func chunkCount(_ trace: Trace) -> Int { (trace.count + chunk - 1) / chunk }

  /// Replays the accesses of a chunk.
  mutating func replay(chunk: Int) throws {
    let start = chunk * Self.chunk
    for index in start..<min(start + Self.chunk, trace.count) { try replay(index) }
  }

  /// Replays one access.
  ///
  /// - Returns: Whether it is a counted hit.
  @discardableResult
  mutating func replay(_ index: Int) throws -> Bool {
    let key = Int(trace.keys[index])
    let size = trace.size(index)
    switch trace.operation(index) {
    case .get:
      let isCounted = index >= trace.warmUp
      tally.accesses += isCounted ? 1 : 0
      tally.bytes += isCounted ? size : 0
      if try namespace.bytes(forKey: key) != nil {
        tally.hits += isCounted ? 1 : 0
        tally.hitBytes += isCounted ? size : 0
        return isCounted
      }
    case .put: break
    case .remove:
      _ = try namespace.remove(forKey: key)
      return false
    }
    if value.count != size { value = [UInt8](repeating: 7, count: size) }
    do {
      try namespace.setBytes(value, forKey: key)
    } catch let error as StoreError where error.code == .valueTooLarge {
      tally.oversized += 1
    }
    return false
  }
}

/// The replays of one trace, each through a new store in a temporary directory.
struct TraceReplay {
  let trace: Trace
  let processes: Int
  /// The directory for the store, and for the trace of worker processes.
  let directory: String

  /// Creates a directory that is removed also if this process is interrupted.
  static func temporaryDirectory() throws -> String {
    let path =
      FileManager.default.temporaryDirectory.path + "/larder-replay-\(UUID().uuidString)"
    do {
      try CommandProxy.removeWhenInterrupted(path)
      try FileManager.default.createDirectory(
        atPath: path, withIntermediateDirectories: true,
        attributes: [.posixPermissions: 0o700])
    } catch {
      throw ToolError(
        "file",
        "Cannot create \(path): \(error.localizedDescription) Name another directory in TMPDIR.")
    }
    return path
  }

  /// Replays the trace.
  ///
  /// - Parameter title: The text before the progress.
  func run(
    _ policy: EvictionPolicy, _ capacity: Trace.Capacity, title: String
  ) throws -> ReplayRun {
    try withStore(policy, capacity) { store in
      try replay(in: store, policy, capacity, title: title)
    }
  }

  /// Passes a new store with a policy and a capacity to a closure, and removes it afterwards.
  func withStore<R>(
    _ policy: EvictionPolicy, _ capacity: Trace.Capacity, _ body: (SharedStore) throws -> R
  ) throws -> R {
    let path = directory + "/store"
    defer { try? FileManager.default.removeItem(atPath: path) }
    var options = StoreOptions(
      onError: { Console.printError("larder: \($0)") },
      onEvent: { Console.printError("larder: \($0)") })
    options.evictionPolicy = policy
    switch capacity {
    case .entries(let count):
      options.entryBudget = count
      options.budget = .bytes(trace.ampleBudget(entries: count))
    case .bytes(let count): options.budget = .bytes(count)
    }
    let store = try SharedStore(at: path, options)
    defer { store.close() }
    return try body(store)
  }

  private func replay(
    in store: SharedStore, _ policy: EvictionPolicy, _ capacity: Trace.Capacity, title: String
  ) throws -> ReplayRun {
    let clock = ContinuousClock()
    let tallies: [AccessTally]
    let duration: Duration
    if processes == 1 {
      let start = clock.now
      tallies = [try replay(in: store, title: title)]
      duration = start.duration(to: clock.now)
    } else {
      let workers = try ReplayWorkers(
        trace, count: processes, store: directory + "/store", directory: directory)
      let start = clock.now
      tallies = try workers.replay(title: title)
      duration = start.duration(to: clock.now)
    }
    let nanoseconds = Int(duration.nanoseconds)
    return ReplayRun(
      policy: policy, capacity: capacity,
      processes: tallies.map { tally in
        var tally = tally
        if processes == 1 { tally.nanoseconds = nanoseconds }
        return tally
      }, evictions: Int(try store.statistics().evictions), nanoseconds: nanoseconds)
  }

  private func replay(in store: SharedStore, title: String) throws -> AccessTally {
    var replay = try AccessReplay(trace, in: store)
    var progress = TransferProgress(title, of: ("access", "accesses"))
    defer { progress.clear() }
    for chunk in 0..<AccessReplay.chunkCount(trace) {
      try replay.replay(chunk: chunk)
      let done = (chunk + 1) * AccessReplay.chunk
      progress.show(done, share: Double(done) / Double(trace.count))
    }
    return replay.tally
  }
}
#endif
