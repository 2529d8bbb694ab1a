// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

// What several processes do to the same keys.

/// What a computation makes: which version of its source it saw.
struct Computed: Codable, Sendable {
  let key: Int
  let version: UInt64
}

extension Worker {
  // MARK: Single flight

  /// Computes under single flight. A source has a version; who changes it removes what was
  /// computed, and from then on nobody may get anything older.
  func computeSingleFlight() async throws {
    let cache = PersistentCache<Int, Computed>(storage: store, namespace: "flights")
    let pid = UInt64(ProcessIdentity.pid)
    let board = board
    await loop {
      let key = Int.random(in: 0..<StormOracle.flightCount)
      if Int.random(in: 0..<4) == 0 {
        let version = board.nextVersion(key)
        _ = try await cache.removeValue(forKey: key)
        board.raiseInvalidated(key, to: version)
        return
      }
      let invalidated = board.flight(key, .invalidated)
      let value = try await cache.value(forKey: key) { [self] in
        let earlier = board.enterComputation(key, pid: pid)
        if earlier != 0, earlier != pid { judgeComputation(key, by: earlier) }
        let version = board.flight(key, .version)
        let end = Clocks.monotonicNanoseconds() + UInt64.random(in: 0...3_000_000)
        while Clocks.monotonicNanoseconds() < end {}
        board.leaveComputation(key, pid: pid)
        return Computed(key: key, version: version)
      }
      if value.key != key { violation("flight \(key) gave a value of \(value.key)") }
      if value.version < invalidated {
        violation("flight \(key) gave \(value.version), \(invalidated) was invalidated")
      }
    }
  }

  /// Somebody seems to compute the same key. Unless it was killed meanwhile, that is one too many.
  private func judgeComputation(_ key: Int, by other: UInt64) {
    let path = "/proc/\(other)/stat"
    for _ in 0..<200 {
      guard let text = try? TestFiles.contents(of: path) else { return }
      // "pid (name) state …"
      let state = String(decoding: text, as: UTF8.self).split(separator: ")").last?.first {
        $0 != " "
      }
      guard let state, state != "Z", state != "X" else { return }
      // A process that is dying has given its locks back before it is gone.
      Event().wait(nanoseconds: 1_000_000)
    }
    violation("flight \(key) is computed by process \(other) as well")
  }

  // MARK: Transactions

  /// Counts in transactions, and writes pairs that must never be seen apart.
  func count() {
    let pid = UInt64(ProcessIdentity.pid)
    var operations: UInt64 = 0
    // Few bits put every key into one record.
    let notes = plan.hashBits >= 16
    loop {
      operations += 1
      let operation = pid << 32 | operations
      let key = Int.random(in: 0..<StormOracle.tallyCount)
      let acknowledged = board.tally(key, .acknowledged)
      board.addTally(key, .issued)
      let issued = board.tally(key, .issued)
      let seen = try store.write { transaction in
        let count = Worker.number(try transaction.bytes(forKey: key, in: "counters"))
        let left = Worker.number(try transaction.bytes(forKey: key, in: "left"))
        let right = Worker.number(try transaction.bytes(forKey: key, in: "right"))
        var isRepeated = false
        if notes {
          isRepeated = try transaction.bytes(forKey: operation, in: "operations") != nil
          try transaction.setBytes([], forKey: operation, in: "operations")
        }
        for name in ["counters", "left", "right"] {
          let next = name == "counters" ? count + 1 : max(left, right) + 1
          try transaction.setBytes(Worker.bytes(next), forKey: key, in: name)
        }
        return (count, left, right, isRepeated)
      }
      board.addTally(key, .acknowledged)
      if seen.1 != seen.2 { violation("half a transaction: \(seen.1) and \(seen.2)") }
      if seen.3 { violation("operation \(operation) was applied twice") }
      if seen.0 < acknowledged { violation("counter \(key): \(seen.0) of \(acknowledged)") }
      // Others may have counted since we looked.
      if seen.0 >= board.tally(key, .issued) {
        violation("counter \(key): \(seen.0), \(issued) were issued")
      }
    }
  }

  static func bytes(_ number: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * UInt64($0))) }
  }

  static func number(_ bytes: [UInt8]?) -> UInt64 {
    (bytes ?? []).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  // MARK: Registers

  static let registerCount = 6

  /// Reads and writes what others write too. The parent judges the histories afterwards.
  func register() throws {
    let cache = PersistentCache<String, UInt64>(
      storage: store, namespace: "registers", options: plan.cacheOptions(slot))
    let log = try HistoryLog(directory: directory + "/histories", capacity: 1 << 16)
    let pid = UInt64(ProcessIdentity.pid)
    var count: UInt64 = 0
    loop {
      let key = Int.random(in: 0..<Worker.registerCount)
      // What is memory's alone is too fast for any log: some reads go to the store.
      if Int.random(in: 0..<8) == 0 { cache.clearMemoryCache() }
      if Int.random(in: 0..<4) == 0 {
        count += 1
        let value = pid << 32 | count
        guard let entry = log.begin(.write, key: UInt64(key), value: value) else {
          return rest()
        }
        // An error leaves the entry open: nobody knows whether it was written.
        try cache.setValue(value, forKey: "register \(key)")
        log.end(entry)
      } else {
        guard let entry = log.begin(.read, key: UInt64(key)) else { return rest() }
        do {
          let value = try cache.value(forKey: "register \(key)")
          log.end(entry, value: value ?? Linearizability.initialValue)
        } catch {
          log.discard(entry)
          throw error
        }
      }
    }
  }

  /// A full log: there is nothing to do that could be judged.
  private func rest() { Event().wait(nanoseconds: 10_000_000) }
}
