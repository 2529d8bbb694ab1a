// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBRival
import Larder

/// What a cache lives through besides hits: misses, batches, writes behind, eviction, expiry, opening,
/// stampedes, observers. Nobody beside it; a rival that does the same is named where there is one.
struct LifeWorkloads {
  let directory: String
  let results: Results
  private var isQuick: Bool { results.isQuick }
  private let value = [UInt8](repeating: 7, count: 256)
  private var calls: Int { isQuick ? 2000 : 20_000 }

  init(directory: String, results: Results) {
    self.directory = directory
    self.results = results
  }

  private func store(_ name: String, megabytes: Int = 256) throws -> SharedStore {
    try SharedStore(at: directory + "/" + name, .init(budget: .megabytes(megabytes)))
  }

  private func sample(_ name: String, _ count: Int, _ body: (Int) throws -> Void) throws {
    var times: [UInt32] = []
    for index in 0..<count {
      let start = bench_now()
      try body(index)
      times.append(UInt32(clamping: bench_now() - start))
    }
    results.add("Larder", name, size: 256, times, label: name)
  }

  /// What the row says stands first: these have no rival's name.
  func run() throws {
    results.note("\nThe life of a cache, 256 B a value\n" + Results.heading)
    let store = try store("life")
    defer { store.close() }
    let namespace = try store.namespace("values")
    let (value, calls) = (value, calls)
    try store.write { transaction in
      for key in 0..<10_000 { try transaction.setBytes(value, forKey: key, in: "values") }
    }
    try sample("get miss", calls) {
      guard try namespace.bytes(forKey: -1 - $0) == nil else { return }
    }
    try sample("set batch of 1,000", isQuick ? 10 : 100) { round in
      try store.write { transaction in
        for key in 0..<1000 {
          try transaction.setBytes(value, forKey: key * 10 + round % 10, in: "values")
        }
      }
    }
    let cache = PersistentCache<Int, [UInt8]>(storage: store, namespace: "behind")
    try sample("write-behind", calls) { cache[$0 % 10_000] = value }
    try cache.sync()
    try evictionAndExpiry()
    try opening()
    try stampede(store)
    try observers(store)
  }

  private func evictionAndExpiry() throws {
    let full = try store("full", megabytes: 4)
    let namespace = try full.namespace("values")
    let value = value
    try full.write { transaction in
      for key in 0..<13_000 { try transaction.setBytes(value, forKey: key, in: "values") }
    }
    try sample("set, full, evicting", calls) {
      try namespace.setBytes(value, forKey: 1_000_000 + $0)
    }
    guard try full.statistics().evictions > 0 else { throw BenchFailure("Nothing was evicted.") }
    full.close()
    let churn = try store("churn", megabytes: 4)
    let short = try churn.namespace("values")
    try sample("set, all expire in 20 ms", calls) {
      try short.setBytes(value, forKey: $0, expires: .after(.milliseconds(20)))
    }
    try sample("removeExpired, at the end", 1) { _ in _ = try churn.removeExpired() }
    churn.close()
  }

  private func opening() throws {
    let path = directory + "/life"
    // By a process of its own, which has not got the store open; its own start is not counted.
    var times: [UInt32] = []
    for _ in 0..<(isQuick ? 5 : 15) {
      let child = try Child(["--child-open", path])
      times.append(UInt32(clamping: try child.numbers()[0]))
      try child.finish()
    }
    results.add("Larder", "open, one get, close", size: 256, times, label: "open, one get, close")
  }

  /// In the other process.
  static func open(_ path: String) throws {
    let start = bench_now()
    let store = try SharedStore(at: path)
    guard try store.namespace("values").bytes(forKey: 1) != nil else {
      throw BenchFailure("The opened store lacks a value.")
    }
    store.close()
    Child.say("\(bench_now() - start)")
  }

  // MARK: Together with others

  /// Eight processes want the same missing value at once; it takes 20 ms to compute.
  private func stampede(_ store: SharedStore) throws {
    let children = try (0..<8).map { _ in try Child(["--child-together", store.path]) }
    var times: [UInt32] = []
    var computed: [Double] = []
    for round in 0..<(isQuick ? 5 : 25) {
      for child in children { try child.send("compute \(round)") }
      var count = 0
      for child in children {
        let answer = try child.numbers()
        times.append(UInt32(clamping: answer[0]))
        count += Int(answer[1])
      }
      computed.append(Double(count))
    }
    for child in children { try child.finish() }
    results.add("Larder", "stampede of 8, 20 ms", size: 256, times, label: "stampede of 8, 20 ms")
    let all = computed.reduce(0, +)
    results.note(
      "stampede: \(Int(all)) computations for \(computed.count) keys wanted by 8 processes")
    guard Int(all) == computed.count else { throw BenchFailure("Something was computed twice.") }
  }

  /// From the beginning of a committed set here to its sight in another process.
  private func observers(_ store: SharedStore) throws {
    let cache = PersistentCache<String, Int>(storage: store, namespace: "watched")
    try cache.setValue(0, forKey: "key")
    let child = try Child(["--child-together", store.path])
    try child.send("observe")
    _ = try child.line()
    var times: [UInt32] = []
    for number in 1...(isQuick ? 50 : 500) {
      let start = bench_now()
      try cache.setValue(number, forKey: "key")
      let seen = try child.numbers()
      guard seen[0] == UInt64(number) else {
        throw BenchFailure("The observer saw something else.")
      }
      times.append(UInt32(clamping: seen[1] - start))
    }
    try cache.setValue(-1, forKey: "key")
    try child.finish()
    results.add("Larder", "seen by an observer", size: 8, times, label: "seen by an observer")
  }

  /// In the other process.
  static func together(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, [UInt8]>(storage: store, namespace: "computed")
    while let line = readLine() {
      let words = line.split(separator: " ")
      if words[0] == "observe" {
        let watched = PersistentCache<String, Int>(storage: store, namespace: "watched")
        for try await number in watched.values(forKey: "key") {
          guard let number, number >= 0 else { return }
          Child.say("\(number) \(bench_now())")
        }
      } else {
        let computed = Computed()
        let start = bench_now()
        _ = try await cache.value(forKey: Int(words[1])!) {
          computed.count = 1
          usleep(20_000)
          return [UInt8](repeating: 7, count: 256)
        }
        Child.say("\(bench_now() - start) \(computed.count)")
      }
    }
  }

  /// Written by one task, read after it.
  private final class Computed: @unchecked Sendable { var count = 0 }
}
