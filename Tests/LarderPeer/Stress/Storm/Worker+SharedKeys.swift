// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting

// Operations of several processes on the same keys.

/// The result of a computation: the version of its source.
struct Computed: Codable, Sendable, OracleValue {
  let key: Int
  let version: UInt64
  var sequence: UInt64 { version }
  func isOwn(_ key: Int) -> Bool { self.key == key }
}

extension Worker {
  // MARK: Single flight

  /// Computes under single flight, and refreshes. A source has a version; a process that changes it
  /// removes the computed value, and every later read returns a newer one, also where an expired value
  /// could be served.
  func computeSingleFlight() -> [Operation] {
    let cache = PersistentCache<Int, Computed>(storage: store, namespace: "flights")
    return [
      Operation(1) {
        let write = self.board.issue(OracleRegion.flights.keys.randomElement()!, of: .flights)
        _ = try await cache.removeValue(forKey: write.key)
        self.board.acknowledge(write, of: .flights)
      },
      Operation(3) {
        let key = OracleRegion.flights.keys.randomElement()!
        let before = self.expectation(.flights, key)
        let value =
          if key % 2 == 0 {
            try await cache.value(forKey: key) { self.compute(key) }
          } else {
            try await cache.value(
              forKey: key, expires: .after(.milliseconds(Int64.random(in: 1...50))),
              refresh: Refresh(staleFor: .seconds(60), staleIfError: .seconds(60), early: 1)
            ) { self.compute(key) }
          }
        self.judge(value, key, of: .flights, before)
      },
    ]
  }

  private func compute(_ key: Int) -> Computed {
    let pid = UInt64(ProcessIdentity.pid)
    let earlier = board.hold(.flights, key, pid)
    if earlier != 0, earlier != pid { judgeComputation(key, by: earlier) }
    let version = board[.flights, key, .issued]
    let end = Clocks.monotonicNanoseconds() + UInt64.random(in: 0...3_000_000)
    while Clocks.monotonicNanoseconds() < end {}
    board.release(.flights, key, pid)
    return Computed(key: key, version: version)
  }

  /// Another process is recorded as computing the same key: a violation unless it was killed.
  private func judgeComputation(_ key: Int, by other: UInt64) {
    for _ in 0..<200 {
      guard let text = try? TestFiles.contents(of: "/proc/\(other)/stat") else { return }
      // "pid (name) state …"
      let state = String(decoding: text, as: UTF8.self).split(separator: ")").last?.first {
        $0 != " "
      }
      guard let state, state != "Z", state != "X" else { return }
      // The kernel releases the locks of a dying process before it removes the process.
      rest(milliseconds: 1)
    }
    violation("flight \(key) is computed by process \(other) as well")
  }

  // MARK: Transactions

  /// Increments counters in transactions, and writes pairs that must always be equal.
  func count() -> [Operation] {
    let pid = UInt64(ProcessIdentity.pid)
    var operations: UInt64 = 0
    return [
      Operation(1) {
        operations += 1
        try self.count(OracleRegion.tallies.keys.randomElement()!, pid << 32 | operations)
      }
    ]
  }

  private func count(_ key: Int, _ operation: UInt64) throws {
    // Few hash bits would put every key into one record.
    let notes = plan.hashBits >= 16
    try increment(key, of: .tallies) {
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
        return (count: count, left: left, right: right, isRepeated: isRepeated)
      }
      if seen.left != seen.right { violation("half a transaction: \(seen.left), \(seen.right)") }
      if seen.isRepeated { violation("operation \(operation) was applied twice") }
      return seen.count + 1
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

  /// Reads and changes keys that other processes change too. The parent checks the histories.
  func register() throws -> [Operation] {
    let cache = PersistentCache<String, UInt64>(
      storage: store, namespace: "registers", options: plan.cacheOptions(slot))
    let log = try HistoryLog(directory: directory + "/histories", capacity: 1 << 14)
    let pid = UInt64(ProcessIdentity.pid)
    var count: UInt64 = 0
    var random = SystemRandomNumberGenerator()
    return [
      Operation(1) {
        // Memory hits would fill the log too fast: some reads go to the store.
        if Int.random(in: 0..<8) == 0 { cache.clearMemoryCache() }
        let key = Int.random(in: 0..<Worker.registerCount)
        count += 1
        let isLogged = try RegisterChange.run(
          UInt64(key), "register \(key)", writing: pid << 40 | count << 16, in: cache, log,
          using: &random)
        if !isLogged { self.rest(milliseconds: 10) }
      }
    ]
  }
}
#endif
