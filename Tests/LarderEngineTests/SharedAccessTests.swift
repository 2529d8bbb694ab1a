// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// Read-write locks and semaphores within one process.
@Suite(.timeLimit(.minutes(60))) struct SharedAccessTests {
  let directory: TemporaryDirectory
  let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.appending("store"))
  }

  private func status(_ name: String) throws -> (holders: Int, waiters: Int) {
    let status = try store.locks().first { $0.name == name }
    return (status?.holders.count ?? 0, status?.waiters.count ?? 0)
  }

  /// Returns the code of the error that a function throws, or `nil`.
  private func code(_ body: () throws -> Void) -> StoreError.Code? {
    do {
      try body()
      return nil
    } catch {
      return (error as? StoreError)?.code
    }
  }

  @Test func `Readers share a lock, and a writer excludes readers and writers`() async throws {
    let lock = store.readWriteLock("a")
    @Sendable func read() async throws {
      try await lock.withReadLock(timeout: .zero) { held async in #expect(held.isHeld) }
    }
    @Sendable func write() async throws {
      try await lock.withWriteLock(timeout: .zero) { held async in #expect(held.isHeld) }
    }
    try await lock.withReadLock { _ in
      try await Task.detached { try await read() }.value
      let error = await #expect(throws: StoreError.self) {
        try await Task.detached { try await write() }.value
      }
      #expect(error?.code == .lockTimeout)
    }
    try await lock.withWriteLock { _ in
      for use in [read, write] {
        let error = await #expect(throws: StoreError.self) {
          try await Task.detached { try await use() }.value
        }
        #expect(error?.code == .lockTimeout)
      }
    }
    try await write()
  }

  @Test func `A writer that waits blocks later readers`() async throws {
    let lock = store.readWriteLock("a")
    var tasks: [Task<UInt64, any Error>] = []
    try await lock.withReadLock { _ in
      tasks.append(Task.detached { try await lock.withWriteLock { held async in held.token } })
      try await awaitEventually("the writer waits") { try status("a").waiters == 1 }
      for count in 2...3 {
        tasks.append(Task.detached { try await lock.withReadLock { held async in held.token } })
        try await awaitEventually("\(count) wait") { try status("a").waiters == count }
      }
      #expect(try status("a") == (1, 3))
    }
    // Tokens are the order of the grants.
    var tokens: [UInt64] = []
    for task in tasks { tokens.append(try await task.value) }
    #expect(tokens == tokens.sorted())
  }

  @Test func `A task that reads or writes gets an error at once when it waits for the lock`() throws
  {
    let lock = store.readWriteLock("a")
    try lock.withReadLock { _ in
      #expect(code { try lock.withWriteLock(timeout: .seconds(600)) { _ in } } == .lockedByCaller)
      #expect(code { try lock.withReadLock(timeout: .seconds(600)) { _ in } } == .lockedByCaller)
    }
    try lock.withWriteLock { _ in
      #expect(code { try lock.withReadLock(timeout: .seconds(600)) { _ in } } == .lockedByCaller)
    }
  }

  @Test func `As many callers as permits are inside, and never one more`() async throws {
    let semaphore = store.semaphore("a", permits: 3)
    let inside = Counter()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<30 {
        group.addTask {
          for round in 0..<5 {
            try await semaphore.withPermit(timeout: .seconds(600)) {
              inside.enter()
              await Task.yield()
              // Whatever the order of the tasks: these three stay until they were inside together.
              if task < 3, round == 0 {
                try await awaitEventually("three were inside") {
                  inside.most.load(ordering: .relaxed) == 3
                }
              }
              inside.leave()
            }
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(inside.most.load(ordering: .relaxed) == 3)
    #expect(try status("a") == (0, 0))
  }

  @Test func `A caller that has all permits gets an error at once`() throws {
    let semaphore = store.semaphore("a", permits: 2)
    try semaphore.withPermit {
      try semaphore.withPermit {
        #expect(code { try semaphore.withPermit(timeout: .seconds(600)) {} } == .lockedByCaller)
      }
    }
  }

  @Test func `Permits that differ between callers, or are out of range, are errors`() throws {
    try store.semaphore("a", permits: 2).withPermit {
      #expect(code { try store.semaphore("a", permits: 3).withPermit {} } == .invalidOption)
    }
    // Without callers the number can change.
    try store.semaphore("a", permits: 3).withPermit {}
    for permits in [0, -1, 4097] {
      #expect(code { try store.semaphore("a", permits: permits).withPermit {} } == .invalidOption)
    }
  }

  @Test func `Kinds have separate names`() throws {
    try store.lock("a").withLock(timeout: .zero) { _ in
      try store.readWriteLock("a").withWriteLock(timeout: .zero) { _ in
        try store.semaphore("a", permits: 1).withPermit(timeout: .zero) {
          let kinds = try store.locks().map(\.kind)
          #expect(kinds == [.lock, .readWriteLock, .semaphore])
        }
      }
    }
  }

  private final class Counter: Sendable {
    private let count = Atomic<Int>(0)
    let most = Atomic<Int>(0)
    var now: Int { count.load(ordering: .relaxed) }

    func enter() {
      most.max(count.wrappingAdd(1, ordering: .relaxed).newValue, ordering: .relaxed)
    }

    func leave() { count.wrappingSubtract(1, ordering: .relaxed) }
  }
}
