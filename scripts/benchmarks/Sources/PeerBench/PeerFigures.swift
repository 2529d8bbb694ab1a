// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

/// Larder beside what people use today: single calls with values of 256 bytes, 100,000 keys.
struct PeerFigures {
  let directory: String
  let results: Results
  private var isQuick: Bool { results.isQuick }
  private var rounds: Int { isQuick ? 9 : 21 }

  /// Where a rival that scripts/bench started is, if it could.
  private func rival(_ name: String) -> String? {
    ProcessInfo.processInfo.environment["LARDER_BENCH_" + name]
  }

  private var values: String { directory + "/values" }
  private var hasDiskcache: Bool { rival("DISKCACHE") != nil }

  /// The parts, in their order: the first makes the file of values for the others.
  var sections: [(name: String, body: () throws -> Void)] {
    let data = Dataset()
    return [
      ("calls", { try calls(data) }), ("files", files),
      ("durabilities", { try otherDurabilities(data) }),
      ("writers", { try writers(data) }), ("seeds", seeds),
    ]
  }

  private func calls(_ data: Dataset) throws {
    try Data(UnsafeRawBufferPointer(data.flat)).write(to: URL(fileURLWithPath: values))
    let redis = rival("REDIS").map { CContender.redis($0, data) }
    let memcached = rival("MEMCACHED").map { CContender.memcached($0, data) }
    func diskcache(_ policy: String, _ name: String) throws -> DrivenContender? {
      guard hasDiskcache else { return nil }
      return try .diskcache(
        in: directory + "/" + name, policy: policy, values: values, data, loads: true)
    }
    let store = try StoreContender(in: directory, data)
    let throughMap = try store.store.statistics().usesWriteMap
    let grdb = try GRDBContender(in: directory, data, synchronous: "OFF")
    let disk = try diskcache("least-recently-used", "lru")
    let present: [(any BenchmarkSubject)?] = [
      store, redis, grdb, disk, memcached, try diskcache("least-recently-stored", "lrs"),
      CContender.sqlite(in: directory, data, synchronous: 0),
      try CContender.lmdb(in: directory, data, isSynced: false, throughMap: throughMap),
    ]
    let all = present.compactMap { $0 }

    let gets = try contest("get", .get, data, calls: isQuick ? 500 : 2000).run(all)
    results.add(gets, "store get, \(data.size) B", size: data.size)
    try figure("peers.redis_get", gets, redis, atLeast: 20, "GET over a Unix socket")
    try figure("peers.grdb_get", gets, grdb, atLeast: 25, "pool.read, prepared SELECT")
    try figure("peers.diskcache_get", gets, disk, atLeast: 80, "Cache.get")

    let hot = data.order(3, 1000)
    let memory: [(any BenchmarkSubject)?] = [
      MemoryContender.cache(store.store, data), redis, memcached, MemoryContender.dictionary(data),
    ]
    let hits = try contest("memory hit", .get, data, calls: hot.count, hot).run(
      memory.compactMap { $0 })
    results.add(
      hits, "memory hit, \(data.size) B, 1,000 keys (in groups of \(MemoryContender.group))",
      size: data.size)
    try figure("peers.redis_hit", hits, redis, atLeast: 150, "GET over a Unix socket, 1,000 keys")

    let sets = try contest("set", .set, data, calls: isQuick ? 500 : 2000).run(all)
    results.add(
      sets, "committed set, \(data.size) B, no sync" + (throughMap ? ", through the map" : ""),
      size: data.size)
    try figure("peers.redis_set", sets, redis, atLeast: throughMap ? 3 : 1, "SET, nothing saved")
    try figure("peers.grdb_set", sets, grdb, atLeast: 3, "pool.write, WAL, synchronous = OFF")
    try figure("peers.diskcache_set", sets, disk, atLeast: 3, "Cache.set")
  }

