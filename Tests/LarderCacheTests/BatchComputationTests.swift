// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// Missing values of several keys, computed together.
@Suite(.timeLimit(.minutes(60))) struct BatchComputationTests {
  let directory: TemporaryDirectory
  let store: SharedStore
  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store")
  }

  private typealias Gate = FlightTests.Gate

  private func cache(_ usesStore: Bool) -> PersistentCache<Int, String> {
    PersistentCache(storage: usesStore ? store : nil, namespace: "n")
  }

  @Test(arguments: [true, false])
  func `Only the missing keys are computed, in one call`(usesStore: Bool) async throws {
    let cache = cache(usesStore)
    try await cache.setValue("stored", forKey: 1)
    let calls = Shared<[[Int]]>([])
    let values = try await cache.values(forKeys: [1, 2, 3, 2, 4]) { missing in
      calls.value.withLock { $0.append(missing.sorted()) }
      return [2: "two", 3: "three", 99: "not requested"]
    }
    #expect(values == [1: "stored", 2: "two", 3: "three"])
    #expect(calls.value.withLock { $0 } == [[2, 3, 4]])
    #expect(try await cache.value(forKey: 2) == "two")
    #expect(try await cache.value(forKey: 4) == nil)
    #expect(try await cache.value(forKey: 99) == nil)
    let again = try await cache.values(forKeys: [1, 2, 3]) { _ in
      Issue.record("nothing is missing")
      return [:]
    }
    #expect(again == values)
    #expect(try await cache.values(forKeys: []) { _ in [:] } == [:])
  }

  @Test(arguments: [true, false])
  func `Overlapping batches and single calls compute each key once`(usesStore: Bool) async throws {
    let cache = cache(usesStore)
    let computed = Shared<[Int: Int]>([:])
    @Sendable func note(_ keys: [Int]) {
      computed.value.withLock { for key in keys { $0[key, default: 0] += 1 } }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for start in 0..<20 {
        group.addTask {
          let keys = (start * 10)..<(start * 10 + 30)
          let values = try await cache.values(forKeys: keys) { missing in
            note(missing)
            await Task.yield()
            return Dictionary(uniqueKeysWithValues: missing.map { ($0, "\($0)") })
          }
          #expect(values == Dictionary(uniqueKeysWithValues: keys.map { ($0, "\($0)") }))
        }
        group.addTask {
          let value = try await cache.value(forKey: start * 10 + 5) {
            note([start * 10 + 5])
            return "\(start * 10 + 5)"
          }
          #expect(value == "\(start * 10 + 5)")
        }
      }
      try await group.waitForAll()
    }
    #expect(computed.value.withLock { $0.values.allSatisfy { $0 == 1 } && $0.count == 220 })
  }

  @Test func `A caller of a value gets its own if a batch has none for the key`() async throws {
    let cache = cache(true)
    let (begun, goOn) = (Gate(), Gate())
    let batch = Task {
      try await cache.values(forKeys: [1, 2]) { _ in
        begun.open()
        await goOn.wait()
        return [2: "two"]
      }
    }
    await begun.wait()
    let single = Task { try await cache.value(forKey: 1) { "one" } }
    try await awaitEventually("three wait") { cache.waitingCallers == 3 }
    goOn.open()
    #expect(try await batch.value == [2: "two"])
    #expect(try await single.value == "one")
  }

  @Test(arguments: [true, false])
  func `Callers whose flight has no value compute it once, and a batch its own`(
    usesStore: Bool
  ) async throws {
    let cache = cache(usesStore)
    let (begun, goOn, calls) = (Gate(), Gate(), Shared(0))
    let first = Task {
      try await cache.computedValue(forKey: 1) { _ in
        begun.open()
        await goOn.wait()
        return .absent(for: .seconds(60))
      }
    }
    await begun.wait()
    let others = (0..<20).map { _ in
      Task {
        try await cache.value(forKey: 1) {
          calls.value.withLock { $0 += 1 }
          await Task.yield()
          return "one"
        }
      }
    }
    let batch = Task {
      try await cache.values(forKeys: [1, 2]) { keys in
        Dictionary(uniqueKeysWithValues: keys.map { ($0, "one") })
      }
    }
    try await awaitEventually("all wait") { cache.waitingCallers >= 22 }
    goOn.open()
    #expect(try await first.value == nil)
    for other in others { #expect(try await other.value == "one") }
    #expect(try await batch.value == [1: "one", 2: "one"])
    #expect(calls.value.withLock { $0 } <= 1)
  }

  @Test(arguments: [true, false])
  func `An error and a cancellation end the computation of a batch`(usesStore: Bool) async throws {
    struct Failure: Error {}
    let cache = cache(usesStore)
    await #expect(throws: Failure.self) {
      try await cache.values(forKeys: [1, 2, 3]) { _ in throw Failure() }
    }
    let (begun, ended) = (Gate(), Gate())
    let waiting = Task {
      try await cache.values(forKeys: [1, 2, 3]) { _ in
        begun.open()
        defer { ended.open() }
        try await Gate().hang()
        return [:]
      }
    }
    await begun.wait()
    waiting.cancel()
    await #expect(throws: CancellationError.self) { try await waiting.value }
    await ended.wait()
    #expect(try await cache.values(forKeys: [1]) { _ in [1: "one"] } == [1: "one"])
  }

  @Test func `A batch that requests its own key is an error`() async throws {
    let cache = cache(true)
    let error = await #expect(throws: StoreError.self) {
      try await cache.values(forKeys: [1, 2, 3]) { missing in
        _ = try await cache.value(forKey: missing[2]) { "itself" }
        return [:]
      }
    }
    #expect(error?.code == .recursiveComputation)
  }

  @Test func `Callers of the different forms share one computation`() async throws {
    let cache = cache(true)
    let (begun, goOn, calls) = (Gate(), Gate(), Shared(0))
    let first = Task {
      try await cache.value(forKey: 1, absentFor: .seconds(60)) {
        calls.value.withLock { $0 += 1 }
        begun.open()
        await goOn.wait()
        return "one"
      }
    }
    await begun.wait()
    let others = [
      Task { try await cache.value(forKey: 1) { "other" } as String? },
      Task { try await cache.computedValue(forKey: 1) { _ in Computed("another") } },
      Task { try await cache.values(forKeys: [1]) { _ in [1: "yet another"] }[1] },
    ]
    try await awaitEventually("four wait") { cache.waitingCallers == 4 }
    goOn.open()
    #expect(try await first.value == "one")
    for other in others { #expect(try await other.value == "one") }
    #expect(calls.value.withLock { $0 } == 1)
  }
}
