// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder

/// What processes do with each other: they want the same missing value, and they watch.
extension LifecycleWorkloads {
  /// Eight processes want the same missing value at once; it takes 20 ms to compute.
  func stampede(_ store: SharedStore) throws {
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
    Child.say("\nstampede of 8 processes, 20 ms to compute\n" + Results.heading)
    results.add("Larder", "stampede of 8 processes, 20 ms to compute", size: 256, times)
    let all = computed.reduce(0, +)
    results.note(
      "stampede: \(Int(all)) computations for \(computed.count) keys wanted by 8 processes")
    guard Int(all) == computed.count else { throw BenchFailure("Something was computed twice.") }
  }

  /// From the beginning of a committed set here to its sight in another process; with Redis a SET and a
  /// PUBLISH, sent together.
  func observers(_ store: SharedStore) throws {
    let cache = PersistentCache<String, Int>(storage: store, namespace: "watched")
    try cache.setValue(0, forKey: "key")
    let child = try Child(["--child-together", store.path])
    try child.send("observe")
    _ = try child.line()
    let redis = try redisSocket.map { socket in
      let listener = try Child(["--child-subscribe", socket])
      _ = try listener.line()
      return (CContender.redis(socket, Dataset(count: 1), loads: false), listener)
    }
    var samples: [[UInt32]] = [[], []]
    var means: [[Double]] = [[], []]
    var medians: [[Double]] = [[], []]
    func watch(_ index: Int, _ child: Child, _ round: Int, _ set: (Int) throws -> Void) throws {
      var times: [UInt32] = []
      let calls = isQuick ? 50 : 200
      for number in round * calls + 1...(round + 1) * calls {
        let start = bench_now()
        try set(number)
        let seen = try child.numbers()
        guard seen[0] == UInt64(number) else {
          throw BenchFailure("The observer saw something else.")
        }
        times.append(UInt32(clamping: seen[1] - start))
      }
      if round == 0 { return }
      samples[index] += times
      means[index].append(times.reduce(0.0) { $0 + Double($1) } / Double(times.count))
      medians[index].append(Rounds.median(times.map(Double.init)))
    }
    for round in 0...(isQuick ? 5 : 9) {
      try watch(0, child, round) { try cache.setValue($0, forKey: "key") }
      if let (redis, listener) = redis { try watch(1, listener, round) { redis.publish($0) } }
    }
    try cache.setValue(-1, forKey: "key")
    try child.finish()
    redis?.0.publish(-1)
    try redis?.1.finish()
    let names = ["Larder, store"] + (redis.map { ["\($0.0.name), PUBLISH"] } ?? [])
    results.add(
      names.indices.map {
        ComparisonRun.Row(
          name: names[$0], latencies: Latencies(samples[$0]), rounds: means[$0],
          medians: medians[$0])
      }, "a set, until another process sees it", size: 8)
  }

  /// In the other process, with Redis.
  static func subscribe(_ socket: String) {
    let redis = CContender.redis(socket, Dataset(count: 1), loads: false)
    redis.subscribe()
    Child.say("listening")
    while true {
      let number = redis.nextPublished()
      if number < 0 { return }
      Child.say("\(number) \(bench_now())")
    }
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