  private func contest(
    _ title: String, _ kind: ComparisonRun.Kind, _ data: Dataset, calls: Int, _ hot: [UInt32]? = nil
  ) -> ComparisonRun {
    ComparisonRun(title: title, kind: kind, data: data, calls: calls, rounds: rounds, hot: hot)
  }

  private func figure(
    _ id: String, _ rows: [ComparisonRun.Row], _ rival: (any BenchmarkSubject)?,
    atLeast bar: Double,
    _ what: String
  ) throws {
    guard let rival else { return }
    guard let row = rows.first(where: { $0.name == rival.name }) else {
      throw BenchFailure("\(rival.name) took no part.")
    }
    // Of the median calls of the same rounds: a mean of calls over a socket is mostly how often the
    // machine had something else to do. The means are told besides.
    let ratio = row.medianTimes(rows[0])
    let means = String(format: "%.1f", row.times(rows[0]).value)
    // What nobody who builds on it can pass.
    let limit =
      rows.first { $0.name.hasPrefix("liblmdb") }
      .map { String(format: "; liblmdb in C: %.1f x", row.medianTimes($0).value) } ?? ""
    results.add(
      Figure(
        id: id, value: ratio.value, unit: "x", bar: .atLeast(bar),
        own: Rounds.median(rows[0].medians) / 1000,
        rival: "\(rival.name): \(what); of mean calls \(means) x" + limit,
        rivalValue: Rounds.median(row.medians) / 1000, rivalUnit: "us", spread: ratio.spread))
  }

  /// A file per key, of fewer keys: where the disk is told of freed blocks, as many files as there are
  /// keys elsewhere take minutes to remove.
  private func files() throws {
    let few = Dataset(count: 10_000)
    let path = directory + "/few"
    try Files.make(path)
    defer { Files.remove(path) }
    let all: [any BenchmarkSubject] = [
      try StoreContender(in: path, few), try CContender.files(in: path, few, isSynced: false),
    ]
    for kind in [ComparisonRun.Kind.get, .set] {
      let rows = try contest("\(kind), files", kind, few, calls: isQuick ? 500 : 2000).run(all)
      results.add(rows, "a file per key, \(kind), \(few.size) B, 10,000 keys", size: few.size)
    }
  }

  /// What is promised besides: synced in the background, and synced before the call returns.
  private func otherDurabilities(_ data: Dataset) throws {
    var relaxed: [any BenchmarkSubject] = [
      try StoreContender(in: directory, data, .relaxed),
      try GRDBContender(in: directory, data, synchronous: "NORMAL"),
      CContender.sqlite(in: directory, data, synchronous: 1),
    ]
    if hasDiskcache {
      relaxed.append(
        try DrivenContender.diskcache(
          in: directory + "/normal", policy: "least-recently-used", values: values, data,
          loads: true))
    }
    results.add(
      try contest("relaxed set", .set, data, calls: isQuick ? 500 : 2000).run(relaxed),
      "committed set, \(data.size) B, kept by a crash of the system but for the last",
      size: data.size)
    let few = Dataset(count: 10_000)
    let durable: [any BenchmarkSubject] = [
      try StoreContender(in: directory, few, .durable),
      try GRDBContender(in: directory, few, synchronous: "FULL"),
      CContender.sqlite(in: directory, few, synchronous: 2),
      try CContender.files(in: directory, few, isSynced: true),
      try CContender.lmdb(in: directory, few, isSynced: true, throughMap: false),
    ]
    results.add(
      try contest("durable set", .set, few, calls: isQuick ? 30 : 100).run(durable),
      "committed set, \(data.size) B, on the disk when it returns, 10,000 keys", size: data.size)
  }

