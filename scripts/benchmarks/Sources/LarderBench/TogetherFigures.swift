// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import BaselineClients
import Foundation
import LMDBBaseline
import Larder

/// What several processes do with one store: hear of changes, count, exclude each other, compute once.
struct TogetherFigures {
  let directory: String
  let isQuick: Bool
  /// The socket of a Redis server, if there is one.
  let redis: String?

  private func path(_ name: String) -> String { directory + "/together-" + name }

  private func child(_ kind: String, _ path: String, _ words: String...) throws -> Child {
    try Child(["--child-together", kind, path] + words)
  }

  // MARK: Changes

  /// From the moment before a write to that at which another process has the event: a thread that
  /// blocks, as the subscriber of Redis does, and a task that iterates.
  func delivery() throws -> [Figure] {
    let publishing = try redis.map { try redisDelivery($0, count: isQuick ? 450 : 4950) } ?? [0]
    return try deliveryFigures("follow", "delivery", publishing)
      + deliveryFigures("listen", "delivery_task", publishing)
  }

  private func deliveryFigures(
    _ kind: String, _ name: String, _ publishing: [Double]
  ) throws -> [Figure] {
    let store = try SharedStore(at: path(name))
    defer { store.close() }
    let listener = try child(kind, store.path)
    guard try listener.line() == "ready" else { throw BenchFailure("no listener") }
    let names = try store.namespace("feed")
    var times: [Double] = []
    for number in 0..<(isQuick ? 500 : 5000) {
      let begun = bench_now()
      try names.setBytes([1], forKey: String(begun))
      let time = try listener.number()
      if number >= 50 { times.append(time / 1000) }
      // Not in the rhythm of the two processes.
      usleep(UInt32.random(in: 0...300))
    }
    try listener.finish()
    let sorted = times.sorted()
    func figure(_ id: String, _ rank: Double, _ bar: Double) -> Figure {
      func at(_ values: [Double]) -> Double { values[Int(Double(values.count - 1) * rank)] }
      return Figure(
        id: "together.\(name)_\(id)", value: at(sorted), unit: "us", bar: .atMost(bar),
        own: at(sorted), rival: "Redis, SET and PUBLISH to a subscriber",
        rivalValue: at(publishing), rivalUnit: "us", spread: Rounds.quartiles(times))
    }
    return [figure("p50", 0.5, 60), figure("p99", 0.99, 2000)]
  }

  private func redisDelivery(_ socket: String, count: Int) throws -> [Double] {
    let listener = try child("subscribe", socket)
    guard try listener.line() == "ready" else { throw BenchFailure("no subscriber") }
    let client = peer_redis(socket)
    defer { peer_close(client) }
    var times: [Double] = []
    for _ in 0..<count {
      peer_redis_publish(client, Int(bench_now()))
      times.append(try listener.number() / 1000)
      usleep(UInt32.random(in: 0...300))
    }
    try listener.finish()
    return times.sorted()
  }

  /// Committed writes with a change log and without one.
  func feedCost() throws -> Figure {
    let with = try SharedStore(at: path("with"))
    let without = try SharedStore(at: path("without"))
    defer {
      with.close()
      without.close()
    }
    try with.setChangeLog(commits: 4096)
    let value = [UInt8](repeating: 7, count: 256)
    let count = isQuick ? 2000 : 10_000
    func time(_ store: SharedStore) throws -> Double {
      let names = try store.namespace("values")
      return try Rounds.nanoseconds {
        for key in 0..<count { try names.setBytes(value, forKey: key) }
      } / Double(count)
    }
    let result = try Rounds.compare(count: isQuick ? 9 : 31) { _ in
      try time(with)
    } rival: { _ in
      try time(without)
    }
    return Figure(
      id: "together.feed_cost", value: result.ratio, unit: "x", bar: .atMost(1.1),
      own: result.own / 1000, rival: "the same writes without a change log",
      rivalValue: result.rival / 1000, rivalUnit: "us", spread: result.spread)
  }

