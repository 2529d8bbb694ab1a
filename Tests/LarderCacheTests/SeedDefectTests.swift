// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

/// Defects of caches that came before, each as a test of what has to happen instead.
@Suite(.timeLimit(.minutes(60))) struct SeedDefectTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  @Test(.enabled(if: hasTools, needsTools)) func `M15: writers in several processes lose no write`()
    throws
  {
    let tool = try TestExecutable.tool.path
    let path = path
    let store = try SharedStore(at: path)
    // A process costs much more than a write: two of them come and go all the time.
    let processes = (0..<2).map { process in
      JoinableThread {
        for index in 0..<40 {
          let key = "p\(process)-\(index)"
          let outcome = try? ChildProcess.run(tool, ["set", key, key, "--store", path])
          if outcome?.status.isSuccess != true {
            Issue.record("\(key): \(outcome?.standardError ?? "not run")")
          }
        }
      }
    }
    let threads = (0..<4).map { thread in
      JoinableThread {
        do {
          let own = try SharedStore(at: path)
          let cache = PersistentCache<String, String>(storage: own)
          for index in 0..<500 { try cache.setValue("\(index)", forKey: "t\(thread)-\(index)") }
        } catch {
          Issue.record(error)
        }
      }
    }
    for thread in threads { thread.join() }
    for process in processes { process.join() }
    let cache = PersistentCache<String, String>(storage: store)
    for thread in 0..<4 {
      for index in 0..<500 { #expect(cache["t\(thread)-\(index)"] == "\(index)") }
    }
    for process in 0..<2 {
      for index in 0..<40 { #expect(cache["p\(process)-\(index)"] == "p\(process)-\(index)") }
    }
    #expect(try store.statistics().entries == 2080)
    #expect(try store.verify() == [])
  }

  @Test(arguments: [false, true])
  func `M16: an expired value is computed again, in memory or not`(forgets: Bool) async throws {
    let clock = ManualClock()
    let store = try SharedStore(at: path, .init(clock: StoreClock { clock.now }))
    let cache = PersistentCache<String, Int>(storage: store)
    try await cache.setValue(1, forKey: "k", expires: .after(.seconds(10)))
    #expect(try await cache.value(forKey: "k") { 2 } == 1)
    clock.advance(by: .seconds(10))
    if forgets { cache.clearMemoryCache() }
    #expect(try await cache.value(forKey: "k") { 3 } == 3)
    #expect(cache["k"] == 3)
  }

  @Test func `M17: short byte strings are read as written`() throws {
    let store = try SharedStore(at: path)
    let data = PersistentCache<Int, Data>(storage: store, namespace: "data")
    let arrays = PersistentCache<Int, [UInt8]>(storage: store, namespace: "arrays")
    for count in 0...20 {
      let bytes = (0..<count).map { UInt8($0 * 13 + 1) }
      try data.setValue(Data(bytes), forKey: count)
      arrays[count] = bytes
    }
    try store.sync()
    data.clearMemoryCache()
    arrays.clearMemoryCache()
    for count in 0...20 {
      let bytes = (0..<count).map { UInt8($0 * 13 + 1) }
      #expect(data[count] == Data(bytes))
      #expect(arrays[count] == bytes)
    }
    // A slice does not begin at zero.
    data[100] = Data([9, 8, 7, 6])[2...]
    try store.sync()
    data.clearMemoryCache()
    #expect(data[100] == Data([7, 6]))
  }

  @Test func `M18: a cache is used inside closures while writes are queued`() async throws {
    let errors = Mutex(0)
    let box = Mutex<PersistentCache<String, Int>?>(nil)
    let store = try SharedStore(
      at: path,
      .init(onError: { _ in
        // Called from inside the cache: using it must not wait for itself.
        let cache = box.withLock { $0 }
        cache?["seen"] = cache?["k"]
        errors.withLock { $0 += 1 }
      }))
    let cache = PersistentCache<String, Int>(storage: store)
    box.withLock { $0 = cache }
    for round in 0..<200 {
      cache["k"] = round
      #expect(cache.fetch("f\(round)") { (cache["k"] ?? -1) + 1 } == round + 1)
      let value = try await cache.value(forKey: "v\(round)") {
        cache["other"] = round
        return (cache["k"] ?? -1) + (try await cache.value(forKey: "inner\(round)") { 1000 })
      }
      #expect(value == round + 1000)
    }
    let wrong = PersistentCache<String, String>(storage: store)
    try await wrong.setValue("text", forKey: "wrong")
    #expect(cache["wrong"] == nil)
    #expect(errors.withLock { $0 } == 1)
    #expect(cache["seen"] == 199)
    box.withLock { $0 = nil }
    #expect(try store.verify() == [])
  }

  @Test func `M19: namespace and key never run together`() throws {
    let store = try SharedStore(at: path)
    let first = PersistentCache<String, Int>(storage: store, namespace: "A")
    let second = PersistentCache<String, Int>(storage: store, namespace: "AB")
    let none = PersistentCache<String, Int>(storage: store)
    try first.setValue(1, forKey: "Bx")
    #expect(try second.value(forKey: "x") == nil)
    #expect(try none.value(forKey: "ABx") == nil)
    try second.setValue(2, forKey: "x")
    try none.setValue(3, forKey: "ABx")
    for cache in [first, second, none] { cache.clearMemoryCache() }
    #expect(first["Bx"] == 1 && second["x"] == 2 && none["ABx"] == 3)
    try second.removeAll()
    #expect(first["Bx"] == 1 && second["x"] == nil && none["ABx"] == 3)
  }

  @Test func `M20: what was read is kept in memory, what was removed leaves nothing`() throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<String, Int>(storage: store)
    try cache.setValue(1, forKey: "k")
    cache.clearMemoryCache()
    let before = try store.statistics()
    for _ in 0..<5 { #expect(cache["k"] == 1) }
    #expect(try store.statistics().storeHits == before.storeHits + 1)
    #expect(try store.statistics().entries == 1)
    #expect(try cache.removeValue(forKey: "k"))
    cache["q"] = 1
    cache["q"] = nil
    try cache.sync()
    let after = try store.statistics()
    #expect(after.entries == 0 && after.bytes == 0)
    #expect(try !cache.removeValue(forKey: "k"))
    #expect(try store.verify() == [])
  }

  /// Encodes unless the test forbids it.
  struct Moody: Codable, Sendable, Hashable {
    var number: Int
    struct Refusal: Error {}

    init(_ number: Int) { self.number = number }
    init(from decoder: any Decoder) throws {
      number = try decoder.singleValueContainer().decode(Int.self)
    }
    func encode(to encoder: any Encoder) throws {
      if number < 0 { throw Refusal() }
      var container = encoder.singleValueContainer()
      try container.encode(number)
    }
  }

  @Test func `A value that cannot be encoded leaves the old one and is reported`() async throws {
    let errors = Mutex<[any Error]>([])
    let store = try SharedStore(
      at: path, .init(onError: { error in errors.withLock { $0.append(error) } }))
    let cache = PersistentCache<String, Moody>(storage: store)
    try await cache.setValue(Moody(1), forKey: "k")
    await #expect(throws: (any Error).self) { try await cache.setValue(Moody(-1), forKey: "k") }
    #expect(errors.withLock { $0.isEmpty })
    cache["k"] = Moody(-2)
    cache[item: "k"] = Item(Moody(-3), expiresIn: 100)
    #expect(errors.withLock { $0.count } == 2)
    #expect(cache["k"] == Moody(1))
    try cache.sync()
    cache.clearMemoryCache()
    #expect(cache["k"] == Moody(1))
    #expect(try store.statistics().entries == 1)
  }
}
