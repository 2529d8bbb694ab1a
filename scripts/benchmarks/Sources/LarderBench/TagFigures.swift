// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder
import Synchronization

/// The costs of the removal by tag, and of uses of entries with a sliding expiration.
struct TagFigures {
  let directory: String
  let isQuick: Bool

  private static let tag = "all"

  /// The values of a tag as a process reads them: some from its memory, some from the store.
  private struct Reader {
    static let count = 10_000

    let memory: PersistentCache<Int, Int>
    let direct: PersistentCache<Int, Int>
    /// The number of values with the tag.
    let all: Int

    init(_ store: SharedStore, _ all: Int) throws {
      self.all = all
      memory = PersistentCache(storage: store, namespace: "tagged")
      direct = PersistentCache(
        storage: store, namespace: "tagged", options: CacheOptions(memoryCountLimit: 0))
      // Values of a batch are not in memory before the first read.
      _ = try hits()
    }

    /// Returns the numbers of hits of reads from memory, and of reads from the store.
    func hits() throws -> [UInt64] {
      var (first, last) = (UInt64(0), UInt64(0))
      for key in 0..<Self.count where try memory.value(forKey: key) == key { first += 1 }
      for key in all - Self.count..<all where try direct.value(forKey: key) == key { last += 1 }
      return [first, last]
    }
  }

  // MARK: Removal by tag

  /// The time of a removal by tag over that of a write.
  func invalidation() throws -> Figure {
    let count = isQuick ? 100_000 : 1_000_000
    let path = directory + "/tagged"
    defer { Files.remove(path) }
    let store = try SharedStore(at: path, .init(budget: .gigabytes(2)))
    defer { store.close() }
    let cache = PersistentCache<Int, Int>(storage: store, namespace: "tagged")
    for start in stride(from: 0, to: count, by: 5000) {
      try cache.setValues(
        (start..<start + 5000).lazy.map { (key: $0, value: $0) }, tags: [Self.tag])
    }
    guard try store.statistics().entries == count else {
      throw BenchFailure("The store does not have the \(count) entries.")
    }
    let child = try Child(["--child-tagged", path, "\(count)"])
    let reader = try Reader(store, count)
    let expected = [UInt64](repeating: UInt64(Reader.count), count: 2)
    try require(child.numbers(), expected, "by another process before the removal")
    try require(reader.hits(), expected, "before the removal")
    let first = try Rounds.nanoseconds { try reader.memory.removeAll(tagged: Self.tag) }
    // The next read of the other process, and of this one.
    try child.send("read")
    try require(child.numbers(), [0, 0], "by another process after the removal")
    try require(reader.hits(), [0, 0], "after the removal")
    let result = try Rounds.compare(count: isQuick ? 101 : 301) { _ in
      try Rounds.nanoseconds { try cache.removeAll(tagged: Self.tag) }
    } rival: { round in
      try Rounds.nanoseconds { try cache.setValue(round, forKey: count + round) }
    }
    try requireNewValues(cache, count)
    try child.send("read")
    try require(child.numbers(), [0, 0], "by another process after the rounds")
    try child.finish()
    let microseconds = String(format: "%.1f", first / 1000)
    return Figure(
      id: "eviction.tag_invalidation", value: result.ratio, unit: "x", bar: .atMost(2),
      own: result.own / 1000,
      rival: "Larder: setValue; the tag has \(count) entries, and its first removal takes "
        + "\(microseconds) us",
      rivalValue: result.rival / 1000, rivalUnit: "us", spread: result.spread)
  }

  private func require(_ hits: [UInt64], _ expected: [UInt64], _ text: String) throws {
    guard hits == expected else {
      throw BenchFailure(
        "Of \(Reader.count) reads from memory and from the store each, \(hits) have a value \(text); "
          + "\(expected) are right.")
    }
  }

  /// A value that is stored after a removal, with the tag or without, is not removed by it.
  private func requireNewValues(_ cache: PersistentCache<Int, Int>, _ count: Int) throws {
    try cache.setValue(1, forKey: -1, tags: [Self.tag])
    cache.clearMemoryCache()
    guard try cache.value(forKey: -1) == 1, try cache.value(forKey: count + 1) == 1 else {
      throw BenchFailure("A removal by tag removed a value that was stored later.")
    }
    try cache.removeAll(tagged: Self.tag)
  }

  static func child(_ path: String, count: Int) throws {
    let store = try SharedStore(at: path)
    let reader = try Reader(store, count)
    repeat {
      Child.say(try reader.hits().map(String.init).joined(separator: " "))
    } while readLine() == "read"
    store.close()
  }

  // MARK: Sliding expiration

  /// The clock of a store, which advances without the time.
  private final class ManualClock: Sendable {
    private let now = Atomic<Int64>(1_000_000_000_000)
    func advance(minutes: Int64) { now.wrappingAdd(minutes * 60_000, ordering: .relaxed) }
    var clock: StoreClock {
      StoreClock(millisecondsSince1970: { self.now.load(ordering: .relaxed) })
    }
  }

  /// The commits that a million uses of entries with a sliding expiration cause.
  func slidingWrites() throws -> Figure {
    let path = directory + "/sliding"
    defer { Files.remove(path) }
    let (keys, uses) = (1000, 1_000_000)
    let clock = ManualClock()
    let store = try SharedStore(
      at: path, .init(budget: .megabytes(256), clock: clock.clock))
    defer { store.close() }
    func cache(_ limit: Int) -> PersistentCache<Int, Int> {
      PersistentCache(
        storage: store, namespace: "sliding", options: CacheOptions(memoryCountLimit: limit))
    }
    let (memory, direct) = (cache(2 * keys), cache(0))
    try memory.setValues(
      (0..<2 * keys).lazy.map { (key: $0, value: $0) }, expires: .afterAccess(.seconds(3600)))
    // The first half is read from memory, the second from the store.
    func read(_ cache: PersistentCache<Int, Int>, _ key: Int) throws {
      guard try cache.value(forKey: key) == key else {
        throw BenchFailure("The value of key \(key) expired although it was used.")
      }
    }
    for key in 0..<keys { try read(memory, key) }
    clock.advance(minutes: 50)
    let before = try store.statistics()
    let time = try Rounds.nanoseconds {
      for use in 0..<uses / 2 {
        try read(memory, use % keys)
        try read(direct, keys + use % keys)
      }
    }
    // A turn of the store's thread, which removes entries that have expired.
    sleep(2)
    let after = try store.statistics()
    guard after.storeHits - before.storeHits >= uses / 2 else {
      throw BenchFailure(
        "Of \(uses / 2) reads \(after.storeHits - before.storeHits) hit the store.")
    }
    // The uses were recorded: the entries outlive the time that they had without them.
    clock.advance(minutes: 50)
    for key in 0..<keys {
      try read(memory, key)
      try read(direct, keys + key)
    }
    let commits = Double(after.commits - before.commits)
    return Figure(
      id: "eviction.sliding_writes", value: commits, unit: "commits", bar: .atMost(0), own: commits,
      rival: "none; \(uses) hits, half of them in memory and half in the store, of "
        + String(format: "%.0f ns", time / Double(uses)) + " on average",
      rivalValue: 0, rivalUnit: "commits")
  }
}