  /// The wake-ups of a process with an iterator, a cache and nothing to do, without those of a process
  /// that only sleeps: on Linux, Dispatch looks after its threads once a second.
  func idleWakeUps() throws -> Figure {
    let store = try SharedStore(at: path("idle"))
    defer { store.close() }
    func rate(_ kind: String) throws -> Double {
      let child = try child(kind, store.path, isQuick ? "8" : "30")
      guard try child.line() == "ready" else { throw BenchFailure("no child") }
      defer { try? child.finish() }
      return try child.number()
    }
    let (own, base) = (try rate("idle"), try rate("sleep"))
    return Figure(
      id: "together.idle_wakeups", value: max(own - base, 0), unit: "/s", bar: .atMost(1.1),
      own: own, rival: "a process without a store", rivalValue: base, rivalUnit: "/s")
  }

  // MARK: Computations

  /// Computations beyond one for each key, by eight processes of a hundred tasks each.
  func singleFlight() throws -> Figure {
    let keys = isQuick ? 100 : 1000
    let store = try SharedStore(at: path("flight"))
    defer { store.close() }
    let children = try (0..<8).map { _ in try child("flight", store.path, "\(keys)") }
    for child in children { _ = try child.line() }
    let start = bench_now()
    for child in children { try child.send("go") }
    let computed = try children.reduce(0) { try $0 + $1.number() }
    let seconds = Double(bench_now() - start) / 1e9
    for child in children { try child.finish() }
    return Figure(
      id: "together.single_flight_extra", value: computed - Double(keys), unit: "",
      bar: .atMost(0), own: computed, rival: "one for each key, in \(Int(seconds * 1000)) ms",
      rivalValue: Double(keys), rivalUnit: "computed")
  }

  /// From `kill -9` of a process that computes a key to the start of the computation by another one.
  func takeover() throws -> Figure {
    let store = try SharedStore(at: path("takeover"))
    defer { store.close() }
    let heir = try child("inherit", store.path)
    guard try heir.line() == "ready" else { throw BenchFailure("no heir") }
    var times: [Double] = []
    for key in 0..<(isQuick ? 10 : 50) {
      let holder = try child("hold", store.path, "\(key)")
      guard try holder.line() == "computing" else { throw BenchFailure("no holder") }
      try heir.send("\(key)")
      guard try heir.line() == "waiting" else { throw BenchFailure("no waiter") }
      usleep(20_000)
      let start = bench_now()
      kill(holder.pid, SIGKILL)
      let begun = try heir.numbers()[0]
      holder.reap()
      times.append(Double(begun - start) / 1e6)
    }
    try heir.finish()
    let sorted = times.sorted()
    return Figure(
      id: "together.takeover", value: sorted.last!, unit: "ms", bar: .atMost(50),
      own: Rounds.median(times), rival: "none; the slowest of \(times.count)",
      rivalValue: sorted.last!, rivalUnit: "ms", spread: Rounds.quartiles(times))
  }

  // MARK: Counting and excluding

