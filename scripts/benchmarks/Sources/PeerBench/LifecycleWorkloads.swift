// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder

/// What a cache lives through besides hits: misses, batches, writes behind, eviction, expiry, opening,
/// stampedes, observers; in turns with whoever can do the same.
struct LifecycleWorkloads {
  let directory: String
  let results: Results
  var isQuick: Bool { results.isQuick }
  private let value = [UInt8](repeating: 7, count: 256)
  private var calls: Int { isQuick ? 1000 : 5000 }

  init(directory: String, results: Results) {
    self.directory = directory
    self.results = results
  }

  private func store(_ name: String, megabytes: Int = 256) throws -> SharedStore {
    try SharedStore(at: directory + "/" + name, .init(budget: .megabytes(megabytes)))
  }

  private typealias Racer = (name: String, call: (Int) throws -> Void)

  /// Everybody makes the same calls in turns; each call is given its number.
  private func race(_ workload: String, calls: Int, _ racers: [Racer?]) throws {
    let racers = racers.compactMap { $0 }
    try takeTurns(workload, racers.map(\.name)) { round, index, times in
      times.reserveCapacity(calls)
      for number in round * calls..<(round + 1) * calls {
        let start = bench_now()
        try racers[index].call(number)
        times.append(UInt32(clamping: bench_now() - start))
      }
    }
  }

  /// Rounds of calls of one after the other, who times them; the first round is thrown away.
  private func takeTurns(
    _ workload: String, _ names: [String],
    _ body: (_ round: Int, _ index: Int, _ times: inout [UInt32]) throws -> Void
  ) throws {
    var samples = names.map { _ in [UInt32]() }
    var means = names.map { _ in [Double]() }
    var medians = names.map { _ in [Double]() }
    for round in 0...(isQuick ? 3 : 9) {
      for index in names.indices {
        var times: [UInt32] = []
        try body(round, index, &times)
        if round == 0 { continue }
        samples[index] += times
        means[index].append(times.reduce(0.0) { $0 + Double($1) } / Double(times.count))
        medians[index].append(Rounds.median(times.map(Double.init)))
      }
    }
    results.add(
      names.indices.map {
        ComparisonRun.Row(
          name: names[$0], latencies: Latencies(samples[$0]), rounds: means[$0],
          medians: medians[$0])
      }, workload, size: 256)
  }

  /// Latencies of Larder where nobody does the same.
  func sample(_ name: String, _ count: Int, _ body: (Int) throws -> Void) throws {
    var times: [UInt32] = []
    for index in 0..<count {
      let start = bench_now()
      try body(index)
      times.append(UInt32(clamping: bench_now() - start))
    }
    Child.say("\n\(name)\n" + Results.heading)
    results.add("Larder", name, size: 256, times)
  }

  var redisSocket: String? {
    ProcessInfo.processInfo.environment["LARDER_BENCH_REDIS"]
  }

