// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Reads that are not older than a commit.
@Suite(.timeLimit(.minutes(60))) struct CommitTokenTests {
  let directory: TemporaryDirectory
  let store: SharedStore
  let cache: PersistentCache<String, Int>

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store")
    cache = PersistentCache(storage: store)
  }

  /// The token of a later commit.
  private func token(ahead count: UInt64) throws -> CommitToken {
    let newest = try store.commitToken()
    return CommitToken(storeID: newest.storeID, commitVersion: newest.commitVersion + count)
  }

  @Test func `The token of a write contains writes that were not committed yet`() async throws {
    for number in 0..<100 {
      cache["a"] = number
      let token = try await store.commitToken()
      let travelled = try CommitToken(token.description)
      #expect(travelled == token)
      #expect(try await cache.value(forKey: "a", atLeast: travelled, timeout: .zero) == number)
      #expect(try store.namespace("").bytes(forKey: "a") != nil)
    }
  }

  @Test func `A wait for a commit ends with the commit`() async throws {
    let next = try token(ahead: 2)
    let reading = Task { try await cache.value(forKey: "a", atLeast: next, timeout: .seconds(600)) }
    try await awaitEventually("the task waits") { store.observerCount > 0 }
    try await cache.setValue(1, forKey: "a")
    try await cache.setValue(2, forKey: "a")
    #expect(try await reading.value == 2)
    let later = try token(ahead: 1)
    let thread = JoinableThread { [store] in Result { try store.wait(for: later) } }
    try await cache.setValue(3, forKey: "a")
    try thread.join().get()
  }

  @Test func `A commit that does not come is an error at the deadline`() async throws {
    let never = try token(ahead: 1000)
    let thread = JoinableThread { [store] in
      Result { try store.wait(for: never, timeout: .milliseconds(20)) }
    }
    let blocking = #expect(throws: StoreError.self) { try thread.join().get() }
    #expect(blocking?.code == .commitTimeout)
    let suspending = await #expect(throws: StoreError.self) {
      try await store.wait(for: never, timeout: .milliseconds(20))
    }
    #expect(suspending?.code == .commitTimeout)
    let waiting = Task { try await store.wait(for: never, timeout: .seconds(600)) }
    try await awaitEventually("the task waits") { store.observerCount > 0 }
    waiting.cancel()
    await #expect(throws: CancellationError.self) { try await waiting.value }
    let other = try SharedStore(at: directory.path + "/other")
    let foreign = await #expect(throws: StoreError.self) {
      try await other.wait(for: never, timeout: .zero)
    }
    #expect(foreign?.code == .invalidOption)
    let closing = Task { try await store.wait(for: never, timeout: .seconds(600)) }
    try await awaitEventually("the task waits") { store.observerCount > 0 }
    store.close()
    let closed = await #expect(throws: StoreError.self) { try await closing.value }
    #expect(closed?.code == .closed)
  }

  @Test func `A durable token is on the disk, and a cache has none`() throws {
    let relaxed = try SharedStore(
      at: directory.path + "/relaxed", .init(durability: .relaxed, syncInterval: .seconds(3600)))
    // The checkpoint thread syncs the first commit, with which the log begins, at once.
    try relaxed.setBytes([0], forKey: "a")
    try relaxed.sync()
    try relaxed.setBytes([1], forKey: "a")
    let token = try relaxed.commitToken()
    let generation = try relaxed.core.generation()
    #expect(generation.table.durableVersion < token.commitVersion)
    try relaxed.waitUntilDurable(token)
    #expect(generation.table.durableVersion >= token.commitVersion)
    let durable = try SharedStore(at: directory.path + "/durable", .init(durability: .durable))
    try durable.setBytes([1], forKey: "a")
    try durable.waitUntilDurable(durable.commitToken())
    let error = #expect(throws: StoreError.self) {
      try store.waitUntilDurable(store.commitToken())
    }
    #expect(error?.code == .invalidOption)
  }
}
