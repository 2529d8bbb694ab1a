// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderTesting
import Synchronization
import Testing

/// Tasks that wait for one computation.
@Suite(.timeLimit(.minutes(15))) struct FlightTests {
  let directory: TemporaryDirectory
  let store: SharedStore
  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store")
  }

  /// Opens once, for all who wait.
  final class Gate: Sendable {
    private let stream: AsyncStream<Void>
    private let opener: AsyncStream<Void>.Continuation
    init() { (stream, opener) = AsyncStream.makeStream() }
    func open() { opener.finish() }
    /// Not cut short by a cancellation of the task that waits.
    func wait() async { await Task.detached { [stream] in for await _ in stream {} }.value }
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
    first.cancel()
    others[0].cancel()
    goOn.open()
    for other in others[1...] { #expect(try await other.value == 42) }
    _ = try? await first.value
    _ = try? await others[0].value
    #expect(calls.value.withLock { $0 } == 1)
    #expect(cache["k"] == 42)
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
    goOn.open()
    for task in tasks {
      await #expect(throws: Failure.self) { try await task.value }
    }
    #expect(cache["k"] == nil)
    #expect(try !cache.contains("k"))
    // The next one computes anew.
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

  @Test func `While a value is computed nobody holds a snapshot or the writer lock`() async throws {
    let cache = PersistentCache<Int, Int>(storage: store)
    for key in 0..<10 { try await cache.setValue(key, forKey: key) }
    let generation = try store.core.generation()
    let value = try await cache.value(forKey: 100) {
      #expect(cache[5] == 5)
      try expectNobodyReads(generation)
      // Whoever wants to write does.
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
}
