// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// The thread that closes a store, and the one that runs queued work.
@Suite(.timeLimit(.minutes(60))) struct LastHandleTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }
  /// No write fails while the threads of a busy machine are waited for.
  let patient = StoreOptions(openTimeout: .seconds(800), writeTimeout: .seconds(800))

  /// The only handle of a store.
  final class Held: Sendable {
    let store: Mutex<SharedStore?>
    init(_ store: SharedStore) { self.store = Mutex(store) }
  }

  /// The threads that ran something.
  final class Threads: Sendable {
    private let tokens = Mutex<Set<UInt64>>([])
    var all: Set<UInt64> { tokens.withLock { $0 } }
    func note() { tokens.withLock { _ = $0.insert(OSThread.token) } }
  }

  @Test func `The last handle released on the store's own thread commits what is queued`() throws {
    let (entered, goOn) = (Event(), Event())
    do {
      let store = try SharedStore(at: path, patient)
      let cache = PersistentCache<Int, Int>(storage: store)
      try store.core.enqueueWriteBehind(
        WriteRequest(
          .exclusive { _ in
            entered.set()
            goOn.wait(nanoseconds: 800_000_000_000)
            withExtendedLifetime(store) {}
          }))
      entered.wait(nanoseconds: 800_000_000_000)
      for key in 0..<100 { cache[key] = key }
    }
    let start = ContinuousClock.now
    goOn.set()
    let other = try SharedStore(at: path + "-2", patient)
    other.close()
    let again = try SharedStore(at: path, patient)
    // No thread has waited for itself until the limit of 800 seconds.
    #expect(ContinuousClock.now - start < .seconds(600))
    let cache = PersistentCache<Int, Int>(storage: again)
    #expect((0..<100).filter { cache[$0] != $0 } == [])
  }

  @Test func `The last handle released inside a read or a transaction closes the store`() throws {
    for isReading in [true, false] {
      let held = Held(try SharedStore(at: path, patient))
      let core = held.store.withLock { $0!.core }
      if isReading {
        try core.withGeneration { generation in
          try generation.withSnapshot { _ in held.store.withLock { $0 = nil } }
        }
      } else {
        try core.write { _ in held.store.withLock { $0 = nil } }
      }
      let start = ContinuousClock.now
      let again = try SharedStore(at: path, patient)
      #expect(again.core !== core)
      #expect(ContinuousClock.now - start < .seconds(600))
      try again.setBytes([1], forKey: 1)
      again.close()
    }
  }

  @Test func `Closing commits the writes of tasks that wait`() async throws {
    let store = try SharedStore(at: path, patient)
    let cache = PersistentCache<Int, Int>(storage: store)
    let (entered, goOn) = (Event(), Event())
    try store.core.enqueueWriteBehind(
      WriteRequest(
        .exclusive { _ in
          entered.set()
          goOn.wait(nanoseconds: 800_000_000_000)
        }))
    entered.wait(nanoseconds: 800_000_000_000)
    let tasks = (0..<20).map { key in
      Task { try await cache.setValue(key, forKey: key) }
    }
    try await awaitEventually("all writes are queued") { store.core.queuedWrites >= 20 }
    let closer = JoinableThread { store.close() }
    goOn.set()
    for task in tasks { try await task.value }
    closer.join()
    let again = PersistentCache<Int, Int>(storage: try SharedStore(at: path))
    #expect((0..<20).filter { again[$0] != $0 } == [])
  }

  @Test func `A thread that waits for its write runs no closure of an asynchronous caller`()
    async throws
  {
    let store = try SharedStore(at: path, patient)
    let (own, bodies) = (Threads(), Threads())
    for round in 0..<20 {
      let (entered, goOn) = (Event(), Event())
      let first = JoinableThread {
        try? store.write { _ in
          entered.set()
          goOn.wait(nanoseconds: 800_000_000_000)
        }
        own.note()
      }
      entered.wait(nanoseconds: 800_000_000_000)
      let task = Task {
        try await store.write { transaction in
          bodies.note()
          try transaction.setBytes([1], forKey: round)
        }
      }
      // The checkpoint of an idle store may be queued as well.
      try await awaitEventually("the task's write is queued") { store.core.queuedWrites >= 1 }
      let second = JoinableThread {
        own.note()
        try? store.setBytes([2], forKey: -1 - round)
      }
      try await awaitEventually("both writes are queued") { store.core.queuedWrites >= 2 }
      goOn.set()
      try await task.value
      first.join()
      second.join()
      #expect(try store.bytes(forKey: round) == [1])
      #expect(try store.bytes(forKey: -1 - round) == [2])
    }
    #expect(bodies.all.isDisjoint(with: own.all))
    #expect(bodies.all.count == 1)
  }

  @Test func `A damaged writer ticket holds no writer up`() throws {
    let store = try SharedStore(at: path, patient)
    try store.setBytes([1], forKey: 1)
    let table = path + "/v1/g-1/shared.table"
    for word: UInt32 in [77, 5000, 1 << 31, 1 << 31 | 9, .max] {
      var bytes: [UInt8] = []
      bytes.append(littleEndian: word)
      try TestFiles.overwrite(bytes, at: SharedTableLayout.ticket, in: table)
      let start = ContinuousClock.now
      try store.setBytes([2], forKey: Int(word))
      #expect(ContinuousClock.now - start < .seconds(600))
    }
    #expect(try store.verify() == [])
  }
}