  func run() throws {
    let path = directory + "/life"
    try Files.make(path)
    try Files.make(path + "/rivals")
    let data = Dataset(count: 1000)
    let own = try StoreContender(in: path, data)
    let redis = redisSocket.map { CContender.redis($0, data) }
    let memcached = ProcessInfo.processInfo.environment["LARDER_BENCH_MEMCACHED"]
      .map { CContender.memcached($0, data) }
    let grdb = try GRDBContender(in: path, data, synchronous: "OFF")
    let sqlite = CContender.sqlite(in: path, data, synchronous: 0)
    let files = try CContender.files(in: path, data, isSynced: false)
    let throughMap = try own.store.statistics().usesWriteMap
    let lmdb = try CContender.lmdb(in: path, data, isSynced: false, throughMap: throughMap)
    let namespace = try own.store.namespace("values")
    // Keys that nobody has.
    let absent = (0..<100_000).map { Dataset.key(500_000 + $0) }
    func miss(_ rival: CContender?) -> Racer? {
      rival.map { rival in
        (
          rival.name,
          {
            if rival.has(500_000 + $0) { throw BenchFailure("\(rival.name) has what it has not.") }
          }
        )
      }
    }
    try race(
      "get miss, 256 B", calls: calls,
      [
        (
          own.name,
          {
            guard try namespace.bytes(forKey: absent[$0]) == nil else {
              throw BenchFailure("Larder has what it has not.")
            }
          }
        ), miss(redis), miss(memcached),
        (
          grdb.name,
          {
            if try grdb.has(absent[$0]) { throw BenchFailure("GRDB has what it has not.") }
          }
        ), miss(sqlite), miss(files), miss(lmdb),
      ])
    let (keys, bytes) = (data.keys, data.values)
    let values = bytes.map { Data($0) }
    func batch(_ rival: CContender?) -> Racer? {
      rival.map { rival in (rival.name, { _ in rival.setAll(data) }) }
    }
    try race(
      "set of 1,000 in a batch, 256 B", calls: isQuick ? 5 : 20,
      [
        (
          own.name,
          { _ in
            try own.store.write { transaction in
              for (key, value) in zip(keys, bytes) {
                try transaction.setBytes(value, forKey: key, in: "values")
              }
            }
          }
        ), batch(redis), batch(memcached),
        (grdb.name, { _ in try grdb.setAll(data, values) }), batch(sqlite), batch(lmdb),
      ])
    for rival in [redis, memcached, grdb, sqlite, lmdb] as [(any BenchmarkSubject)?] + [own] {
      guard let rival else { continue }
      for key in stride(from: 0, to: data.count, by: 37)
      where try rival.value(key) != data.values[key] {
        throw BenchFailure("\(rival.name) has another value after a batch.")
      }
    }
    let cache = PersistentCache<Int, [UInt8]>(storage: own.store, namespace: "behind")
    let value = value
    try sample("write-behind, 256 B", calls * 4) { cache[$0 % 10_000] = value }
    try cache.sync()
    try eviction()
    try expiry()
    try opening(path, data)
    try stampede(own.store)
    try observers(own.store)
  }

  /// Everybody may hold 4 MB and is full: each new entry puts another out.
  private func eviction() throws {
    let full = try store("full", megabytes: 4)
    defer { full.close() }
    let namespace = try full.namespace("values")
    let data = Dataset(count: 16_000)
    let (keys, bytes) = (data.keys, data.values)
    try full.write { transaction in
      for (key, value) in zip(keys, bytes) {
        try transaction.setBytes(value, forKey: key, in: "values")
      }
    }
    let redis = redisSocket.map { CContender.redis($0, data, loads: false) }
    redis?.command("FLUSHALL")
    // What the server needs for itself is about a megabyte.
    redis?.command("CONFIG SET maxmemory 5mb")
    redis?.command("CONFIG SET maxmemory-policy allkeys-lru")
    defer {
      redis?.command("CONFIG SET maxmemory 0")
      redis?.command("FLUSHALL")
    }
    redis?.setAll(data)
    let disk = try diskcache("full-disk", data, limit: 4 << 20)
    defer { try? disk?.finish() }
    let value = value
    try raceOfFleets(
      "set into a full cache of 4 MB, 256 B", data,
      [
        (
          "Larder, store",
          { keys, times in
            for key in keys {
              let name = Dataset.key(Int(key))
              let start = bench_now()
              try namespace.setBytes(value, forKey: name)
              times.append(UInt32(clamping: bench_now() - start))
            }
          }
        ), redis.map { redis in (redis.name, { try redis.set($0, shift: 1, &$1) }) },
        disk.map { disk in (disk.name, { try disk.set($0, shift: 1, &$1) }) },
      ])
    guard try full.statistics().evictions > 0 else { throw BenchFailure("Nothing was evicted.") }
  }

  private func diskcache(_ name: String, _ data: Dataset, limit: Int) throws -> DrivenContender? {
    guard ProcessInfo.processInfo.environment["LARDER_BENCH_DISKCACHE"] != nil else { return nil }
    let values = directory + "/\(name)-values"
    try Data(UnsafeRawBufferPointer(data.flat)).write(to: URL(fileURLWithPath: values))
    return try .diskcache(
      in: directory + "/" + name, policy: "least-recently-used", values: values, data, loads: true,
      limit: limit)
  }

