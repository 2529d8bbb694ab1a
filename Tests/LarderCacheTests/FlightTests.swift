// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderCoding
import LarderEngine
import LarderLMDB
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// Tasks that wait for one computation.
@Suite(.timeLimit(.minutes(60))) struct FlightTests {
  let directory: TemporaryDirectory
  let store: SharedStore
  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store")
  }

  /// Opens once, for all waiting tasks.
  final class Gate: Sendable {
    private let stream: AsyncStream<Void>
    private let opener: AsyncStream<Void>.Continuation
    init() { (stream, opener) = AsyncStream.makeStream() }
    func open() { opener.finish() }
    /// Not cut short by a cancellation of the task that waits.
    func wait() async { await Task.detached { [stream] in for await _ in stream {} }.value }
    /// Returns when the task is cancelled, and throws: a computation that hangs.
    func hang() async throws {
      for await _ in stream {}
      try Task.checkCancellation()
    }
  }

  @Test(arguments: [true, false])
  func `Cancelling one caller leaves the others their computation`(usesStore: Bool) async throws {
    let cache = PersistentCache<String, Int>(storage: usesStore ? store : nil)
    let (begun, goOn, calls) = (Gate(), Gate(), Shared(0))
    let compute: @Sendable () async throws -> Int = {
      calls.value.withLock { $0 += 1 }
      begun.open()
      await goOn.wait()
      try Task.checkCancellation()
      return 42
    }
    let first = Task { try await cache.value(forKey: "k", compute) }
    await begun.wait()
    let others = (0..<4).map { _ in Task { try await cache.value(forKey: "k", compute) } }
    try await awaitEventually("five wait") { cache.waitingCallers == 5 }
    first.cancel()
    others[0].cancel()
    goOn.open()
    for other in others[1...] { #expect(try await other.value == 42) }
    _ = try? await first.value
    _ = try? await others[0].value
    #expect(calls.value.withLock { $0 } == 1)
    #expect(cache["k"] == 42)
  }

  @Test func `A value is computed while the store's directory is missing`() async throws {
    let cache = PersistentCache<String, Int>(storage: store)
    try await cache.setValue(1, forKey: "stored")
    TestFiles.removeAll(directory.path + "/store")
    for number in 0..<3 {
      #expect(try await cache.value(forKey: "k\(number)") { number } == number)
    }
  }

  struct Failure: Error, Equatable { let number: Int }

  @Test(arguments: [true, false])
  func `A failed computation is every caller's error and nothing is stored`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(storage: usesStore ? store : nil)
    let (begun, goOn, calls) = (Gate(), Gate(), Shared(0))
    let tasks = (0..<8).map { _ in
      Task {
        try await cache.value(forKey: "k") {
          let number = calls.value.withLock {
            $0 += 1
            return $0
          }
          begun.open()
          await goOn.wait()
          throw Failure(number: number)
        }
      }
    }
    await begun.wait()
    // A task that begins later would compute again.
    try await awaitEventually("eight wait") { cache.waitingCallers == 8 }
    goOn.open()
    for task in tasks {
      await #expect(throws: Failure.self) { try await task.value }
    }
    #expect(cache["k"] == nil)
    #expect(try await !cache.contains("k"))
    // The next caller computes again.
    #expect(try await cache.value(forKey: "k") { 7 } == 7)
    #expect(cache["k"] == 7)
    if usesStore {
      #expect(try store.statistics().computations == 1)
      #expect(try store.statistics().entries == 1)
    }
  }

  func expectNobodyReads(_ generation: Generation) throws {
    let held = try generation.readers().filter { $0.transaction != nil }
    #expect(held.isEmpty)
  }

  @Test func `While a value is computed no snapshot and no writer lock is held`() async throws {
    let cache = PersistentCache<Int, Int>(storage: store)
    for key in 0..<10 { try await cache.setValue(key, forKey: key) }
    let generation = try store.core.generation()
    let value = try await cache.value(forKey: 100) {
      #expect(cache[5] == 5)
      try expectNobodyReads(generation)
      // Any caller may write.
      try await cache.setValue(1, forKey: 1)
      return try await cache.value(forKey: 101) {
        await Task.yield()
        try expectNobodyReads(generation)
        return 9
      }
    }
    #expect(value == 9 && cache[100] == 9 && cache[101] == 9)
    #expect(try !generation.readers().isEmpty)
  }

  // MARK: Waits

  @Test(arguments: [true, false])
  func `A cancelled caller does not wait for the computation it joined`(usesStore: Bool)
    async throws
  {
    let cache = PersistentCache<String, Int>(storage: usesStore ? store : nil)
    let (begun, goOn) = (Gate(), Gate())
    let first = Task {
      try await cache.value(forKey: "k") {
        begun.open()
        await goOn.wait()
        return 42
      }
    }
    await begun.wait()
    let others = (0..<4).map { _ in Task { try await cache.value(forKey: "k") { 1 } } }
    for other in others { other.cancel() }
    // The computation continues: only the cancellation ends these.
    for other in others {
      await #expect(throws: CancellationError.self) { try await other.value }
    }
    goOn.open()
    #expect(try await first.value == 42)
    #expect(cache["k"] == 42)
  }

  @Test(arguments: [true, false])
  func `A caller of a slow computation gets an error that names process and key`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(
      storage: usesStore ? store : nil, namespace: "slow",
      options: CacheOptions(computeTimeout: .milliseconds(200)))
    let (begun, goOn) = (Gate(), Gate())
    let first = Task {
      try await cache.value(forKey: "k") {
        begun.open()
        await goOn.wait()
        return 42
      }
    }
    await begun.wait()
    let error = await #expect(throws: StoreError.self) {
      try await cache.value(forKey: "k") { 1 }
    }
    #expect(error?.code == .computationStalled)
    #expect(error?.pid == ProcessIdentity.pid)
    #expect(error?.message.contains("key k of namespace slow") == true)
    // The limit is for callers that wait: the one that computes has none.
    goOn.open()
    #expect(try await first.value == 42)
  }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `Computations that wait for each other fail with an error that names the key`(
    usesStore: Bool
  ) async throws {
    let cache = PersistentCache<String, Int>(storage: usesStore ? store : nil)
    let begun = [Gate(), Gate()]
    let tasks = [("a", "b"), ("b", "a")].enumerated().map { index, keys in
      Task {
        try await cache.value(forKey: keys.0) {
          begun[index].open()
          await begun[1 - index].wait()
          return try await cache.value(forKey: keys.1) { 1 } + 1
        }
      }
    }
    var errors: [StoreError] = []
    for task in tasks {
      do { _ = try await task.value } catch let error as StoreError { errors.append(error) }
    }
    #expect(!errors.isEmpty)
    for error in errors {
      #expect(error.code == .recursiveComputation && error.pid == ProcessIdentity.pid)
      #expect(error.message.contains("key a") || error.message.contains("key b"))
    }
    // A circle of three, and none where two wait for one.
    let circle = await #expect(throws: StoreError.self) {
      try await cache.value(forKey: "x") {
        try await cache.value(forKey: "y") {
          try await cache.value(forKey: "z") { try await cache.value(forKey: "x") { 0 } }
        }
      }
    }
    #expect(circle?.code == .recursiveComputation)
    async let left = cache.value(forKey: "l") { try await cache.value(forKey: "m") { 5 } + 1 }
    async let right = cache.value(forKey: "r") { try await cache.value(forKey: "m") { 5 } + 2 }
    #expect(try await left == 6)
    #expect(try await right == 7)
  }

  @Test func `Equal keys of two stores are two computations`() async throws {
    let other = try SharedStore(at: directory.path + "/other")
    let (near, far) = (
      PersistentCache<String, Int>(storage: store), PersistentCache<String, Int>(storage: other)
    )
    let value = try await near.value(forKey: "k") { try await far.value(forKey: "k") { 1 } + 1 }
    #expect(value == 2 && near["k"] == 2 && far["k"] == 1)
  }

  // MARK: Writes before a computation

  @Test func `A computation after a removal is stored`() async throws {
    let cache = PersistentCache<Int, Int>(storage: store)
    for key in 0..<300 {
      if key.isMultiple(of: 2) { cache[key] = 1 }
      cache[key] = nil
      #expect(try await cache.value(forKey: key) { 10 } == 10)
      #expect(try await cache.contains(key))
    }
    #expect(try store.statistics().rejectedFills == 0)
  }

  @Test func `A computation after a transaction without changes begins at once`() async throws {
    let cache = PersistentCache<Int, Int>(storage: store)
    let space = try store.namespace("").space
    for key in 0..<20 {
      try await store.write { _ in }
      // A caller that naps for the commit of a transaction that has ended without one gets a limit in the end.
      let lease = try #require(
        try await store.core.acquireComputationLease(EncodedKey(key), in: space))
      #expect(lease.permit.newestAllowed == nil)
      store.core.release(lease)
      #expect(try await cache.value(forKey: key) { key } == key)
    }
  }
}
