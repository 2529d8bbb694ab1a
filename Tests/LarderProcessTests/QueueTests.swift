// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// Pending writes while another process holds the writer lock.
extension Processes {
  /// The progress of a thread.
  final class Progress: Sendable {
    private let count = Atomic<Int>(0)
    var value: Int { count.load(ordering: .acquiring) }
    func step() { count.wrappingAdd(1, ordering: .acquiringAndReleasing) }
  }

  /// Sets `count` keys by subscript while the writer lock is held, and returns how many were
  /// accepted.
  private func fillQueue(_ count: Int, value: String, limit: Int) throws {
    let ground = try StoreFixture(StoreOptions(budget: .megabytes(512)))
    let holder = try ground.peer()
    #expect(try holder.ask("hold") == "holding")
    let commits = try ground.store.statistics().commits
    let progress = Progress()
    let setter = JoinableThread { [numbers = ground.numbers] in
      for key in 0..<count {
        numbers[key] = value
        progress.step()
      }
    }
    try eventually("the queue is full") { progress.value >= limit }
    // The setter blocks now, for as long as no process commits.
    let clock = ContinuousClock()
    let deadline = clock.now + .milliseconds(300)
    while progress.value == limit, clock.now < deadline {}
    #expect(progress.value == limit)
    #expect(try ground.store.statistics().pendingWrites == limit)
    #expect(ground.numbers[0] == value && ground.numbers[limit - 1] == value)
    try holder.order("go")
    setter.join()
    try ground.store.sync()
    #expect(progress.value == count)
    #expect(try ground.store.statistics().pendingWrites == 0)
    // Not in one transaction, however many have waited: 4,096 writes or 16 MiB each.
    #expect(try ground.store.statistics().commits - commits > count / 4096)
    ground.numbers.clearMemoryCache()
    for key in 0..<count { #expect(ground.numbers[key] == value) }
    try holder.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `At most 8 MiB of large writes wait, then the setter does`() throws {
    // The ninth finds the limit reached.
    try fillQueue(20, value: String(repeating: "x", count: 1 << 20), limit: 8)
  }

  @Test(.timeLimit(.minutes(60)))
  func `At most 8 MiB of small writes wait, then the setter does`() throws {
    // Each counts 256 bytes, key and value: fewer than 65,536 fit.
    try fillQueue(32_000, value: "v", limit: (8 << 20) / (256 + 8 + 1) + 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Writers that wait for each other are committed together, each with its own result`()
    throws
  {
    let ground = try StoreFixture(StoreOptions(writeTimeout: .seconds(600)))
    let holder = try ground.peer()
    try ground.numbers.setValue("old", forKey: 5)
    #expect(try holder.ask("hold") == "holding")
    let before = try ground.store.statistics().commits
    let threads = (0..<16).map { thread in
      JoinableThread { [numbers = ground.numbers] in
        Result {
          if thread == 0 { return try numbers.removeValue(forKey: 5) }
          if thread == 1 { return try numbers.removeValue(forKey: 1_000_000) }
          try numbers.setValue("v\(thread)", forKey: 100 + thread)
          return true
        }
      }
    }
    // None can have been committed.
    try eventually("all are queued") {
      ground.store.core.queuedWrites >= 16
    }
    try holder.order("go")
    for (index, thread) in threads.enumerated() {
      #expect(try thread.join().get() == (index != 1))
    }
    for thread in 2..<16 { #expect(ground.numbers[100 + thread] == "v\(thread)") }
    #expect(ground.numbers[5] == nil)
    // The holder's, and few of ours.
    #expect(try ground.store.statistics().commits - before <= 4)
    try holder.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `Tasks that wait for their writes leave Swift's threads to others`() async throws {
    let ground = try StoreFixture(StoreOptions(writeTimeout: .seconds(600)))
    let holder = try ground.peer()
    #expect(try holder.ask("hold") == "holding")
    let (numbers, store) = (ground.numbers, ground.store)
    let writers = (0..<64).map { task in
      Task.detached {
        switch task % 7 {
        case 0: try await numbers.setValue("v", forKey: task)
        case 1: _ = try await numbers.removeValue(forKey: task)
        case 2: try await store.write { try $0.setBytes([1], forKey: task, in: "own") }
        case 3: try await store.setBytes([1], forKey: task, in: "own")
        case 4: try await store.remove(forKey: task, in: "own")
        case 5:
          try await store.namespace("own").setAbsent(forKey: task, expires: .after(.seconds(60)))
        default: _ = try await store.commitToken()
        }
      }
    }
    // Were the pool's threads blocked, these would never end.
    let others = (0..<64).map { number in
      Task.detached {
        await Task.yield(); return number
      }
    }
    for (number, other) in others.enumerated() { #expect(await other.value == number) }
    try holder.order("go")
    for writer in writers { try await writer.value }
    #expect(ground.numbers[0] == "v")
    for key in 2...3 { #expect(try ground.store.bytes(forKey: key, in: "own") == [1]) }
    try await store.sync()
    try holder.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A process that ends in order commits what waits`() throws {
    let ground = try StoreFixture()
    let holder = try ground.peer()
    let peer = try ground.peer()
    #expect(try holder.ask("hold") == "holding")
    for key in 0..<300 { try peer.order("behind \(key) v\(key)") }
    // It gets the command to exit while nothing can be committed yet.
    peer.closeInput()
    #expect(ground.numbers[0] == nil)
    #expect(throws: ChildProcessError.self) { try peer.wait(deadline: .milliseconds(200)) }
    try holder.order("go")
    #expect(try peer.wait() == .exited(0))
    #expect((0..<300).filter { ground.numbers[$0] != "v\($0)" } == [])
    try holder.dismiss()
  }
}
