// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderCache
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// Writes that depend on what is stored.
@Suite(.timeLimit(.minutes(60))) struct ChangingTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  private func cache<Value>(
    _ hasStore: Bool, _ type: Value.Type = Value.self, clock: ManualClock? = nil
  ) throws -> PersistentCache<String, Value> {
    var options = StoreOptions()
    if let clock { options = StoreOptions(clock: clock.storeClock) }
    options.sweepsWhenIdle = false
    return PersistentCache(
      storage: hasStore ? try SharedStore(at: directory.path + "/store", options) : nil)
  }

  @Test func `A change that overlaps a set in memory is before or after it`() throws {
    let (inCost, hasRead, isSet) = (Event(), Event(), Event())
    let limit: UInt64 = 600_000_000_000
    let isFirst = Shared(true)
    let cache = PersistentCache<String, Int>(storage: nil) { _ in
      let wasFirst = isFirst.value.withLock { isFirst in
        defer { isFirst = false }
        return isFirst
      }
      // The set is in progress, and the change reads the key.
      if wasFirst {
        inCost.set()
        hasRead.wait(nanoseconds: limit)
      }
      return 1
    }
    let setter = JoinableThread {
      try? cache.setValue(100, forKey: "k")
      isSet.set()
    }
    #expect(inCost.wait(nanoseconds: limit))
    let value = try cache.update(forKey: "k") { old in
      hasRead.set()
      isSet.wait(nanoseconds: limit)
      return (old ?? 0) + 1
    }
    setter.join()
    let end = try cache.value(forKey: "k")
    #expect(value == 101 && end == 101, "\(value ?? -1) \(end ?? -1)")
  }

  @Test(arguments: [true, false])
  func `A value is set only if the key has none`(hasStore: Bool) async throws {
    let cache = try cache(hasStore, String.self)
    #expect(try await cache.setIfAbsent("a", forKey: "k"))
    #expect(try await !cache.setIfAbsent("b", forKey: "k"))
    #expect(cache["k"] == "a")
    // A pending write of this process counts.
    cache["w"] = "1"
    #expect(try await !cache.setIfAbsent("2", forKey: "w"))
    cache["w"] = nil
    #expect(try await cache.setIfAbsent("3", forKey: "w"))
    #expect(cache["w"] == "3")
    await #expect(throws: StoreError.self) {
      try await cache.setIfAbsent("c", forKey: "x", expires: .after(.zero))
    }
    #expect(cache["x"] == nil)
  }

  @Test(arguments: [true, false])
  func `A value is replaced or removed only if its version is the one that was read`(
    hasStore: Bool
  ) async throws {
    let cache = try cache(hasStore, Int.self)
    let nothing = try await cache.versionedValue(forKey: "k")
    #expect(nothing.value == nil && nothing.version == .absent)
    #expect(try await cache.compareAndSet(1, forKey: "k", ifVersion: nothing.version))
    let first = try await cache.versionedValue(forKey: "k")
    #expect(first.value == 1 && first.version != .absent)
    #expect(EntryVersion("\(first.version)") == first.version)
    #expect(try await !cache.compareAndSet(2, forKey: "k", ifVersion: .absent))
    try await cache.setValue(1, forKey: "k")
    // The same value, but another write.
    #expect(try await !cache.compareAndSet(2, forKey: "k", ifVersion: first.version))
    let second = try await cache.versionedValue(forKey: "k")
    #expect(try await cache.compareAndSet(2, forKey: "k", ifVersion: second.version))
    #expect(cache["k"] == 2)
    #expect(try await !cache.compareAndSet(nil, forKey: "k", ifVersion: second.version))
    #expect(
      try await cache.compareAndSet(
        nil, forKey: "k", ifVersion: try cache.versionedValue(forKey: "k").version))
    #expect(cache["k"] == nil)
    #expect(try await !cache.compareAndSet(nil, forKey: "k", ifVersion: .absent))
  }

  @Test func `A version of a store that was deleted is not that of a value in the next one`() throws
  {
    let directory = try TemporaryDirectory()
    var versions: [EntryVersion] = []
    for value in ["first", String(repeating: "second", count: 20_000)] {
      let store = try SharedStore(at: directory.path + "/store")
      let cache = PersistentCache<String, String>(storage: store)
      try cache.setValue(value, forKey: "k")
      for version in versions {
        #expect(try !cache.compareAndSet("lost", forKey: "k", ifVersion: version))
      }
      let version = try cache.versionedValue(forKey: "k").version
      #expect(try cache.compareAndSet("next", forKey: "k", ifVersion: version))
      versions.append(version)
      store.close()
      TestFiles.removeAll(directory.path + "/store")
    }
    #expect(Set(versions).count == 2)
    #expect(Set(versions.map(\.commitVersion)).count == 1, "The commits have the same number.")
  }

  @Test func `The text of a version that is none is refused`() {
    for text in ["", "x", "-1", "+1", "11111111111111111", "1.", ".1", "1.2.3"] {
      #expect(EntryVersion(text) == nil)
    }
    #expect(EntryVersion("0") == .absent)
  }

  @Test(arguments: [true, false])
  func `A touched value has another expiration, and keeps its tags`(hasStore: Bool) async throws {
    let clock = ManualClock()
    // A cache in memory uses the system's clock.
    let cache = try cache(hasStore, Int.self, clock: clock)
    #expect(try await !cache.touch(forKey: "k", expires: .never))
    try await cache.setValue(1, forKey: "k", expires: .after(.seconds(60)), tags: ["a"])
    #expect(try await cache.touch(forKey: "k", expires: .after(.seconds(1000))))
    if hasStore {
      clock.advance(by: .seconds(900))
      #expect(cache["k"] == 1)
    } else {
      #expect(try #require(cache[item: "k"]?.expiration).timeIntervalSinceNow > 500)
    }
    try await cache.removeAll(tagged: "a")
    #expect(cache["k"] == nil)
    await #expect(throws: StoreError.self) {
      try await cache.touch(forKey: "k", expires: .after(.zero))
    }
  }

  struct Refusal: Error {}

  @Test(arguments: [true, false])
  func `An update replaces, removes or leaves the value, as its closure returns`(
    hasStore: Bool
  ) async throws {
    let cache = try cache(hasStore, [Int].self)
    #expect(try await cache.update(forKey: "k") { ($0 ?? []) + [1] } == [1])
    #expect(try await cache.update(forKey: "k") { ($0 ?? []) + [2] } == [1, 2])
    await #expect(throws: Refusal.self) {
      try await cache.update(forKey: "k") { _ in throw Refusal() }
    }
    #expect(cache["k"] == [1, 2])
    #expect(try await cache.append([3], forKey: "k") == [1, 2, 3])
    #expect(try await cache.append([3], forKey: "new") == [3])
    #expect(try await cache.update(forKey: "k") { _ in nil } == nil)
    #expect(cache["k"] == nil)
    #expect(try await cache.swapValue([4], forKey: "k") == nil)
    #expect(try await cache.swapValue([5], forKey: "k") == [4])
    #expect(try await cache.takeValue(forKey: "k") == [5])
    #expect(try await cache.takeValue(forKey: "k") == nil)
    try await cache.setValues(["a", "b", "c"].map { (key: $0, value: [1]) })
    #expect(try await cache.removeValues(forKeys: ["a", "b", "x"]) == 2)
    #expect(cache["a"] == nil && cache["c"] == [1])
  }

  @Test(arguments: [true, false])
  func `Increments by many threads and tasks are all counted, and an overflow is an error`(
    hasStore: Bool
  ) async throws {
    let cache = try cache(hasStore, Int32.self)
    let threads = (0..<4).map { _ in
      JoinableThread {
        Result { for _ in 0..<500 { try cache.increment(forKey: "n") } }
      }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          for _ in 0..<100 {
            try await cache.increment(forKey: "n", by: 3)
            try await cache.update(forKey: "n") { ($0 ?? 0) - 1 }
          }
        }
      }
      try await group.waitForAll()
    }
    for thread in threads { try thread.join().get() }
    #expect(try await cache.value(forKey: "n") == 2000 + 4 * 100 * 2)
    try await cache.setValue(.max - 1, forKey: "m")
    #expect(try await cache.increment(forKey: "m") == .max)
    let error = await #expect(throws: StoreError.self) { try await cache.increment(forKey: "m") }
    #expect(error?.code == .overflow)
    #expect(try await cache.value(forKey: "m") == .max)
    #expect(try await cache.increment(forKey: "m", by: -1) == .max - 1)
  }

  @Test func `A counter that a codec of the user has written is read by that codec`() throws {
    struct Lines: ValueCodec {
      var identifier: CodecIdentifier { CodecIdentifier(rawValue: 300) }
      func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
        Array(try JSONEncoder().encode([value])) + [10]
      }
      func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try JSONDecoder().decode([Value].self, from: Data(bytes.dropLast()))[0]
      }
    }
    struct Visits: Codable, Sendable {
      let count: Int
      init(count: Int) { self.count = count }
      init(from decoder: any Decoder) throws {
        count = try decoder.singleValueContainer().decode(Int.self)
      }
      func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(count)
      }
    }
    let store = try SharedStore(at: directory.path + "/store")
    let options = CacheOptions(codec: Lines())
    let visits = PersistentCache<String, Visits>(storage: store, options: options)
    try visits.setValue(Visits(count: 5), forKey: "n")
    let counters = PersistentCache<String, Int>(storage: store, options: options)
    #expect(try counters.value(forKey: "n") == 5)
    #expect(try counters.increment(forKey: "n") == 6)
  }

  @Test func `A counter keeps the expiration that it was created with`() throws {
    let clock = ManualClock()
    let cache = try cache(true, Int.self, clock: clock)
    #expect(try cache.increment(forKey: "n", expires: .after(.seconds(60))) == 1)
    clock.advance(by: .seconds(40))
    #expect(try cache.increment(forKey: "n", expires: .after(.seconds(60))) == 2)
    clock.advance(by: .seconds(30))
    #expect(try cache.increment(forKey: "n", expires: .after(.seconds(60))) == 1)
  }

  @Test func `Of errors in a batch each belongs to its caller`() throws {
    // No write fails while the threads of a busy machine are waited for.
    let store = try SharedStore(
      at: directory.path + "/store", StoreOptions(writeTimeout: .seconds(800)))
    let numbers = PersistentCache<String, Int8>(storage: store)
    try numbers.setValue(.max, forKey: "full")
    try store.setBytes([1], forKey: "text")
    let (entered, goOn) = (Event(), Event())
    let holder = JoinableThread {
      try? store.write { _ in
        entered.set()
        goOn.wait(nanoseconds: 800_000_000_000)
      }
    }
    entered.wait(nanoseconds: 800_000_000_000)
    let results = ["full", "text", "good"].map { key in
      JoinableThread { Result { try numbers.increment(forKey: key) } }
    }
    try eventually("all are queued") { store.core.queuedWrites >= 3 }
    goOn.set()
    holder.join()
    let outcomes = results.map { $0.join() }
    #expect(throws: StoreError.self) { try outcomes[0].get() }
    #expect(throws: StoreError.self) { try outcomes[1].get() }
    #expect(try outcomes[2].get() == 1)
    #expect(try store.verify() == [])
  }

  @Test(arguments: [true, false])
  func `A closure that writes its own key gets an error, and the update ends`(
    hasStore: Bool
  ) throws {
    let cache = try cache(hasStore, Int.self)
    let error = Mutex<(any Error)?>(nil)
    let new = try cache.update(forKey: "k") { _ in
      do { try cache.setValue(7, forKey: "k") } catch let failure {
        error.withLock { $0 = failure }
      }
      return 8
    }
    #expect(new == 8 && cache["k"] == 8)
    #expect((error.withLock { $0 } as? StoreError)?.code == .insideTransaction)
  }

  @Test func `A value of another type is an error of a change, and stays`() throws {
    let store = try SharedStore(at: directory.path + "/store")
    let texts = PersistentCache<String, [String]>(storage: store)
    let numbers = PersistentCache<String, Int>(storage: store)
    try texts.setValue(["a"], forKey: "k")
    #expect(throws: StoreError.self) { try numbers.takeValue(forKey: "k") }
    #expect(throws: StoreError.self) { try numbers.swapValue(1, forKey: "k") }
    #expect(throws: StoreError.self) { try numbers.increment(forKey: "k") }
    #expect(throws: StoreError.self) { try numbers.update(forKey: "k") { $0 } }
    #expect(try !numbers.setIfAbsent(1, forKey: "k"))
    #expect(texts["k"] == ["a"])
  }

  @Test func `Without transactions a change is an error that names a store as the remedy`() throws {
    let cache = PersistentCache<String, Int>(storage: Drawer())
    let error = #expect(throws: StoreError.self) { try cache.increment(forKey: "n") }
    #expect(error?.code == .unsupportedByStorage)
    #expect(throws: StoreError.self) { try cache.setIfAbsent(1, forKey: "n") }
    #expect(throws: StoreError.self) { try cache.versionedValue(forKey: "n") }
    try cache.setValue(1, forKey: "n")
    #expect(try cache.removeValues(forKeys: ["n", "m"]) == 1)
  }

  @Test func `A transaction reads and writes values of several caches, all or none`() throws {
    let store = try SharedStore(at: directory.path + "/store")
    let balances = PersistentCache<String, Int>(storage: store, namespace: "balances")
    let receipts = PersistentCache<Int, String>(storage: store, namespace: "receipts")
    try balances.setValue(100, forKey: "ada")
    try store.write { transaction in
      let old = try transaction.value(forKey: "ada", in: balances) ?? 0
      try transaction.setValue(old - 5, forKey: "ada", in: balances)
      try transaction.setValue("5 from ada", forKey: 1, in: receipts)
      #expect(try transaction.value(forKey: "ada", in: balances) == 95)
    }
    #expect(balances["ada"] == 95 && receipts[1] == "5 from ada")
    #expect(throws: Refusal.self) {
      try store.write { transaction in
        #expect(try transaction.removeValue(forKey: "ada", in: balances))
        try transaction.setValue("all", forKey: 2, in: receipts)
        throw Refusal()
      }
    }
    #expect(balances["ada"] == 95 && receipts[2] == nil)
    let other = PersistentCache<String, Int>(
      storage: try SharedStore(at: directory.path + "/other"))
    let error = #expect(throws: StoreError.self) {
      try store.write { try $0.setValue(1, forKey: "a", in: other) }
    }
    #expect(error?.code == .invalidOption)
    #expect(throws: StoreError.self) {
      let local = PersistentCache<String, Int>(storage: nil)
      try store.write { try $0.setValue(1, forKey: "a", in: local) }
    }
  }
}