  /// Beside the ways of the libraries whose interfaces Larder takes over: 1,000 keys.
  private func seeds() throws {
    let few = Dataset(count: 1000)
    let path = directory + "/seeds"
    try Files.make(path)
    try Files.make(path + "/typed")
    // It closes its store when it goes.
    let typed = try StoreContender(in: path + "/typed", few)
    defer { withExtendedLifetime(typed) {} }
    let all: [any BenchmarkSubject] = [
      try StoreContender(in: path, few), CacheContender(typed.store, few),
      try SeedContender.shallows(in: path, few), try SeedContender.papyrus(in: path, few),
      try SeedContender.persistentCacheKit(in: path, few),
      try SeedContender.propertyKit(in: path, few),
    ]
    results.add(
      try contest("seeds' get", .get, few, calls: 500).run(all),
      "get beside the ways of earlier Swift libraries, \(few.size) B", size: few.size)
    results.add(
      try contest("seeds' set", .set, few, calls: isQuick ? 20 : 50).run(all),
      "set beside the ways of earlier Swift libraries, each as durable as it is, \(few.size) B",
      size: few.size)
  }

  /// Eight processes that set at once, here and there.
  private func writers(_ data: Dataset) throws {
    guard hasDiskcache else { return }
    let path = directory + "/writers"
    try Files.make(path)
    let store = try StoreContender(in: path, data)
    let loader = try DrivenContender.diskcache(
      in: path + "/lru", policy: "least-recently-used", values: values, data, loads: true)
    try loader.finish()
    let own = try (0..<8).map { _ in
      try DrivenContender.larder(store: store.store.path, values: values, data)
    }
    let theirs = try (0..<8).map { _ in
      try DrivenContender.diskcache(
        in: path + "/lru", policy: "least-recently-used", values: values, data, loads: false)
    }
    // A round must be long beside a slice of the scheduler: in a short one, a call in a hundred is one
    // that met the waking of the others.
    let calls = isQuick ? 1000 : 2000
    func run(_ fleet: [DrivenContender], _ round: Int) throws -> [UInt32] {
      for (index, member) in fleet.enumerated() {
        try member.start(set: data.order(round * 8 + index, calls), shift: round)
      }
      return try fleet.flatMap { try $0.answer() }
    }
    var samples: ([UInt32], [UInt32]) = ([], [])
    var p99s: ([Double], [Double]) = ([], [])
    let rounds = isQuick ? 7 : 15
    for round in 0...rounds {
      let (first, second) = (try run(own, round), try run(theirs, round))
      if round == 0 { continue }
      samples.0 += first
      samples.1 += second
      p99s.0.append(Latencies(first).p99)
      p99s.1.append(Latencies(second).p99)
    }
    // Whoever came last: it is a value that somebody wrote, in full.
    for key in data.order(0, 200) {
      let possible = (0...rounds).map { data.values[(Int(key) + $0) % data.count] }
      for value in [try store.value(Int(key)), try theirs[0].value(Int(key))] {
        guard possible.contains(value) else {
          throw BenchFailure("After eight writers, \(key) has a value that nobody wrote.")
        }
      }
    }
    for member in own + theirs { try member.finish() }
    let title = "committed set, \(data.size) B, by 8 processes at once"
    Child.say("\n\(title)\n" + Results.heading)
    results.add("Larder, store", title, size: data.size, samples.0)
    results.add(theirs[0].name, title, size: data.size, samples.1)
    let ratio = Ratio(zip(p99s.1, p99s.0).map { $0 / $1 })
    func tail(_ samples: [UInt32]) -> String { Results.duration(Latencies(samples).p999) }
    results.add(
      Figure(
        id: "peers.diskcache_p99", value: ratio.value, unit: "x", bar: .atLeast(10),
        own: Rounds.median(p99s.0) / 1000,
        rival: "\(theirs[0].name): p99 of sets by 8 processes; p99.9 "
          + "\(tail(samples.0)) against \(tail(samples.1))",
        rivalValue: Rounds.median(p99s.1) / 1000, rivalUnit: "us", spread: ratio.spread))
  }
}
