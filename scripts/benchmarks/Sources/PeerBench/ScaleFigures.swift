// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBRival
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

  func run() throws {
    let counts = isQuick ? [10_000, 30_000, 100_000] : [10_000, 100_000, 1_000_000, 10_000_000]
    try curve("entries of 100 B", counts.map { ($0, 100, Double($0)) }, x: "entries")
    let megabytes = isQuick ? [1, 16, 128] : [1, 16, 256, 2048, 8192]
    try curve(
      "entries of 16 kB", megabytes.map { ($0 << 6, 16 << 10, Double($0)) }, x: "megabytes")
  }

  private func curve(_ title: String, _ steps: [(Int, Int, Double)], x: String) throws {
    results.note(
      "\nGrowth, \(title)\n" + Results.pad(x, 14)
        + Measure.allCases.map { Results.right($0.rawValue, 26) }.joined())
    var curves: [Measure: [(Double, Double)]] = [:]
    for (count, size, position) in steps {
      let measured = try measure(count: count, size: size)
      let cells = Measure.allCases.map { measure in
        Results.right(measured[measure].map { String(format: "%.2f", $0) } ?? "-", 26)
      }
      Child.say(Results.pad("\(Int(position))", 14) + cells.joined())
      for measure in Measure.allCases {
        guard let value = measured[measure] else { continue }
        curves[measure, default: []].append((position, value))
        results.point(
          "\(measure.rawValue) by \(x)", title, x: position, value, unit: measure.rawValue)
      }
    }
    for measure in Measure.allCases {
      guard let points = curves[measure], points.count > 1 else { continue }
      let power = Self.exponent(points)
      results.note("  \(measure.rawValue): grows as \(x)^" + String(format: "%.2f", power))
      results.fit(measure.rawValue, by: x, exponent: power)
    }
  }

  /// The slope of the line that fits best where both axes are logarithms.
  private static func exponent(_ points: [(Double, Double)]) -> Double {
    let logs = points.map { (log($0.0), log(max($0.1, 1e-9))) }
    let count = Double(logs.count)
    let means = (logs.map(\.0).reduce(0, +) / count, logs.map(\.1).reduce(0, +) / count)
    let above = logs.reduce(0) { $0 + ($1.0 - means.0) * ($1.1 - means.1) }
    let below = logs.reduce(0) { $0 + ($1.0 - means.0) * ($1.0 - means.0) }
    return below == 0 ? 0 : above / below
  }

  /// A store that is full to the brim: the next new entry evicts one.
  private func measure(count: Int, size: Int) throws -> [Measure: Double] {
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
    for start in stride(from: 0, to: count, by: batch) {
      try store.write { transaction in
        for key in start..<min(start + batch, count) {
          try transaction.setBytes(value, forKey: first + key, in: "values")
        }
      }
    }
    guard try store.statistics().entries == count else {
      throw BenchFailure("The store does not hold what was stored.")
    }
    store.close()
    var opens: [Double] = []
    for _ in 0..<5 {
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
    let calls = isQuick ? 2000 : 20_000
    func sample(_ calls: Int, _ body: (Int) throws -> Void) throws -> Double {
      var times: [UInt32] = []
      for _ in 0..<calls {
        let key = Int.random(in: 0..<count, using: &numbers)
        let start = bench_now()
        try body(key)
        times.append(UInt32(clamping: bench_now() - start))
      }
      return Latencies(times).median / 1000
    }
    var result: [Measure: Double] = [.open: Rounds.median(opens)]
    result[.get] = try sample(calls) { key in
      guard try namespace.bytes(forKey: first + key)?.count == size else {
        throw BenchFailure("A key is missing.")
      }
    }
    if size <= 256 {
      result[.memory] = try memory(store, first: first, count: min(count, 1_000_000))
    }
    result[.set] = try sample(calls / 4) { try namespace.setBytes(value, forKey: first + $0) }
    var next = first + count
    let before = try store.statistics().evictions
    result[.evict] = try sample(calls / 4) { _ in
      try namespace.setBytes(value, forKey: next)
      next += 1
    }
    let statistics = try store.statistics()
    guard statistics.evictions > before else { throw BenchFailure("Nothing was evicted.") }
    result[.file] = Double(statistics.fileBytes) / Double(count * size)
    return result
  }

  /// What this process's own memory grows by when all values are in it.
  private func memory(_ store: SharedStore, first: Int, count: Int) throws -> Double {
    let cache = PersistentCache<Int, [UInt8]>(
      storage: store, namespace: "values",
      options: .init(memoryCost: .gigabytes(4), memoryCount: count * 2))
    let before = Self.ownMemory
    for key in 0..<count {
      guard try cache.value(forKey: first + key) != nil else {
        throw BenchFailure("A key is missing.")
      }
    }
    let grown = Self.ownMemory - before
    keep(cache)
    return Double(grown) / Double(count)
  }

  private static var ownMemory: Int {
    let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    for line in text.split(separator: "\n") where line.hasPrefix("RssAnon:") {
      return (Int(line.split(whereSeparator: { $0 == " " || $0 == "\t" })[1]) ?? 0) << 10
    }
    return 0
  }
}
