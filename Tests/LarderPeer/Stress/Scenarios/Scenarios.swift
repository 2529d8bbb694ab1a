// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting

/// A rule of the protocol did not hold.
struct Violation: Error, CustomStringConvertible {
  let description: String
}

/// Directed tests of the rules that a random storm exercises too rarely. Each must pass, and must
/// fail in a process whose mutant breaks its rule.
enum Scenarios {
  static let all: [String: @Sendable (String) async throws -> Void] = [
    "renew": renew, "combiner": combiner, "generations": generations, "condemned": condemned,
    "bump": bump, "fill": fill, "budget": budget, "lease": lease,
  ]

  /// Runs each in a separate process, except those that need fault points in builds without them.
  static func runAll(_ totals: inout StressTotals, _ say: (String) -> Void) throws {
    for name in all.keys.sorted() {
      #if !FAULTS
      if name == "bump" {
        say("scenario bump: left out, it needs fault points")
        continue
      }
      #endif
      let directory = try TemporaryDirectory()
      let outcome = try ChildProcess.run(
        PeerExecutable.path, ["stress", "scenario", name, directory.path + "/store"])
      totals.operations += 1
      if outcome.status != .exited(0) {
        totals.violations.append("scenario \(name): \(outcome.status) \(outcome.lines)")
      }
    }
    say("\(all.count) scenarios, \(totals.violations.count) violations")
  }

  static func require(_ condition: Bool, _ text: String) throws {
    if !condition { throw Violation(description: text) }
  }

  /// Starts a helper command in a separate process.
  static func start(
    _ command: String, _ path: String, environment: [String: String] = [:]
  ) throws -> ChildProcess {
    let child = try ChildProcess(
      PeerExecutable.path, ["stress", "helper", command, path], environment: environment)
    try child.expect("ready")
    return child
  }

  // MARK: R2

  /// A reader whose snapshot is two commit versions older than an active writer takes another.
  static func renew(_ path: String) async throws {
    let store = try SharedStore(at: path)
    try await store.setBytes([1], forKey: 1)
    let generation = try store.core.generation()
    let commitVersion = try generation.withSnapshot { $0.commitVersion }
    generation.table.announceWriter(commitVersion: commitVersion + 2)
    // A reader without the check returns a commit version at once; one with it retries, and throws
    // an error because the announced commit never follows.
    let accepted = try? generation.withSnapshot { $0.commitVersion }
    generation.table.announceWriter(commitVersion: commitVersion)
    let after = try generation.withSnapshot { $0.commitVersion }
    store.close()
    try require(accepted == nil, "a snapshot two commits older than a writer was accepted")
    try require(after == commitVersion, "a reader continues once the commit versions agree")
  }

  // MARK: W5

  /// Of several writes of a key in one transaction only the last is cached.
  static func combiner(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let first = PersistentCache<String, Int>(storage: store)
    let second = PersistentCache<String, Int>(storage: store)
    let inside = CompletionFlag(isDone: false)
    let go = CompletionFlag(isDone: false)
    // A thread is commit leader, so that the next two writes share a transaction.
    let holder = JoinableThread {
      try? store.write { _ in
        inside.finish()
        _ = go.wait(nanoseconds: 300_000_000_000)
      }
    }
    _ = inside.wait(nanoseconds: 300_000_000_000)
    first["k"] = 1
    second["k"] = 2
    go.finish()
    holder.join()
    try await store.sync()
    let seen = first["k"]
    store.close()
    try require(seen == 2, "the first of two writes of one transaction was served: \(seen ?? 0)")
  }

  // MARK: Labels, condemnation

  /// A cached value of an older generation never validates in a newer one.
  static func generations(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, Int>(storage: store)
    // Labels of the first generation well above those the second will have.
    for index in 0..<2000 { try await store.setBytes([1], forKey: index, in: "advance") }
    for key in 0..<200 { cache[key] = 1 }
    try await store.sync()
    for key in 0..<200 { try require(cache[key] == 1, "a value just set") }
    let old = try store.core.generation()
    let oldVersion = try old.withSnapshot { $0.commitVersion }
    old.table.fence()
    let new = try store.core.switchGeneration(from: old)
    // A reader that was suspended across the move holds a label of the old generation: it must be
    // below the new one's floor, whatever else the memory tier does about a move.
    try require(
      new.table.floor > oldVersion,
      "the new generation's floor \(new.table.floor) is not above the old label \(oldVersion)")
    // Another value brings the new generation's table into the tier.
    cache[1_000_000] = 5
    try await store.sync()
    _ = cache[1_000_000]
    _ = cache[1_000_000]
    let peer = try start("write-200", path)
    try peer.expect("done")
    var stale = 0
    for key in 0..<200 where cache[key] != 2 { stale += 1 }
    store.close()
    try require(stale == 0, "\(stale) of 200 values of a condemned generation were served")
  }

