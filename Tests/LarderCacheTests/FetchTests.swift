// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation
import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// `fetch` with a queue: which thread calls what, and that something is called at all.
@Suite(.timeLimit(.minutes(60))) struct FetchTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// A serial queue that can identify itself.
  struct Marked: Sendable {
    private static let mark = DispatchSpecificKey<Bool>()
    let queue = DispatchQueue(label: "fetch")
    init() { queue.setSpecific(key: Self.mark, value: true) }
    var isCurrent: Bool { DispatchQueue.getSpecific(key: Self.mark) == true }
  }

  @Test(arguments: ["memory", "store", "nowhere"])
  func `Fallback and completion run once, on the queue that is given`(place: String) async throws {
    let cache = PersistentCache<String, Int>(storage: try SharedStore(at: path))
    if place != "nowhere" { try await cache.setValue(1, forKey: "k") }
    if place == "memory" { #expect(cache["k"] == 1) } else { cache.clearMemoryCache() }
    let marked = Marked()
    let calls = Shared<[String]>([])
    let note: @Sendable (String) -> Void = { name in
      calls.value.withLock { $0.append(marked.isCurrent ? name : name + " elsewhere") }
    }
    let value = await withCheckedContinuation { continuation in
      cache.fetch(
        "k", queue: marked.queue,
        fallback: {
          note("fallback")
          return 2
        },
        completion: {
          note("completion")
          continuation.resume(returning: $0)
        })
    }
    #expect(value == (place == "nowhere" ? 2 : 1))
    let expected = place == "nowhere" ? ["fallback", "completion"] : ["completion"]
    #expect(calls.value.withLock { $0 } == expected)
    // The fallback's value is stored.
    try cache.sync()
    cache.clearMemoryCache()
    #expect(cache["k"] == value)

    let present = await withCheckedContinuation { continuation in
      cache.fetch("k", queue: marked.queue) { value in
        note("present")
        continuation.resume(returning: value)
      }
    }
    #expect(present == value)
    let missing = await withCheckedContinuation { continuation in
      cache.fetch("missing", queue: marked.queue) { value in
        note("missing")
        continuation.resume(returning: value)
      }
    }
    #expect(missing == nil)
    #expect(calls.value.withLock { $0 } == expected + ["present", "missing"])
  }

  @Test func `Without a queue it is the main one`() async throws {
    // The queue and not the thread: a program that serves it by `dispatchMain` has no thread of it.
    let mark = DispatchSpecificKey<Bool>()
    DispatchQueue.main.setSpecific(key: mark, value: true)
    defer { DispatchQueue.main.setSpecific(key: mark, value: nil) }
    let cache = PersistentCache<String, Int>(storage: nil)
    for round in 0..<2 {
      let isMain = await withCheckedContinuation { continuation in
        cache.fetch(
          "k", fallback: { 1 },
          completion: { _ in
            continuation.resume(returning: DispatchQueue.getSpecific(key: mark) == true)
          })
      }
      #expect(isMain, "round \(round)")
    }
  }

  @Test func `A completion never runs inside of the call`() async throws {
    let cache = PersistentCache<String, Int>(storage: nil)
    cache["k"] = 1
    let marked = Marked()
    let order = Shared<[String]>([])
    await withCheckedContinuation { continuation in
      marked.queue.async {
        cache.fetch("k", queue: marked.queue) { _ in
          order.value.withLock { $0.append("completion") }
          continuation.resume()
        }
        order.value.withLock { $0.append("returned") }
      }
    }
    #expect(order.value.withLock { $0 } == ["returned", "completion"])
  }

  @Test(arguments: [false, true])
  func `M16: fetch never gives what has expired, in memory or not`(forgets: Bool) async throws {
    let clock = ManualClock()
    let store = try SharedStore(at: path, .init(clock: StoreClock { clock.now }))
    let cache = PersistentCache<String, Int>(storage: store)
    try await cache.setValue(1, forKey: "k", expires: .after(.seconds(10)))
    clock.advance(by: .seconds(10))
    if forgets { cache.clearMemoryCache() }
    let missing = await withCheckedContinuation { continuation in
      cache.fetch("k", queue: .global()) { continuation.resume(returning: $0) }
    }
    #expect(missing == nil)
    let value = await withCheckedContinuation { continuation in
      cache.fetch("k", queue: .global(), fallback: { 2 }) { continuation.resume(returning: $0) }
    }
    #expect(value == 2 && cache["k"] == 2)
    #expect(cache.fetch("k") { 3 } == 2)
  }

  @Test func `M18: completions use the cache while writes are queued`() async throws {
    let cache = PersistentCache<String, Int>(storage: try SharedStore(at: path))
    let marked = Marked()
    cache["hit"] = 1
    for round in 0..<100 {
      let value = await withCheckedContinuation { continuation in
        cache.fetch("hit", queue: marked.queue) { hit in
          cache["other"] = round
          let inner = cache["hit"]
          cache.fetch(
            "f\(round)", queue: marked.queue, fallback: { (cache["other"] ?? 0) + (inner ?? 0) }
          ) { continuation.resume(returning: $0 + (hit ?? 0)) }
        }
      }
      #expect(value == round + 2)
    }
  }

  @Test func `Many fetches of a key run one fallback`() async throws {
    let store = try SharedStore(at: path)
    let caches = (0..<2).map { _ in PersistentCache<String, Int>(storage: store) }
    let calls = Shared(0)
    await withTaskGroup(of: Int.self) { group in
      for index in 0..<32 {
        group.addTask {
          await withCheckedContinuation { continuation in
            caches[index % 2].fetch(
              "k", queue: .global(),
              fallback: {
                calls.value.withLock {
                  $0 += 1
                  return $0
                }
              }
            ) { continuation.resume(returning: $0) }
          }
        }
      }
      for await value in group { #expect(value == 1) }
    }
    #expect(calls.value.withLock { $0 } == 1)
    #expect(try store.statistics().computations == 1)
  }

  @Test func `A fetch on a closed store still calls its completion`() async throws {
    let errors = Shared(0)
    let store = try SharedStore(
      at: path, .init(onError: { _ in errors.value.withLock { $0 += 1 } }))
    let cache = PersistentCache<String, Int>(storage: store)
    store.close()
    let value = await withCheckedContinuation { continuation in
      cache.fetch("k", queue: .global(), fallback: { 2 }) { continuation.resume(returning: $0) }
    }
    #expect(value == 2)
    let missing = await withCheckedContinuation { continuation in
      cache.fetch("k", queue: .global()) { continuation.resume(returning: $0) }
    }
    #expect(missing == nil)
    #expect(errors.value.withLock { $0 } == 2)
  }

  @Test func `A fetch inside a computation of the same key ends`() async throws {
    let cache = PersistentCache<String, Int>(storage: try SharedStore(at: path))
    let value = try await cache.value(forKey: "k") {
      await withCheckedContinuation { continuation in
        cache.fetch("k", queue: .global(), fallback: { 7 }) { continuation.resume(returning: $0) }
      }
    }
    #expect(value == 7)
  }

  @Test func `Clearing memory calls back when it is done`() async throws {
    let cache = PersistentCache<String, Int>(storage: nil)
    cache["k"] = 1
    await withCheckedContinuation { continuation in
      cache.clearMemoryCache { continuation.resume() }
    }
    #expect(cache["k"] == nil)
  }
}
