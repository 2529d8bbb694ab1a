// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// The waits of several threads and tasks of a process for the disk. The tests hold the lock of the process that
/// syncs the log, so that no thread is elected: after 200 ms each would sync.
@Suite(.timeLimit(.minutes(60))) struct DurableWaitTests {
  private let directory: TemporaryDirectory
  private let store: SharedStore
  private let presence: OwnedFile

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store", .init(durability: .durable))
    presence = try OwnedFile(path: StoreFiles(of: store.path).generation + "/presence")
    try store.setBytes([0], forKey: 0)
  }

  private func holdSync() throws {
    #expect(try presence.tryLock(.exclusive, at: PresenceLocks.logSyncer))
  }

  private func releaseSync() throws {
    _ = try presence.tryLock(.none, at: PresenceLocks.logSyncer)
  }

  private var waiting: Int {
    get throws { try store.statistics().log?.unsyncedCommits ?? 0 }
  }

  @Test func `Transactions of other threads are committed while an earlier one is synced`() throws {
    var most = 0
    // Threads may not run for 200 ms on a busy machine.
    for round in 1...100 where most < 2 {
      try holdSync()
      let threads = (0..<4).map { number in
        JoinableThread { [store] in
          Result { try store.write { try $0.setBytes([UInt8(round)], forKey: number) } }
        }
      }
      let end = ContinuousClock.now + .milliseconds(150)
      while most < 2, .now < end { most = max(most, try waiting) }
      try releaseSync()
      for thread in threads { try thread.join().get() }
      for key in 0..<4 { #expect(try store.bytes(forKey: key) == [UInt8(round)]) }
      #expect(try waiting == 0)
    }
    #expect(most >= 2)
  }

  @Test func `Transactions of other tasks are committed while an earlier one is synced`()
    async throws
  {
    var most = 0
    for round in 1...100 where most < 2 {
      try holdSync()
      let tasks = (0..<4).map { number in
        Task.detached { [store] in
          try await store.write { try $0.setBytes([UInt8(round)], forKey: number) }
        }
      }
      let end = ContinuousClock.now + .milliseconds(150)
      while most < 2, .now < end {
        most = max(most, try waiting)
        await Task.yield()
      }
      try releaseSync()
      for task in tasks { try await task.value }
      for key in 0..<4 { #expect(try store.bytes(forKey: key) == [UInt8(round)]) }
      #expect(try waiting == 0)
    }
    #expect(most >= 2)
  }

  @Test func `A stopped process that syncs for others holds up the first commit only`() throws {
    try holdSync()
    try store.setBytes([1], forKey: 0)
    // A commit that waits takes 200 ms at least, however fast the disk is. Slow ones without a wait do not count.
    var withoutWait = 0
    for key in 0..<3000 where withoutWait < 100 {
      let start = ContinuousClock.now
      try store.setBytes([1], forKey: key)
      if ContinuousClock.now - start < .milliseconds(200) { withoutWait += 1 }
    }
    #expect(withoutWait == 100)
    #expect(try waiting == 0)
    try releaseSync()
    try store.setBytes([2], forKey: 0)
    #expect(try presence.tryLock(.exclusive, at: PresenceLocks.logSyncer))
  }

  @Test func `Closing waits for threads that wait for the disk`() throws {
    try holdSync()
    let thread = JoinableThread { [store] in
      Result { try store.write { try $0.setBytes([7], forKey: 1) } }
    }
    try eventually("the transaction is committed") { try store.bytes(forKey: 1) == [7] }
    store.close()
    try thread.join().get()
    let again = try SharedStore(at: store.path, .init(durability: .durable))
    #expect(try again.bytes(forKey: 1) == [7])
    #expect(try again.verify() == [])
  }

  /// Runs two transactions of tasks, the second one right after the first.
  ///
  /// - Parameter second: The closure of the second one; the event is set when the first caller has its result.
  private func together<R: Sendable>(
    first: @escaping @Sendable () throws -> Void, second: @escaping @Sendable (Event) -> R
  ) async throws -> (first: Result<Void, any Error>, second: R) {
    let (isRunning, isQueued, hasResult) = (Event(), Event(), Event())
    let earlier = Task.detached { [store] in
      defer { hasResult.set() }
      try await store.write { transaction in
        try transaction.setBytes([1], forKey: 1)
        isRunning.set()
        isQueued.wait(nanoseconds: 800_000_000_000)
        try first()
      }
    }
    while !isRunning.wait(nanoseconds: 1_000_000) { await Task.yield() }
    let later = Task.detached { [store] in
      try await store.write { transaction in
        try transaction.setBytes([2], forKey: 2)
        return second(hasResult)
      }
    }
    while store.core.queuedWrites < 1 { await Task.yield() }
    isQueued.set()
    return (await earlier.result, try await later.value)
  }

  @Test func `A task receives its result while the closure of the next one runs`() async throws {
    let outcome = try await together(first: {}) { $0.wait(nanoseconds: 600_000_000_000) }
    try outcome.first.get()
    #expect(outcome.second)
  }

  @Test func `A task that waits for the disk holds up no switch to new files`() async throws {
    let old = try StoreFiles(of: store.path).generation
    let outcome = try await together(first: { [store] in
      try store.core.generation().table.noteFailedSync()
    }) { _ in }
    #expect(throws: StoreError.self) { try outcome.first.get() }
    #expect(try StoreFiles(of: store.path).generation != old)
    #expect(try store.bytes(forKey: 1) == [1] && store.bytes(forKey: 2) == [2])
    #expect(!TestFiles.exists(old), "The store has left it.")
  }
}