  /// No memory hit of a fenced generation validates.
  static func condemned(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, Int>(storage: store)
    for key in 0..<200 { cache[key] = 1 }
    try await store.sync()
    for key in 0..<200 { try require(cache[key] == 1, "a value just set") }
    // The peer condemns, moves, and has new values acknowledged.
    let peer = try start("condemn-write-200", path)
    try peer.expect("done")
    let stale = (0..<200).filter { cache[$0] != 2 }.count
    store.close()
    try require(stale == 0, "\(stale) of 200 values of a condemned generation were served")
  }

  // MARK: Bumps

  /// Slots that a killed writer stamped are served from memory again, within seconds on a machine with nothing else
  /// to do.
  static func bump(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, Int>(storage: store)
    try await cache.setValue(1, forKey: 1)
    let peer = try start("set-1", path, environment: ["LARDER_FAULTS": "beforeCommit:kill@1"])
    _ = try peer.wait()
    let end = Clocks.monotonicNanoseconds() + 60_000_000_000
    var isServed = false
    while Clocks.monotonicNanoseconds() < end, !isServed {
      let before = try store.statistics().storeHits
      for _ in 0..<50 { _ = cache[1] }
      isServed = try store.statistics().storeHits == before
      Event().wait(nanoseconds: 50_000_000)
    }
    let value = cache[1]
    store.close()
    try require(value == 1, "the value that was acknowledged")
    try require(isServed, "the slot of a killed writer misses for ever")
  }

  // MARK: Fills, leases

  /// A computed value does not restore a key that another process removed during the computation.
  static func fill(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, Int>(storage: store)
    _ = try await cache.value(forKey: 1) {
      let peer = try start("remove-1", path)
      try peer.expect("done")
      return 7
    }
    let seen = cache[1]
    // A computation during writes of other keys is stored.
    let kept = try await cache.value(forKey: 2) {
      for index in 100..<2000 { cache[index] = index }
      try store.sync()
      return 9
    }
    let keptInStore = try {
      cache.clearMemoryCache()
      return try cache.value(forKey: 2)
    }()
    store.close()
    try require(seen == nil, "a removed key was resurrected with \(seen ?? 0)")
    try require(kept == 9 && keptInStore == 9, "a result was lost during writes of other keys")
  }

  /// A lease dies with its holder, even if the holder has forked.
  static func lease(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, Int>(storage: store)
    let holder = try start("compute-forked", path)
    let child = try holder.nextLine()
    holder.kill()
    _ = try holder.wait()
    let done = CompletionFlag(isDone: false)
    let task = Task {
      let value = try await cache.value(forKey: 1) { 42 }
      done.finish()
      return value
    }
    let isTaken = done.wait(nanoseconds: 60_000_000_000)
    if let pid = Int32(child) { endProcess(pid) }
    let value = try await task.value
    store.close()
    try require(isTaken, "a lease outlived its holder in a forked child")
    try require(value == 42, "the computed value")
  }

  // MARK: Budget

  /// The sum of all entries is never a byte above the budget.
  static func budget(_ path: String) async throws {
    let store = try SharedStore(at: path, .init(budget: .bytes(10_000)))
    // 64 bytes, a key of 8, a value of 28: a hundred a piece; then one byte too many.
    for key in 0..<100 { try await store.setBytes([UInt8](repeating: 1, count: 28), forKey: key) }
    let full = try store.statistics()
    try await store.setBytes([UInt8](repeating: 1, count: 29), forKey: 5)
    let over = try store.statistics()
    let findings = try store.verify()
    store.close()
    try require(full.bytes == 10_000 && full.entries == 100, "\(full.bytes) bytes fit exactly")
    try require(over.bytes <= 10_000, "\(over.bytes) of 10000 bytes are stored")
    try require(findings.isEmpty, "\(findings)")
  }
}
#endif
