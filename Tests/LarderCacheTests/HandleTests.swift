// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// The objects that handles retain, and the work that a hit avoids.
@Suite(.timeLimit(.minutes(60))) struct HandleTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// Whether this process, or any, has the store open.
  func isOpen() throws -> Bool {
    let presence = try OwnedFile(path: path + "/v1/g-1/presence")
    return try presence.isLockedElsewhere(at: 0)
  }

  @Test func `The last reference closes a store and commits what waits`() throws {
    do {
      let store = try SharedStore(at: path)
      let cache = PersistentCache<String, Int>(storage: store)
      cache["behind"] = 1
      let second = try SharedStore(at: path)
      second.close()
      #expect(try isOpen())
      #expect(cache["behind"] == 1)
    }
    #expect(try !isOpen())
    let cache = PersistentCache<String, Int>(storage: try SharedStore(at: path))
    #expect(cache["behind"] == 1)
    #expect(try isOpen())
  }

  @Test func `Closing commits everything that was set`() throws {
    for round in 0..<20 {
      let store = try SharedStore(at: path)
      let cache = PersistentCache<Int, Int>(storage: store)
      for key in 0..<500 { cache[key] = key + round }
      store.close()
      #expect(try !isOpen())
      let again = try SharedStore(at: path)
      let found = PersistentCache<Int, Int>(storage: again)
      for key in 0..<500 { #expect(found[key] == key + round) }
      again.close()
    }
  }

  @Test func `A failure is not taken for a miss`() throws {
    let store = try SharedStore(at: path)
    let errors = Mutex(0)
    let reporting = try SharedStore(
      at: path + "-2", .init(onError: { _ in errors.withLock { $0 += 1 } }))
    for store in [store, reporting] {
      let cache = PersistentCache<String, Int>(storage: store)
      #expect(try cache.value(forKey: "missing") == nil)
      #expect(try cache.values(forKeys: ["missing"]) == [:])
      #expect(try !cache.removeValue(forKey: "missing"))
      #expect(cache["missing"] == nil)
      #expect(errors.withLock { $0 } == 0)
      store.close()
      #expect(throws: StoreError.self) { try cache.value(forKey: "missing") }
      #expect(throws: StoreError.self) { try cache.values(forKeys: ["missing"]) }
      #expect(throws: StoreError.self) { try cache.contains("missing") }
      #expect(throws: StoreError.self) { try cache.keys() }
      #expect(cache["missing"] == nil)
    }
    // The subscript cannot throw: it reports.
    #expect(errors.withLock { $0 } == 1)
  }

  @Test func `A computation of a closed store is an error and is not run`() async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<String, Int>(storage: store)
    store.close()
    let calls = Shared(0)
    let error = await #expect(throws: StoreError.self) {
      try await cache.value(forKey: "k") {
        calls.value.withLock { $0 += 1 }
        return 1
      }
    }
    #expect(error?.code == .closed)
    #expect(calls.value.withLock { $0 } == 0)
  }

  // MARK: Hits

  @Test func `A hit reads no clock`() throws {
    let counter = Shared(0)
    var options = StoreOptions(
      clock: StoreClock {
        counter.value.withLock { $0 += 1 }
        return 1_700_000_000_000
      })
    options.sweepsWhenIdle = false
    let store = try SharedStore(at: path, options)
    let cache = PersistentCache<Int, Int>(storage: store)
    for key in 0..<10 { try cache.setValue(key, forKey: key) }
    try cache.setValue(1, forKey: 100, expires: .after(.seconds(10)))
    let before = counter.value.withLock { $0 }
    for round in 0..<1000 { #expect(cache[round % 10] == round % 10) }
    cache.clearMemoryCache()
    for round in 0..<10 { #expect(cache[round] == round) }
    #expect(counter.value.withLock { $0 } == before)
    // One that may have expired does.
    #expect(cache[100] == 1)
    #expect(counter.value.withLock { $0 } > before)
  }

  /// Counts how often it is decoded.
  struct Counted: Codable, Sendable, Equatable {
    static let decoded = Atomic<Int>(0)
    let number: Int

    init(_ number: Int) { self.number = number }
    init(from decoder: any Decoder) throws {
      number = try decoder.singleValueContainer().decode(Int.self)
      Self.decoded.wrappingAdd(1, ordering: .relaxed)
    }
    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      try container.encode(number)
    }
  }

  @Test func `A value is decoded again only when its own entry was written`() throws {
    var options = StoreOptions()
    // Sixteen slots for all keys: every write makes a sixteenth of memory stale.
    options.hashBits = 4
    let store = try SharedStore(at: path, options)
    let cache = PersistentCache<Int, Counted>(storage: store)
    try cache.setValue(Counted(7), forKey: 0)
    cache.clearMemoryCache()
    #expect(cache[0] == Counted(7))
    let before = Counted.decoded.load(ordering: .relaxed)
    let loads = try store.statistics().storeHits
    for key in 1...200 {
      try store.setBytes([1], forKey: key, in: "others")
      #expect(cache[0] == Counted(7))
    }
    // It was searched for, and not decoded.
    #expect(try store.statistics().storeHits > loads)
    #expect(Counted.decoded.load(ordering: .relaxed) == before)
    let other = PersistentCache<Int, Counted>(storage: store)
    try other.setValue(Counted(8), forKey: 0)
    #expect(cache[0] == Counted(8))
    #expect(Counted.decoded.load(ordering: .relaxed) == before + 1)
  }
}
