// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import BaselineClients
import Foundation
import LMDBBaseline
import Larder

/// How cost grows: with the number of entries, of 100 bytes each, and with the bytes stored, in
/// entries of 16 kB.
struct ScaleFigures {
  let directory: String
  let results: Results
  private var isQuick: Bool { results.isQuick }

  /// What is looked at, with its unit.
  private enum Measure: String, CaseIterable {
    case get = "get, us"
    case set = "committed set, us"
    case evict = "set that evicts, us"
    case open = "open, ms"
    case memory = "memory tier, B an entry"
    case file = "file, B a payload byte"
  }

  /// The median, and the p99 where there are so many calls.
  private typealias Value = (median: Double, p99: Double?)

  func run() throws {
    let counts =
      isQuick
      ? [10_000, 30_000, 100_000, 300_000, 1_000_000]
      : [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]
    try curve("entries of 100 B", counts.map { ($0, 100, Double($0)) }, x: "entries")
    let megabytes = isQuick ? [1, 8, 64, 256, 1024] : [1, 4, 16, 64, 256, 1024, 4096, 8192]
    try curve(
      "entries of 16 kB", megabytes.map { ($0 << 6, 16 << 10, Double($0)) }, x: "megabytes")
  }

  private func curve(_ title: String, _ steps: [(Int, Int, Double)], x: String) throws {
    results.note(
      "\nGrowth, \(title): the median, and the p99 of calls\n" + Results.pad(x, 12)
        + Measure.allCases.map { Results.right($0.rawValue, 25) }.joined()
        + Results.right("seconds to load", 17))
    var curves: [Measure: [(x: Double, y: Double)]] = [:]
    for (count, size, position) in steps {
      let (measured, loading) = try measure(count: count, size: size)
      let cells = Measure.allCases.map { measure in
        Results.right(
          measured[measure].map { value in
            String(format: "%.2f", value.median)
              + (value.p99.map { String(format: " (%.1f)", $0) } ?? "")
          } ?? "-", 25)
      }
      Child.say(
        Results.pad("\(Int(position))", 12) + cells.joined()
          + Results.right(String(format: "%.1f", loading), 17))
      for measure in Measure.allCases {
        guard let value = measured[measure] else { continue }
        let chart = "\(measure.rawValue) by \(x)"
        curves[measure, default: []].append((position, value.median))
        results.point(
          chart, value.p99 == nil ? title : "median", x: position, value.median,
          unit: measure.rawValue)
        if let p99 = value.p99 {
          results.point(chart, "p99", x: position, p99, unit: measure.rawValue)
        }
      }
      try results.save()
    }
    for measure in Measure.allCases {
      guard let points = curves[measure], let fit = Fit(points) else { continue }
      results.note(
        "  \(measure.rawValue): grows as \(x)^" + String(format: "%.2f", fit.exponent)
          + String(format: ", or by %.2f for ten times as many", fit.perDecade)
          + (fit.isPower ? "; the power fits better" : "; the latter fits better"))
      results.fit(measure.rawValue, by: x, fit)
    }
  }

  /// A store that is full to the brim: the next new entry evicts one.
  private func measure(count: Int, size: Int) throws -> ([Measure: Value], loading: Double) {
    let path = directory + "/scale"
    defer { Files.remove(path) }
    var numbers = Numbers(seed: 5)
    let value = (0..<size).map { _ in UInt8(truncatingIfNeeded: numbers.next()) }
    let first = 1 << 40
    let probe = try SharedStore(at: path + "-probe")
    try probe.namespace("values").setBytes(value, forKey: first)
    let budget = ByteCount(bytes: try probe.statistics().bytes * count)
    probe.close()
    Files.remove(path + "-probe")
    var store = try SharedStore(at: path, .init(budget: budget))
    let batch = max(min(1000, (4 << 20) / size), 1)
    let loading =
      try Rounds.nanoseconds {
        for start in stride(from: 0, to: count, by: batch) {
          try store.write { transaction in
            for key in start..<min(start + batch, count) {
              try transaction.setBytes(value, forKey: first + key, in: "values")
            }
          }
        }
      } / 1e9
    guard try store.statistics().entries == count else {
      throw BenchFailure("The store does not hold what was stored.")
    }
    store.close()
    var opens: [Double] = []
    for _ in 0..<(isQuick ? 5 : 15) {
      let start = bench_now()
      store = try SharedStore(at: path)
      guard try store.namespace("values").bytes(forKey: first) != nil else {
        throw BenchFailure("The opened store lacks a value.")
      }
      opens.append(Double(bench_now() - start) / 1e6)
      store.close()
    }
    store = try SharedStore(at: path)
    defer { store.close() }
    let namespace = try store.namespace("values")
    let calls = isQuick ? 4000 : 40_000
    func sample(_ calls: Int, _ body: (Int) throws -> Void) throws -> Value {
      var times: [UInt32] = []
      for _ in 0..<calls {
        let key = Int.random(in: 0..<count, using: &numbers)
        let start = bench_now()
        try body(key)
        times.append(UInt32(clamping: bench_now() - start))
      }
      let latencies = Latencies(times)
      return (latencies.median / 1000, latencies.p99 / 1000)
    }
    var result: [Measure: Value] = [.open: (Rounds.median(opens), nil)]
    result[.get] = try sample(calls) { key in
      guard try namespace.bytes(forKey: first + key)?.count == size else {
        throw BenchFailure("A key is missing.")
      }
    }
    // No more than 4 GB of this process's memory; the file needs the rest.
    result[.memory] = try memory(
      store, first: first, count: min(count, (4 << 30) / (size + 256)))
    result[.set] = try sample(calls / 4) { try namespace.setBytes(value, forKey: first + $0) }
    var next = first + count
    let before = try store.statistics().evictions
    result[.evict] = try sample(calls / 4) { _ in
      try namespace.setBytes(value, forKey: next)
      next += 1
    }
    let statistics = try store.statistics()
    guard statistics.evictions > before else { throw BenchFailure("Nothing was evicted.") }
    result[.file] = (Double(statistics.fileBytes) / Double(count * size), nil)
    return (result, loading)
  }

  /// What this process's allocator has given out more when all values are in its memory; nothing
  /// where it does not tell.
  private func memory(_ store: SharedStore, first: Int, count: Int) throws -> Value? {
    guard peer_heap() > 0 else { return nil }
    let before = peer_heap()
    let cache = PersistentCache<Int, [UInt8]>(
      storage: store, namespace: "values",
      options: .init(memoryCostLimit: .gigabytes(8), memoryCountLimit: count * 2))
    for key in 0..<count {
      guard try cache.value(forKey: first + key) != nil else {
        throw BenchFailure("A key is missing.")
      }
    }
    let grown = Int(peer_heap()) - Int(before)
    keep(cache)
    return (Double(grown) / Double(count), nil)
  }
}
