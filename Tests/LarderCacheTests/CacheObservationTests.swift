// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

private struct Plain: Codable, Sendable {
  var number: Int
}

@Suite(.timeLimit(.minutes(60))) struct CacheObservationTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()
  let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(
      at: directory.appending("store"), StoreOptions(clock: clock.storeClock))
  }

  @Test func `A key's values begin with the present one and follow every change`() async throws {
    let cache = PersistentCache<String, Int>(storage: store)
    let other = PersistentCache<String, Int>(storage: try SharedStore(at: store.path))
    cache["k"] = 1
    var values = cache.values(forKey: "k").makeAsyncIterator()
    #expect(try await values.next() == .some(1))
    try await other.setValue(2, forKey: "k")
    #expect(try await values.next() == .some(2))
    // Equal values and other keys are not delivered.
    try await other.setValue(2, forKey: "k")
    try await other.setValue(9, forKey: "other")
    cache["k"] = 3
    #expect(try await values.next() == .some(3))
    try await other.removeValue(forKey: "k")
    #expect(try await values.next() == .some(nil))
    try await other.setValue(4, forKey: "k")
    #expect(try await values.next() == .some(4))
    try await other.removeAll()
    #expect(try await values.next() == .some(nil))
  }

  @Test func `A value that expires is observed as nil without a write`() async throws {
    let cache = PersistentCache<String, Int>(storage: store)
    try await cache.setValue(1, forKey: "k", expires: .after(.seconds(3600)))
    var values = cache.values(forKey: "k").makeAsyncIterator()
    #expect(try await values.next() == .some(1))
    clock.advance(by: .seconds(3600))
    #expect(try await values.next() == .some(nil))
  }

  @Test func `Values without == are compared by what is stored`() async throws {
    let cache = PersistentCache<String, Plain>(storage: store)
    try await cache.setValue(Plain(number: 1), forKey: "k")
    var values = cache.values(forKey: "k").makeAsyncIterator()
    #expect(try await values.next()??.number == 1)
    try await cache.setValue(Plain(number: 1), forKey: "k")
    try await cache.setValue(Plain(number: 2), forKey: "k")
    #expect(try await values.next()??.number == 2)
  }

  @Test func `Cancelling and closing end the sequence, and free the observer`() async throws {
    let cache = PersistentCache<String, Int>(storage: store)
    let seen = AsyncStream<Int?>.makeStream()
    var stream = seen.stream.makeAsyncIterator()
    let task = Task {
      for try await value in cache.values(forKey: "k") { seen.continuation.yield(value) }
    }
    #expect(await stream.next() == .some(nil))
    task.cancel()
    try await task.value
    #expect(store.observerCount == 0)

    // Closed while another handle of this process keeps the files open.
    let handle = try SharedStore(at: store.path)
    let closing = PersistentCache<String, Int>(storage: handle)
    let other = Task {
      for try await value in closing.values(forKey: "k") { seen.continuation.yield(value) }
    }
    #expect(await stream.next() == .some(nil))
    handle.close()
    try await other.value
    #expect(store.observerCount == 0)
  }

  @Test func `A cache without a store reports changes of this process and expiry`() async throws {
    let cache = PersistentCache<String, Int>(storage: nil)
    var values = cache.values(forKey: "k").makeAsyncIterator()
    #expect(try await values.next() == .some(nil))
    cache["k"] = 1
    #expect(try await values.next() == .some(1))
    cache["other"] = 7
    cache["k"] = 1
    cache["k"] = 2
    #expect(try await values.next() == .some(2))
    try await cache.removeAll()
    #expect(try await values.next() == .some(nil))
    try await cache.setValue(3, forKey: "k")
    #expect(try await values.next() == .some(3))
    // The equal value is not delivered, whether it has expired before it is read or not.
    try await cache.setValue(3, forKey: "k", expires: .after(.milliseconds(20)))
    #expect(try await values.next() == .some(nil))

    let task = Task {
      for try await _ in cache.values(forKey: "k") {}
    }
    task.cancel()
    try await task.value
  }

  @Test func `An entry that cannot be read ends the sequence with an error`() async throws {
    let texts = PersistentCache<String, String>(storage: store)
    try await texts.setValue("no number", forKey: "k")
    var values = PersistentCache<String, Int>(storage: store).values(forKey: "k")
      .makeAsyncIterator()
    await #expect(throws: StoreError.self) { _ = try await values.next() }
  }
}
