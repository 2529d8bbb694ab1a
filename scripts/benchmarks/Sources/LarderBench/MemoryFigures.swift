// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LMDBBaseline
import Larder
import Synchronization

/// What a value in this process's memory costs: 1,000 hot keys, a struct of five fields.
struct MemoryFigures {
  let directory: String
  let isQuick: Bool

  private static let count = 1000

  /// A dictionary behind a mutex: what a program has without a cache.
  private final class Guarded<Key: Hashable & Sendable>: Sendable {
    let values = Mutex<[Key: Person]>([:])
  }

  private var rounds: Int { isQuick ? 7 : 41 }
  private var hits: Int { isQuick ? 100_000 : 400_000 }

  func hitInt() throws -> Figure {
    try hit("core.memory_hit_int") { $0 }
  }

  func hitString() throws -> Figure {
    try hit("core.memory_hit_string") { "person-\($0)" }
  }

  private func hit<Key: CacheKey>(_ id: String, _ key: (Int) -> Key) throws -> Figure {
    let store = try SharedStore(at: directory + "/" + id, .init(budget: .megabytes(64)))
    defer { store.close() }
    let cache = PersistentCache<Key, Person>(storage: store, namespace: "people")
    let guarded = Guarded<Key>()
    var order: [Key] = []
    for number in 0..<Self.count {
      let (key, person) = (key(number), Person.sample(number))
      try cache.setValue(person, forKey: key)
      guarded.values.withLock { $0[key] = person }
      order.append(key)
    }
    var numbers = Numbers(seed: 5)
    order.shuffle(using: &numbers)
    // The first read of each fills the memory.
    for key in order {
      guard cache[key] == guarded.values.withLock({ $0[key] }) else {
        throw BenchFailure("The cache and the dictionary differ.")
      }
    }
    let repeats = hits / Self.count
    var sum = 0
    let result = try Rounds.compare(count: rounds) { _ in
      var mine = 0
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats {
          for key in order {
            guard let person = cache[key] else { throw BenchFailure("A hot key is missing.") }
            mine &+= person.id &+ person.name.utf8.count
          }
        }
      }
      sum = mine
      return time / Double(repeats * order.count)
    } rival: { _ in
      var theirs = 0
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats {
          for key in order {
            guard let person = guarded.values.withLock({ $0[key] }) else {
              throw BenchFailure("A hot key is missing.")
            }
            theirs &+= person.id &+ person.name.utf8.count
          }
        }
      }
      guard sum == theirs else { throw BenchFailure("The cache and the dictionary differ.") }
      return time / Double(repeats * order.count)
    }
    return Figure(
      id: id, value: result.ratio, unit: "x", bar: .atMost(2), own: result.own,
      rival: "a Dictionary in a Mutex", rivalValue: result.rival, rivalUnit: "ns",
      spread: result.spread)
  }

  /// A hit in a cache with a store (which keeps recency, checks the stamps and counts) less a hit in
  /// one without: recency alone cannot be switched off, so this is an upper bound of what it costs.
  func recency(id: String = "core.lru_cost_hit") throws -> Figure {
    let store = try SharedStore(at: directory + "/" + id, .init(budget: .megabytes(64)))
    defer { store.close() }
    let shared = PersistentCache<Int, Person>(storage: store, namespace: "people")
    let alone = PersistentCache<Int, Person>(storage: nil, namespace: "people")
    for number in 0..<Self.count {
      try shared.setValue(.sample(number), forKey: number)
      try alone.setValue(.sample(number), forKey: number)
    }
    var numbers = Numbers(seed: 5)
    let order = (0..<Self.count).shuffled(using: &numbers)
    let repeats = hits / Self.count
    func time(_ cache: PersistentCache<Int, Person>) throws -> Double {
      var sum = 0
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats {
          for key in order {
            guard let person = cache[key] else { throw BenchFailure("A hot key is missing.") }
            sum &+= person.id
          }
        }
      }
      guard sum == repeats * order.reduce(0, +) else { throw BenchFailure("The caches differ.") }
      return time / Double(repeats * order.count)
    }
    var differences: [Double] = []
    let result = try Rounds.compare(count: rounds) { _ in
      let own = try time(shared)
      differences.append(own)
      return own
    } rival: { _ in
      let own = try time(alone)
      differences[differences.count - 1] -= own
      return own
    }
    return Figure(
      id: id, value: Rounds.median(Array(differences.dropFirst())), unit: "ns",
      bar: .atMost(8), own: result.own, rival: "the same cache with storage: nil",
      rivalValue: result.rival, rivalUnit: "ns",
      spread: Rounds.quartiles(Array(differences.dropFirst())))
  }

  /// `cache[key] = value`: the caller's median time, timer included, in bursts that leave the queue
  /// far from full.
  func setWriteBehind() throws -> Figure {
    let store = try SharedStore(at: directory + "/behind", .init(budget: .megabytes(64)))
    defer { store.close() }
    let cache = PersistentCache<Int, Person>(storage: store, namespace: "people")
    let people = (0..<Self.count).map(Person.sample)
    var medians: [Double] = []
    var timer: [Double] = []
    for round in 0...(isQuick ? 9 : 31) {
      var times: [Double] = []
      times.reserveCapacity(people.count)
      for index in people.indices {
        let start = bench_now()
        cache[index] = people[(index + round) % people.count]
        times.append(Double(bench_now() - start))
      }
      try cache.sync()
      if round == 0 { continue }
      medians.append(Rounds.median(times))
      timer.append(Rounds.median(people.map { _ in Rounds.nanoseconds {} }))
      cache.clearMemoryCache()
      for index in people.indices {
        guard cache[index] == people[(index + round) % people.count] else {
          throw BenchFailure("A value set behind is not in the store.")
        }
      }
    }
    let median = Rounds.median(medians) / 1000
    return Figure(
      id: "core.set_behind", value: median, unit: "us", bar: .atMost(1), own: median,
      rival: "none; what two looks at the clock cost", rivalValue: Rounds.median(timer) / 1000,
      rivalUnit: "us", spread: Rounds.quartiles(medians).divided(by: 1000))
  }
}
