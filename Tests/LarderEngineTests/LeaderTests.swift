// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// Leaders and barriers within one process.
@Suite(.timeLimit(.minutes(60))) struct LeaderTests {
  let directory: TemporaryDirectory
  let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.appending("store"))
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

  @Test func `One leader leads at a time, and terms grow`() async throws {
    let leader = store.leader("a")
    #expect(!leader.isLeader)
    let first = try await leader.lead { term in
      #expect(leader.isLeader && term.isCurrent)
      let error = await #expect(throws: StoreError.self) {
        try await Task.detached { try await leader.lead(timeout: .zero) { _ in } }.value
      }
      #expect(error?.code == .lockTimeout)
      let own = await #expect(throws: StoreError.self) { try await leader.lead { _ in } }
      #expect(own?.code == .lockedByCaller)
      return term.number
    }
    #expect(!leader.isLeader)
    #expect(try await leader.lead { $0.number } > first)
  }

  @Test func `A barrier opens for each round of its parties, and for no fewer`() async throws {
    let barrier = store.barrier("a", parties: 4)
    for round in 0..<3 {
      let tasks = (0..<3).map { _ in
        Task.detached { try await barrier.wait(timeout: .seconds(600)) }
      }
      try await awaitEventually("three wait in round \(round)") {
        try store.locks().first?.waiters.count == 3
      }
      try await barrier.wait(timeout: .seconds(600))
      for task in tasks { try await task.value }
      #expect(try store.locks() == [])
    }
  }

  @Test func `Of two callers that stop waiting as they meet, both pass a barrier or none`() throws {
    let seed = Seed.announce()
    let barrier = store.barrier("a", parties: 2)
    let rounds = 3000
    let meeting = Meeting(of: 2)
    @Sendable func party(_ number: Int) throws -> [Bool] {
      var random = seed.generator(stream: UInt64(number))
      return try (0..<rounds).map { _ in
        try meeting.meet()
        let timeout = Duration.microseconds(Int.random(in: 1...300, using: &random))
        return code { try barrier.wait(timeout: number == 0 ? timeout : .milliseconds(5)) } == nil
      }
    }
    let other = JoinableThread { Result { try party(1) } }
    let (first, second) = (try party(0), try other.join().get())
    let split = (0..<rounds).count { first[$0] != second[$0] }
    print("barriers: \(first.count { $0 }) of \(rounds) opened")
    #expect(split == 0)
  }

  @Test func `A caller that stops waiting at a barrier has not arrived`() async throws {
    let barrier = store.barrier("a", parties: 2)
    #expect(code { try barrier.wait(timeout: .milliseconds(1)) } == .lockTimeout)
    #expect(code { try barrier.wait(timeout: .milliseconds(1)) } == .lockTimeout)
    #expect(code { try store.barrier("a", parties: 0).wait() } == .invalidOption)
    let other = Task.detached { try await barrier.wait(timeout: .seconds(600)) }
    try await barrier.wait(timeout: .seconds(600))
    try await other.value
  }
}
