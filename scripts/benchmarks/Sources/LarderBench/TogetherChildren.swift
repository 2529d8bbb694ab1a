// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import BaselineClients
import Foundation
import LMDBBaseline
import Larder
import Synchronization

/// The other processes of ``TogetherFigures``.
enum TogetherChildren {
  static func run(_ words: [String]) async throws {
    let path = words[1]
    switch words[0] {
    case "listen":
      endWithInput()
      try await listen(path)
    case "follow":
      endWithInput()
      try follow(path)
    case "subscribe":
      endWithInput()
      subscribe(path)
    case "idle": try await idle(path, seconds: Double(words[2])!)
    case "sleep": try await countSwitches(Double(words[2])!)
    case "flight": try await flight(path, keys: Int(words[2])!)
    case "hold": try await hold(path, key: Int(words[2])!)
    case "inherit": try await inherit(path)
    case "increment": try increment(path)
    case "redis-increment": redisIncrement(path)
    case "queue": try await queue(path, number: Int(words[2])!)
    case "redis-queue": redisQueue(path)
    default: throw BenchFailure("There is no child \(words[0]).")
    }
  }

  /// Ends the process when its parent closes the input.
  private static func endWithInput() {
    Thread.detachNewThread {
      while readLine() != nil {}
      exit(0)
    }
  }

  private static func listen(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let names = try store.namespace("feed")
    let changes = try store.changes()
    Child.say("ready")
    for try await event in changes { try report(event, names) }
  }

  private static func follow(_ path: String) throws {
    let store = try SharedStore(at: path)
    let names = try store.namespace("feed")
    var cursor = try store.changeCursor()
    _ = try store.recentChanges(since: cursor)
    Child.say("ready")
    while true {
      for event in try store.recentChanges(since: cursor, timeout: .seconds(60)) {
        try report(event, names)
        cursor = event.cursor
      }
    }
  }

  private static func report(_ event: ChangeEvent, _ names: StoreNamespace) throws {
    let now = bench_now()
    guard case .commit(let list, _) = event, let text = list[0].key(as: String.self),
      let begun = UInt64(text)
    else { throw BenchFailure("no change of a key") }
    guard try names.bytes(forKey: text) == [1] else { throw BenchFailure("no value") }
    Child.say("\(now - begun)")
  }

  private static func subscribe(_ socket: String) {
    let client = peer_redis(socket)
    peer_redis_subscribe(client)
    Child.say("ready")
    while true {
      let begun = peer_redis_next(client)
      Child.say("\(Int(bench_now()) - begun)")
    }
  }

  /// Voluntary context switches of all threads.
  private static func switches() throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").reduce(0) {
      sum, thread in
      let status = try String(contentsOfFile: "/proc/self/task/\(thread)/status", encoding: .utf8)
      let line = status.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches") }
      return sum + (line.flatMap { Int($0.split(separator: "\t").last ?? "") } ?? 0)
    }
  }

  private static func idle(_ path: String, seconds: Double) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, Int>(storage: store)
    _ = try await cache.value(forKey: 1)
    let listening = Task { for try await _ in try store.changes() {} }
    try await countSwitches(seconds)
    listening.cancel()
  }

  private static func countSwitches(_ seconds: Double) async throws {
    try await Task.sleep(for: .seconds(2))
    Child.say("ready")
    let before = try switches()
    try await Task.sleep(for: .seconds(seconds))
    Child.say("\(Double(max(try switches() - before, 0)) / seconds)")
  }

  private static func flight(_ path: String, keys: Int) async throws {
    let cache = PersistentCache<Int, Int>(storage: try SharedStore(at: path))
    let computed = Counter()
    Child.say("ready")
    _ = readLine()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<100 {
        group.addTask {
          for step in 0..<keys {
            let key = (step + task * 7) % keys
            let value = try await cache.value(forKey: key) {
              computed.add()
              return key * 3
            }
            guard value == key * 3 else { throw BenchFailure("a wrong value") }
          }
        }
      }
      try await group.waitForAll()
    }
    Child.say("\(computed.value)")
  }

  private static func hold(_ path: String, key: Int) async throws {
    let cache = PersistentCache<Int, Int>(storage: try SharedStore(at: path))
    _ = try await cache.value(forKey: key) {
      Child.say("computing")
      try await Task.sleep(for: .seconds(3600))
      return 0
    }
  }

  private static func inherit(_ path: String) async throws {
    let cache = PersistentCache<Int, Int>(storage: try SharedStore(at: path))
    Child.say("ready")
    while let line = readLine(), let key = Int(line) {
      Child.say("waiting")
      _ = try await cache.value(forKey: key) {
        Child.say("\(bench_now())")
        return 1
      }
    }
  }

  private static func increment(_ path: String) throws {
    let cache = PersistentCache<String, Int>(storage: try SharedStore(at: path))
    Child.say("ready")
    while let line = readLine(), let seconds = Double(line) {
      let end = bench_now() + UInt64(seconds * 1e9)
      var count = 0
      while bench_now() < end {
        try cache.increment(forKey: "hot")
        count += 1
      }
      Child.say("\(count)")
    }
  }

  static let queueTasks = 32

  /// Each task pushes numbers that no other task pushes, and claims and completes any number.
  private static func queue(_ path: String, number: Int) async throws {
    let deque = SharedDeque<Int>(storage: try SharedStore(at: path), name: "jobs")
    let next = Counter()
    Child.say("ready")
    while let line = readLine(), let seconds = Double(line) {
      let end = bench_now() + UInt64(seconds * 1e9)
      let sums = try await withThrowingTaskGroup(of: (Int, Int, Int).self) { group in
        for _ in 0..<queueTasks {
          group.addTask {
            var (pushed, claimed, count) = (0, 0, 0)
            while bench_now() < end {
              let element = number << 40 | next.next()
              try await deque.push(element)
              pushed &+= element
              // There are at least as many elements as claims.
              guard let claim = try await deque.claim(lease: .seconds(60)) else {
                throw BenchFailure("no element")
              }
              guard try await claim.complete() else { throw BenchFailure("the claim is over") }
              claimed &+= claim.element
              count += 1
            }
            return (pushed, claimed, count)
          }
        }
        return try await group.reduce((0, 0, 0)) { ($0.0 &+ $1.0, $0.1 &+ $1.1, $0.2 + $1.2) }
      }
      Child.say("\(sums.2) \(sums.0 &- sums.1)")
    }
  }

  private static func redisQueue(_ socket: String) {
    let client = peer_redis(socket)
    Child.say("ready")
    while let line = readLine(), let seconds = Double(line) {
      let end = bench_now() + UInt64(seconds * 1e9)
      var count = 0
      while bench_now() < end {
        peer_redis_queue(client, Int32(queueTasks))
        count += queueTasks
      }
      Child.say("\(count) 0")
    }
    peer_close(client)
  }

  private static func redisIncrement(_ socket: String) {
    let client = peer_redis(socket)
    Child.say("ready")
    while let line = readLine(), let seconds = Double(line) {
      let end = bench_now() + UInt64(seconds * 1e9)
      var count = 0
      while bench_now() < end {
        peer_redis_increment(client)
        count += 1
      }
      Child.say("\(count)")
    }
    peer_close(client)
  }
}

private final class Counter: Sendable {
  private let count = Atomic<Int>(0)
  var value: Int { count.load(ordering: .relaxed) }
  func add() { _ = next() }
  func next() -> Int { count.wrappingAdd(1, ordering: .relaxed).newValue }
}