  private typealias Fleet = (name: String, set: ([UInt32], inout [UInt32]) throws -> Void)

  /// Sets of keys that were never there before, in turns; each times its own calls.
  private func raceOfFleets(_ workload: String, _ data: Dataset, _ fleets: [Fleet?]) throws {
    let fleets = fleets.compactMap { $0 }
    try takeTurns(workload, fleets.map(\.name)) { round, index, times in
      try fleets[index].set((0..<calls).map { UInt32(100_000 + round * calls + $0) }, &times)
    }
  }

  /// What is set is gone 20 ms later, and somebody has to clear it away.
  private func expiry() throws {
    let churn = try store("churn", megabytes: 4)
    defer { churn.close() }
    let short = try churn.namespace("values")
    let data = Dataset(count: 16_000)
    let redis = redisSocket.map { CContender.redis($0, data, loads: false) }
    redis?.setLife(milliseconds: 20)
    let disk = try diskcache("churn-disk", data, limit: 4 << 20)
    defer { try? disk?.finish() }
    try disk?.setLife(seconds: 0.02)
    let value = value
    try raceOfFleets(
      "set, all expire in 20 ms, 256 B", data,
      [
        (
          "Larder, store",
          { keys, times in
            for key in keys {
              let name = Dataset.key(Int(key))
              let start = bench_now()
              try short.setBytes(value, forKey: name, expires: .after(.milliseconds(20)))
              times.append(UInt32(clamping: bench_now() - start))
            }
          }
        ), redis.map { redis in (redis.name, { try redis.set($0, shift: 1, &$1) }) },
        disk.map { disk in (disk.name, { try disk.set($0, shift: 1, &$1) }) },
      ])
    try sample("removeExpired, all that is left, 256 B", 1) { _ in _ = try churn.removeExpired() }
  }

  /// By a process of its own, which has not got it open; its own start is not counted.
  private func opening(_ path: String, _ data: Dataset) throws {
    let kinds = ["larder", "grdb", "sqlite", "lmdb"]
    var rows: [ComparisonRun.Row] = []
    var times = kinds.map { _ in [UInt32]() }
    var name = kinds
    for _ in 0..<(isQuick ? 7 : 25) {
      for (index, kind) in kinds.enumerated() {
        let child = try Child(["--child-open", kind, path])
        let words = try child.line().split(separator: " ", maxSplits: 1).map(String.init)
        times[index].append(UInt32(words[0])!)
        name[index] = words[1]
        try child.finish()
      }
    }
    for index in kinds.indices {
      let rounds = times[index].map(Double.init)
      rows.append(
        ComparisonRun.Row(
          name: name[index], latencies: Latencies(times[index]), rounds: rounds, medians: rounds))
    }
    results.add(rows, "open, and one get, in a new process", size: 256)
  }

  /// In the other process.
  static func open(_ kind: String, _ path: String) throws {
    let data = Dataset(count: 1, size: 256)
    let start = bench_now()
    var name = "Larder, store"
    let isThere: Bool
    switch kind {
    case "larder":
      let store = try SharedStore(at: path + "/larder-cache")
      isThere = try store.namespace("values").bytes(forKey: data.keys[0]) != nil
    case "grdb":
      let grdb = try GRDBContender(in: path, data, synchronous: "OFF", loads: false)
      (isThere, name) = (try grdb.has(data.keys[0]), grdb.name)
    case "sqlite":
      let sqlite = CContender.sqlite(in: path, data, synchronous: 0, loads: false)
      (isThere, name) = (sqlite.has(0), sqlite.name)
    default:
      let lmdb = try CContender.lmdb(
        in: path, data, isSynced: false, throughMap: true, loads: false)
      (isThere, name) = (lmdb.has(0), lmdb.name)
    }
    guard isThere else { throw BenchFailure("What \(kind) opened lacks a value.") }
    Child.say("\(bench_now() - start) \(name)")
  }
}