  /// Increments of one hot key by four processes, together.
  func increments() throws -> [Figure] {
    let store = try SharedStore(at: path("count"))
    defer { store.close() }
    let own = try (0..<4).map { _ in try child("increment", store.path) }
    let rivals = try redis.map { socket in
      try (0..<4).map { _ in try child("redis-increment", socket) }
    }
    let all = own + (rivals ?? [])
    for child in all { _ = try child.line() }
    let seconds = isQuick ? 0.5 : 2.0
    var total = 0.0
    func rate(_ children: [Child]) throws -> Double {
      for child in children { try child.send("\(seconds)") }
      let counts = try children.map { try $0.number() }
      return counts.reduce(0, +) / seconds
    }
    let result = try Rounds.compare(count: isQuick ? 3 : 7) { _ in
      let found = try rate(own)
      total += found * seconds
      return found
    } rival: { _ in
      try rivals.map(rate) ?? 1
    }
    for child in all { try child.finish() }
    let value = try PersistentCache<String, Int>(storage: store).value(forKey: "hot") ?? 0
    guard Double(value) == total.rounded() else {
      throw BenchFailure("The counter is \(value), but \(total) increments were acknowledged.")
    }
    let rate = Figure(
      id: "together.increment_rate", value: result.own / 1000, unit: "k/s", bar: .atLeast(150),
      own: result.own / 1000, rival: "Redis INCR over a Unix socket, four processes",
      rivalValue: result.rival / 1000, rivalUnit: "k/s", spread: result.ownSpread.divided(by: 1000))
    guard rivals != nil else { return [rate] }
    return [
      rate,
      Figure(
        id: "together.increment_ratio", value: result.ratio, unit: "x", bar: .atLeast(3),
        own: result.own / 1000, rival: "Redis INCR over a Unix socket, four processes",
        rivalValue: result.rival / 1000, rivalUnit: "k/s", spread: result.spread),
    ]
  }

  /// Elements that are pushed, claimed and completed by four processes of 32 tasks, together.
  func queue() throws -> Figure {
    let store = try SharedStore(at: path("queue"))
    defer { store.close() }
    let own = try (0..<4).map { try child("queue", store.path, "\($0)") }
    let rivals = try redis.map { socket in try (0..<4).map { _ in try child("redis-queue", socket) }
    }
    let all = own + (rivals ?? [])
    for child in all { _ = try child.line() }
    let seconds = isQuick ? 0.5 : 2.0
    func rate(_ children: [Child]) throws -> Double {
      for child in children { try child.send("\(seconds)") }
      let answers = try children.map { try $0.line().split(separator: " ").compactMap { Int($0) } }
      // The sums of the pushed and of the completed numbers are equal.
      guard answers.reduce(0, { $0 &+ $1[1] }) == 0 else {
        throw BenchFailure("The pushed numbers are not those that were completed.")
      }
      return Double(answers.reduce(0) { $0 + $1[0] }) / seconds
    }
    let result = try Rounds.compare(count: isQuick ? 3 : 7) { _ in
      try rate(own)
    } rival: { _ in
      try rivals.map(rate) ?? 1
    }
    for child in all { try child.finish() }
    guard try SharedDeque<Int>(storage: store, name: "jobs").count() == 0 else {
      throw BenchFailure("Elements are left.")
    }
    return Figure(
      id: "together.queue", value: result.own / 1000, unit: "k/s", bar: .atLeast(50),
      own: result.own / 1000, rival: "Redis RPUSH, LMOVE, LREM, four processes, 32 at a time",
      rivalValue: result.rival / 1000, rivalUnit: "k/s", spread: result.ownSpread.divided(by: 1000))
  }

  /// A lock that no other process wants, and `flock` on an open file.
  func lock() throws -> Figure {
    let store = try SharedStore(at: path("lock"))
    defer { store.close() }
    let lock = store.lock("bench")
    let file = open(path("flock"), O_RDWR | O_CREAT, 0o600)
    defer { close(file) }
    let count = isQuick ? 20_000 : 100_000
    var sum = 0
    let result = try Rounds.compare(count: isQuick ? 9 : 21) { _ in
      try Rounds.nanoseconds {
        for _ in 0..<count { try lock.withLock { _ in sum += 1 } }
      } / Double(count)
    } rival: { _ in
      Rounds.nanoseconds {
        for _ in 0..<count {
          flock(file, LOCK_EX)
          sum += 1
          flock(file, LOCK_UN)
        }
      } / Double(count)
    }
    keep(sum)
    return Figure(
      id: "together.lock", value: result.own / 1000, unit: "us", bar: .atMost(3),
      own: result.own / 1000, rival: "flock, exclusive, an open file",
      rivalValue: result.rival / 1000, rivalUnit: "us", spread: result.ownSpread.divided(by: 1000))
  }
}
