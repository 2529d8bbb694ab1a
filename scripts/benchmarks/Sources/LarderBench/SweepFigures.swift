// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder
import Synchronization

/// The cost for other writers of the removal of expired entries.
struct SweepFigures {
  let directory: String
  let isQuick: Bool

  private var count: Int { isQuick ? 200_000 : 1_000_000 }

  /// The clock of a store, and the times at which a thread of the store reads it.
  ///
  /// A transaction reads the clock when it has acquired the writer lock. The store's thread runs the
  /// steps of a sweep one after another, so the time between two of its readings is a transaction, and
  /// the wait for the next one.
  private final class Watch: Sendable {
    private struct Readings {
      var offset: Int64 = 0
      var last: UInt64 = 0
      var longest: UInt64 = 0
      var count = 0
    }

    private let readings = Mutex(Readings())
    func now() -> Int64 {
      // The main thread of this process measures.
      let isMeasuring = Thread.isMainThread
      let time = bench_now()
      let wall = Int64(Date().timeIntervalSince1970 * 1000)
      return readings.withLock { readings in
        if !isMeasuring {
          // A pause of the length of a tick is no transaction.
          let passed = time - readings.last
          if readings.last != 0, passed < 900_000_000 {
            readings.longest = max(readings.longest, passed)
            readings.count += 1
          }
          readings.last = time
        }
        return wall + readings.offset
      }
    }

    func set(offset: Int64) { readings.withLock { $0 = Readings(offset: offset) } }
    var longest: UInt64 { readings.withLock { $0.longest } }
    var steps: Int { readings.withLock { $0.count } }
  }

  /// What one sweep took, in nanoseconds.
  private struct Sweep {
    var transaction = 0.0
    var steps = 0
    var seconds = 0.0
    var writes: [UInt64] = []

    /// The median, the 99.9th percentile and the longest wait of the other writer, in milliseconds.
    var waits: String {
      writes.dropFirst().prefix(3).map { SweepFigures.milliseconds(Double($0)) }.joined(
        separator: ", ")
    }
    var longestWait: Double { writes.isEmpty ? 0 : Double(writes[3]) }
    /// The longest write of the same process to a store without a sweep.
    var longestAlone: Double { Double(writes.last ?? 0) }
  }

  private static let hour: Int64 = 3_600_000

  /// Sweeps a store full of expired entries.
  ///
  /// - Parameter hasWriter: Whether another process writes to the store.
  private func sweep(_ durability: Durability, hasWriter: Bool) throws -> Sweep {
    let path = directory + "/sweep"
    defer { Files.remove(path) }
    let watch = Watch()
    watch.set(offset: -Self.hour)
    let clock = StoreClock(millisecondsSince1970: { watch.now() })
    let store = try SharedStore(
      at: path, .init(durability: durability, budget: .gigabytes(2), clock: clock))
    defer { store.close() }
    try fill(store, expires: .at(millisecondsSince1970: watch.now() + Self.hour / 2))
    // It has the clock of the system, so it removes expired entries as well.
    let child = hasWriter ? try Child(["--child-wait", path, durability.rawValue]) : nil
    _ = try child?.line()
    watch.set(offset: 0)
    try child?.send("begin")
    let seconds = try waitForSweep(of: store)
    var sweep = Sweep()
    sweep.transaction = Double(watch.longest)
    (sweep.steps, sweep.seconds) = (watch.steps, seconds)
    if let child {
      try store.setBytes([1], forKey: "end", in: "control")
      sweep.writes = try child.numbers()
      try child.finish()
    }
    let after = try store.statistics()
    let left = after.namespaces.first { $0.name == "expired" }?.entries ?? 0
    guard left == 0, after.expirations == count else {
      throw BenchFailure(
        "Of \(count) expired entries \(after.expirations) were removed, and "
          + "\(left) are stored.")
    }
    return sweep
  }

  private func fill(_ store: SharedStore, expires: Expiration) throws {
    let value = [UInt8](repeating: 7, count: 100)
    for start in stride(from: 0, to: count, by: 5000) {
      try store.write { transaction in
        for key in start..<start + 5000 {
          try transaction.setBytes(value, forKey: key, in: "expired", expires: expires)
        }
      }
    }
    guard try store.statistics().entries == count else {
      throw BenchFailure("The entries have expired before the sweep.")
    }
  }

  /// - Returns: The seconds until the store has no expired entries.
  private func waitForSweep(of store: SharedStore) throws -> Double {
    let start = bench_now()
    while try store.statistics().expiredEntries > 0 {
      guard bench_now() - start < 300_000_000_000 else {
        throw BenchFailure("The sweep did not end within 300 seconds.")
      }
      usleep(250_000)
    }
    return Double(bench_now() - start) / 1e9
  }

  /// Writes until the store has the key "end". Prints the number of the writes, the median, the 99.9th
  /// percentile and the longest of their times, and the longest time of writes to a store that no
  /// other process uses, which shows the pauses of the machine.
  static func child(_ path: String, _ durability: String) throws {
    let options = StoreOptions(durability: Durability(rawValue: durability) ?? .cache)
    let alone = try SharedStore(at: path + "-alone", options)
    let start = bench_now()
    let control = try times(of: alone) { bench_now() - start > 3_000_000_000 }
    alone.close()
    Files.remove(path + "-alone")
    let store = try SharedStore(at: path, options)
    let namespace = try store.namespace("control")
    Child.say("ready")
    guard readLine() == "begin" else { throw BenchFailure("The parent ended.") }
    let found = try times(of: store) { try namespace.bytes(forKey: "end") != nil }
    store.close()
    let (median, rare) = (found[found.count / 2], found[found.count * 999 / 1000])
    Child.say("\(found.count) \(median) \(rare) \(found.last!) \(control.last!)")
  }

  /// Returns the sorted times of writes with pauses.
  private static func times(of store: SharedStore, until isDone: () throws -> Bool) throws
    -> [UInt64]
  {
    let namespace = try store.namespace("values")
    let value = [UInt8](repeating: 7, count: 100)
    var times: [UInt64] = []
    repeat {
      let start = bench_now()
      try namespace.setBytes(value, forKey: times.count % 1000)
      times.append(bench_now() - start)
      usleep(200)
    } while try !isDone()
    return times.sorted()
  }

  private static func milliseconds(_ nanoseconds: Double) -> String {
    String(format: "%.2f", nanoseconds / 1e6)
  }

  /// The longest transaction of a sweep, and the longest wait that it causes, in milliseconds.
  func longest() throws -> Figure {
    let alone = try sweep(.cache, hasWriter: false)
    let shared = try sweep(.cache, hasWriter: true)
    let durable = try sweep(.durable, hasWriter: true)
    let value = max(alone.transaction, shared.longestWait) / 1e6
    return Figure(
      id: "eviction.sweep_longest", value: value, unit: "ms", bar: .atMost(20),
      own: alone.transaction / 1e6,
      rival:
        "Larder: the longest write of a process to a store without a sweep; \(count) entries are "
        + "swept in \(alone.steps) transactions and " + String(format: "%.1f", alone.seconds)
        + " s; median, p99.9 and longest of \(shared.writes.first ?? 0) writes of another process: "
        + "\(shared.waits) ms; in a durable store \(durable.waits) ms, without a sweep "
        + Self.milliseconds(durable.longestAlone) + " ms",
      rivalValue: shared.longestAlone / 1e6, rivalUnit: "ms")
  }
}
