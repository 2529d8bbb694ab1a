// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderTesting
import Testing

/// The choice of evicted entries and their number.
@Suite(.timeLimit(.minutes(60))) struct EvictionTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  func store(budget: ByteCount) throws -> SharedStore {
    var options = StoreOptions(budget: budget, clock: clock.storeClock)
    options.sweepsWhenIdle = false
    return try SharedStore(at: path, options)
  }

  /// A value whose entry under an `Int` key costs 256 bytes.
  static let value = [UInt8](repeating: 1, count: 256 - 64 - 8)

  @Test func `Expired entries are evicted before live ones`() throws {
    let store = try store(budget: .bytes(256 * 400))
    try store.write { transaction in
      for key in 0..<400 {
        try transaction.setBytes(
          Self.value, forKey: key,
          expires: key % 4 == 0 ? .after(.seconds(Int64(10 + key))) : .never)
      }
    }
    #expect(try store.statistics().bytes == 256 * 400)
    clock.advance(by: .seconds(1000))
    // As many as have expired fit without anything else being touched.
    for key in 1000..<1100 { try store.setBytes(Self.value, forKey: key) }
    let statistics = try store.statistics()
    #expect(statistics.expirations == 100 && statistics.evictions == 0)
    for key in 0..<400 where key % 4 != 0 { #expect(try store.bytes(forKey: key) != nil) }
    try store.setBytes(Self.value, forKey: 2000)
    #expect(try store.statistics().evictions > 0)
    #expect(try store.verify() == [])
  }

  @Test func `One insert takes at most 256 entries with it beyond what it needs`() throws {
    let store = try store(budget: .bytes(256 * 3000))
    try store.write { transaction in
      for key in 0..<3000 {
        try transaction.setBytes(
          Self.value, forKey: key, expires: key < 2000 ? .after(.seconds(10)) : .never)
      }
    }
    clock.advance(by: .seconds(20))
    // 2,000 have expired, one must go.
    try store.setBytes(Self.value, forKey: 5000)
    var statistics = try store.statistics()
    #expect(statistics.entries >= 3000 - 256 && statistics.evictions == 0)
    #expect(try store.removeExpired() >= 2000 - 257)
    try store.removeAll()
    // Nothing has expired; ten times the room of one entry is wanted.
    try store.write { transaction in
      for key in 0..<3000 { try transaction.setBytes(Self.value, forKey: key) }
    }
    let before = try store.statistics().evictions
    try store.setBytes([UInt8](repeating: 1, count: 2560 - 64 - 8), forKey: 6000)
    statistics = try store.statistics()
    #expect(statistics.evictions - before >= 10)
    #expect(statistics.evictions - before <= 10 + 256)
    #expect(try store.verify() == [])
  }

  @Test func `An expired entry is in no answer and in no list`() throws {
    let store = try store(budget: .megabytes(1))
    let cache = PersistentCache<String, String>(storage: store, namespace: "n")
    let namespace = try store.namespace("n")
    try cache.setValue("stays", forKey: "a")
    try cache.setValue("goes", forKey: "b", expires: .after(.milliseconds(10)))
    cache[item: "c"] = Item("waits", expiration: .init(timeIntervalSince1970: 1))
    clock.advance(by: .milliseconds(9))
    #expect(try cache.keys().sorted() == ["a", "b"])
    clock.advance(by: .milliseconds(1))
    for _ in 0..<2 {
      #expect(cache["b"] == nil && cache["c"] == nil)
      #expect(try cache.keys() == ["a"])
      #expect(try cache.values(forKeys: ["a", "b", "c"]) == ["a": "stays"])
      #expect(try !cache.contains("b") && !cache.contains("c"))
      #expect(try namespace.bytes(forKey: "b") == nil && !namespace.contains("b"))
      let inside = try store.write { try $0.bytes(forKey: "b", in: "n") }
      #expect(inside == nil)
      cache.clearMemoryCache()
    }
  }
}
