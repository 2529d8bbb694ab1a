// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

/// Reads and writes mixed, values of other sizes, and more processes: Larder beside Redis, GRDB and
/// files.
struct MixedWorkloads {
  let directory: String
  let results: Results
  private var isQuick: Bool { results.isQuick }

  private func rivals(_ path: String, _ data: Dataset) throws -> [any BenchmarkSubject] {
    let redis = ProcessInfo.processInfo.environment["LARDER_BENCH_REDIS"]
    let present: [(any BenchmarkSubject)?] = [
      redis.map { CContender.redis($0, data) },
      try GRDBContender(in: path, data, synchronous: "OFF"),
    ]
    return present.compactMap { $0 }
  }

  /// 16 bytes to a megabyte.
  func sizes() throws {
    for size in [16, 256, 4096, 65_536, 1 << 20] {
      let data = Dataset(count: min(20_000, (isQuick ? 32 << 20 : 128 << 20) / size), size: size)
      let path = directory + "/size-\(size)"
      try Files.make(path)
      defer { Files.remove(path) }
      let all =
        [try StoreContender(in: path, data) as any BenchmarkSubject] + (try rivals(path, data))
        + [try CContender.files(in: path, data, isSynced: false)]
      let calls = min(data.count, isQuick ? 100 : 500)
      for kind in [ComparisonRun.Kind.get, .set] {
        let rows = try ComparisonRun(
          title: "\(kind) of \(size) B", kind: kind, data: data, calls: calls,
          rounds: isQuick ? 3 : 11
        ).run(all)
        results.add(rows, "\(kind) of \(size) B", size: size)
        for row in rows {
          results.point(
            "\(kind) by value size", row.name, x: Double(size), row.latencies.median / 1000,
            unit: "us")
        }
      }
    }
  }

  /// Gets and sets in one sequence, keys by Zipf's law (0.99): the same for everybody.
  func mixed() throws {
    let data = Dataset(count: 20_000)
    let path = directory + "/mixed"
    try Files.make(path)
    try Files.make(path + "/typed")
    // Of its own: sets of another would be misses of its memory.
    let typed = try StoreContender(in: path + "/typed", data)
    let all: [any BenchmarkSubject] =
      [CacheContender(typed.store, data), try StoreContender(in: path, data)]
      + (try rivals(path, data))
    for share in [95, 50] {
      var numbers = Numbers(seed: UInt64(share))
      let zipf = Zipf(count: data.count)
      let calls = isQuick ? 1000 : 10_000
      var samples = all.map { _ in [UInt32]() }
      var means = all.map { _ in [Double]() }
      var medians = all.map { _ in [Double]() }
      for round in 0...(isQuick ? 3 : 11) {
        let steps = (0..<calls).map { _ in
          (zipf.next(&numbers), Int.random(in: 0..<100, using: &numbers) < share)
        }
        var sum: UInt64?
        for (index, contender) in all.enumerated() {
          var times: [UInt32] = []
          times.reserveCapacity(calls)
          var mine: UInt64 = 0
          for (key, isGet) in steps {
            if isGet {
              mine &+= try contender.get([key], &times)
            } else {
              try contender.set([key], shift: round + 1, &times)
            }
          }
          guard mine == sum ?? mine else {
            throw BenchFailure("\(contender.name) returned other values.")
          }
          sum = mine
          if round == 0 { continue }
          samples[index] += times
          means[index].append(times.reduce(0.0) { $0 + Double($1) } / Double(times.count))
          medians[index].append(Rounds.median(times.map(Double.init)))
        }
      }
      let rows = all.indices.map {
        ComparisonRun.Row(
          name: all[$0].name, latencies: Latencies(samples[$0]), rounds: means[$0],
          medians: medians[$0])
      }
      results.add(rows, "\(share) % gets, \(100 - share) % sets, Zipf keys, 256 B", size: 256)
    }
  }

  /// One to eight processes at once, on as many cores as there are.
  func processes() throws {
    let data = Dataset(count: 20_000)
    let values = directory + "/process-values"
    try Data(UnsafeRawBufferPointer(data.flat)).write(to: URL(fileURLWithPath: values))
    let path = directory + "/processes"
    try Files.make(path)
    let store = try StoreContender(in: path, data)
    let cores = ProcessInfo.processInfo.activeProcessorCount
    results.note("\nProcesses at once, on \(cores) cores; thousand calls a second, all together")
    var fleets: [(name: String, members: [DrivenContender])] = [
      (
        "Larder",
        try (0..<8).map { _ in
          try .larder(store: store.store.path, values: values, data)
        }
      )
    ]
    if let socket = ProcessInfo.processInfo.environment["LARDER_BENCH_REDIS"] {
      let redis = CContender.redis(socket, data)
      fleets.append(
        (
          redis.name,
          try (0..<8).map { _ in
            try .driven("redis", socket, redis.name, values: values, data)
          }
        ))
    }
    let grdb = try GRDBContender(in: path, data, synchronous: "OFF")
    fleets.append(
      (
        grdb.name,
        try (0..<8).map { _ in try .driven("grdb", path, grdb.name, values: values, data) }
      ))
    if ProcessInfo.processInfo.environment["LARDER_BENCH_DISKCACHE"] != nil {
      fleets.append(
        (
          "diskcache, LRU",
          try (0..<8).map { index in
            try .diskcache(
              in: path + "/disk", policy: "least-recently-used", values: values, data,
              loads: index == 0)
          }
        ))
    }
    func rate(_ members: ArraySlice<DrivenContender>, _ kind: ComparisonRun.Kind, _ round: Int)
      throws
      -> Double
    {
      for (index, member) in members.enumerated() {
        try member.start(kind, seconds: isQuick ? 0.25 : 0.5, seed: round * 8 + index)
      }
      return try members.map { try $0.rate() }.reduce(0, +) / 1000
    }
    for kind in [ComparisonRun.Kind.get, .set] {
      for count in [1, 2, 4, 8] {
        var rates = fleets.map { _ in [Double]() }
        // In turns, as everywhere; the first round is thrown away.
        for round in 0...(isQuick ? 3 : 9) {
          for (index, fleet) in fleets.enumerated() {
            let value = try rate(fleet.members.prefix(count), kind, round)
            if round > 0 { rates[index].append(value) }
          }
        }
        for (index, fleet) in fleets.enumerated() {
          let value = Rounds.median(rates[index])
          Child.say(
            Results.pad("\(fleet.name), \(kind), \(count) processes", 40)
              + String(format: "%10.1f k/s", value))
          results.point("\(kind) by processes", fleet.name, x: Double(count), value, unit: "k/s")
        }
      }
    }
    for member in fleets.flatMap(\.members) { try member.finish() }
  }
}

/// Numbers of which the k-th is as likely as k^-0.99, scattered over all of them.
struct Zipf {
  private let sums: [Double]

  init(count: Int) {
    var total = 0.0
    sums = (1...count).map { rank in
      total += pow(Double(rank), -0.99)
      return total
    }
  }

  func next(_ numbers: inout Numbers) -> UInt32 {
    let wanted = Double.random(in: 0..<sums.last!, using: &numbers)
    var (low, high) = (0, sums.count - 1)
    while low < high {
      let middle = (low + high) / 2
      if sums[middle] < wanted { low = middle + 1 } else { high = middle }
    }
    return UInt32(low &* 7919 % sums.count)
  }
}
