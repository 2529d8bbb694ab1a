// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderTesting
import Synchronization
import Testing

extension Key where Value == Date {
  fileprivate static var lastLaunch: Key { Key("lastLaunch") }
}

/// Two types that are stored alike.
private enum First {
  struct Point: Codable, Sendable, Equatable { var x = 1, y = 2 }
}
private enum Second {
  struct Point: Codable, Sendable, Equatable { var x = 1, y = 2 }
}

@Suite(.timeLimit(.minutes(60))) struct MixedCacheTests {
  let directory: TemporaryDirectory
  let errors = Shared<[any Error]>([])
  let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    let errors = errors
    store = try SharedStore(
      at: directory.path + "/store",
      .init(onError: { error in errors.value.withLock { $0.append(error) } }))
  }

  @Test(arguments: ["cbor", "property list", "memory", "custom"])
  func `Values of many types are read as written, each by its key`(kind: String) async throws {
    let options = CacheOptions(codec: kind == "property list" ? .propertyList : .cbor)
    let drawer = Drawer()
    func make() -> MixedPersistentCache {
      switch kind {
      case "memory": MixedPersistentCache(storage: nil)
      case "custom": MixedPersistentCache(storage: drawer, namespace: "m", options: options)
      default: MixedPersistentCache(storage: store, namespace: "m", options: options)
      }
    }
    let cache = make()
    let now = Date(timeIntervalSinceReferenceDate: 700_000_000.25)
    cache[.lastLaunch] = now
    cache[Key("text")] = "text"
    cache[Key("bytes")] = Data([1, 2])
    cache[Key("list")] = [1, 2, 3]
    cache[Key("url")] = URL(string: "https://example.com/a?b")!
    try await cache.setValue(First.Point(x: 5), forKey: Key("point"))
    for other in kind == "memory" ? [cache] : [cache, make()] {
      #expect(other[.lastLaunch] == now)
      #expect(other[Key("text")] == "text")
      #expect(try await other.value(forKey: Key<Data>("bytes")) == Data([1, 2]))
      #expect(try await other.value(forKey: Key<[Int]>("list")) == [1, 2, 3])
      #expect(other[Key("url")] == URL(string: "https://example.com/a?b")!)
      #expect(other[Key("point")] == First.Point(x: 5))
      if kind != "memory" {
        try other.sync()
        other.clearMemoryCache()
        #expect(other[Key("point")] == First.Point(x: 5))
      }
    }
    cache[.lastLaunch] = nil
    #expect(cache[.lastLaunch] == nil)
    #expect(try await cache.removeValue(forKey: Key<String>("text")))
    #expect(try !cache.contains(Key<String>("text")))
    try await cache.removeAll()
    #expect(cache[Key<[Int]>("list")] == nil)
  }

  @Test(arguments: [false, true])
  func `Keys of one name and two types never decode each other's values`(
    forgets: Bool
  ) async throws {
    let cache = MixedPersistentCache(storage: store)
    let (first, second) = (Key<First.Point>("p"), Key<Second.Point>("p"))
    try await cache.setValue(First.Point(x: 9), forKey: first)
    if forgets { cache.clearMemoryCache() }
    #expect(cache[second] == nil && cache[item: second] == nil)
    #expect(errors.value.withLock { $0.count } == 2)
    let error = await #expect(throws: StoreError.self) { try await cache.value(forKey: second) }
    #expect(error?.code == .unreadableEntry)
    #expect(error?.message.contains("First.Point") == true)
    // Numbers that fit are other types all the same.
    cache[Key<Int>("n")] = 1
    #expect(cache[Key<UInt8>("n")] == nil && cache[Key<Double>("n")] == nil)
    #expect(cache[Key<Int>("n")] == 1)
    #expect(cache[first] == First.Point(x: 9))
    // A computation or an explicit set replaces it.
    #expect(try await cache.value(forKey: second) { Second.Point(y: 7) } == Second.Point(y: 7))
    if forgets { cache.clearMemoryCache() }
    #expect(cache[second] == Second.Point(y: 7) && cache[first] == nil)
    #expect(cache.fetch(first) { First.Point(x: 3) } == First.Point(x: 3))
    #expect(cache[first] == First.Point(x: 3) && cache[second] == nil)
    // A plain cache of the namespace does not take one for its own.
    let plain = PersistentCache<String, Int>(storage: store)
    await #expect(throws: StoreError.self) { try await plain.value(forKey: "n") }
    plain["plain"] = 4
    await #expect(throws: StoreError.self) { try await cache.value(forKey: Key<Int>("plain")) }
  }

  @Test func `Items expire, fetches complete on their queue, values are observed`() async throws {
    let cache = MixedPersistentCache(storage: store, namespace: "m")
    let key = Key<[String]>("k")
    cache[item: key] = Item(["old"], expiresIn: -1)
    #expect(cache[key] == nil && cache[item: key] == nil)
    let queue = DispatchQueue(label: "mixed")
    let mark = DispatchSpecificKey<Bool>()
    queue.setSpecific(key: mark, value: true)
    for _ in 0..<2 {
      let (value, isThere) = await withCheckedContinuation { continuation in
        cache.fetch(key, queue: queue, fallback: { ["new"] }) {
          continuation.resume(returning: ($0, DispatchQueue.getSpecific(key: mark) == true))
        }
      }
      #expect(value == ["new"] && isThere)
    }
    let found = await withCheckedContinuation { continuation in
      cache.fetch(key, queue: queue) { continuation.resume(returning: $0) }
    }
    #expect(found == ["new"])
    var values = cache.values(forKey: key).makeAsyncIterator()
    var updates = cache.updates(forKey: key).makeAsyncIterator()
    #expect(try await values.next() == ["new"])
    cache[item: key] = Item(["newer"], expiresIn: 1000)
    #expect(try await values.next() == ["newer"])
    #expect(try await updates.next() == ["newer"])
    let item = try #require(cache[item: key])
    #expect(item.isValid && item.expiration != nil)
    cache[Key<Int>("k")] = 1
    await #expect(throws: StoreError.self) { try await values.next() }
  }

  @Test func `A value that cannot be encoded leaves the old one and is reported`() throws {
    let cache = MixedPersistentCache(
      storage: store, options: .init(codec: .json))
    let key = Key<[Double]>("k")
    cache[key] = [1]
    cache[key] = [.infinity]
    #expect(cache[key] == [1])
    #expect(errors.value.withLock { $0.count } == 1)
    #expect(throws: (any Error).self) { try cache.setValue([.nan], forKey: key) }
  }
}
