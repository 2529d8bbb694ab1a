// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

// When a round is over, and everybody has ended or was killed, a process of its own opens the store
// and looks at all of it: nothing acknowledged is lost, nothing that was not issued is there, no
// lock and no lease has outlived its holder, the file and the books are sound.

/// The last look at a round's store.
///
///     larder-stress audit ROUND-SEED-AND-NUMBER PROCESSES DIRECTORY
enum Audit {
  static func run(_ plan: RoundPlan, directory: String) async throws {
    let board = try StormOracle(path: directory + "/board")
    func violation(_ text: String) { Worker.violation("audit: \(text)", board) }
    func recordingTimings<R>(_ what: String, _ body: () async throws -> R) async throws -> R {
      let begin = Clocks.monotonicNanoseconds()
      let result = try await body()
      let milliseconds = (Clocks.monotonicNanoseconds() - begin) / 1_000_000
      if milliseconds > 10_000 { violation("\(what) took \(milliseconds) ms") }
      return result
    }
    var options = plan.options(0, board)
    options.writeTimeout = .seconds(20)
    let store = try await recordingTimings("opening") {
      try SharedStore(at: directory + "/store", options)
    }
    let statistics = try store.statistics()
    if statistics.processes != [ProcessIdentity.pid] {
      violation("processes \(statistics.processes) are said to use the store")
    }
    if let reader = statistics.oldestReader { violation("a dead reader \(reader) holds pages") }
    if statistics.bytes > plan.budget {
      violation("\(statistics.bytes) of \(plan.budget) bytes are stored")
    }

    let worker = try Worker(role: .opener, slot: 0, plan: plan, directory: directory)
    for key in 0..<LedgerKeys.expiring.upperBound {
      let before = worker.now
      let deadline = board.ledger(key, .deadline)
      let value = worker.cache(of: key)[key]
      worker.judge(
        value, key, acknowledged: board.ledger(key, .acknowledged), before: before,
        deadline: deadline)
      if let value {
        if !value.isWhole(key) { violation("key \(key) is torn") }
        if value.sequence > board.ledger(key, .issued) { violation("key \(key) was never issued") }
      }
    }
    if !plan.mayVanish { try count(store, board, violation) }

    // No lock, no lease is left.
    for key in 0..<LedgerKeys.expiring.upperBound {
      try await recordingTimings("writing key \(key)") {
        let value = StressValue(key: key, sequence: board.issue(key), size: 10)
        try await worker.cache(of: key).setValue(value, forKey: key)
      }
    }
    let flights = PersistentCache<Int, Computed>(storage: store, namespace: "flights")
    for key in 0..<StormOracle.flightCount {
      try await recordingTimings("computing key \(key)") {
        let invalidated = board.flight(key, .invalidated)
        let value = try await flights.value(forKey: key) { Computed(key: key, version: .max) }
        if value.version < invalidated { violation("flight \(key) was resurrected") }
      }
    }
    switch plan.theme {
    case .cache: break
    case .objects:
      try Audit.objects(worker, violation) { what, body in
        let begin = Clocks.monotonicNanoseconds()
        try body()
        let milliseconds = (Clocks.monotonicNanoseconds() - begin) / 1_000_000
        if milliseconds > 10_000 { violation("\(what) took \(milliseconds) ms") }
      }
    case .collections: try Audit.collections(worker, violation)
    case .facades: try Audit.facades(worker, violation)
    }
    for finding in try store.verify() { violation("verify: \(finding)") }
    ParentProcess.send("hits \(statistics.memoryHits)")
    worker.store.close()
    store.close()
  }

  private static func count(
    _ store: SharedStore, _ board: StormOracle, _ violation: (String) -> Void
  ) throws {
    var sum: UInt64 = 0
    for key in 0..<StormOracle.tallyCount {
      func number(_ name: String) throws -> UInt64 {
        Worker.number(try store.bytes(forKey: key, in: name))
      }
      let count = try number("counters")
      sum += count
      let range = board.tally(key, .acknowledged)...board.tally(key, .issued)
      if !range.contains(count) { violation("counter \(key) is \(count), not in \(range)") }
      if try number("left") != number("right") { violation("half a transaction of key \(key)") }
    }
    let operations = try store.statistics().namespaces.first { $0.name == "operations" }
    if let operations, operations.entries != Int(clamping: sum) {
      violation("\(operations.entries) operations have counted to \(sum)")
    }
  }
}
