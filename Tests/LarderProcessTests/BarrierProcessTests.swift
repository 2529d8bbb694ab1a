// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

private final class Passed: Sendable {
  private let tally = Atomic<Int>(0)
  var count: Int { tally.load(ordering: .acquiring) }
  func add() { tally.wrappingAdd(1, ordering: .acquiringAndReleasing) }
}

/// Barriers whose callers stop waiting, and whose processes are killed or stopped, while they open.
extension Processes {
  /// Starts a task that waits at a barrier, and returns when it waits.
  private func arrive(
    _ ground: StoreFixture, _ name: String, parties: Int, expected: Int
  ) async throws -> Task<Void, any Error> {
    let barrier = ground.store.barrier(name, parties: parties)
    let task = Task.detached { try await barrier.wait(timeout: .seconds(3600)) }
    try await awaitEventually("\(expected) wait") { try ground.waiters(name) == expected }
    return task
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `A barrier does not open for a caller that stops waiting after it was counted`() async throws
  {
    let ground = try StoreFixture()
    let peer = try ground.peer(environment: ["LARDER_FAULTS": "barrierCounted:stop@1"])
    let waiter = try await arrive(ground, "a", parties: 2, expected: 1)
    try peer.send("barrier a 2")
    try peer.waitUntilStopped()
    // Stopping never waits, also not for the process that has counted.
    waiter.cancel()
    await #expect(throws: CancellationError.self) { try await waiter.value }
    peer.continue()
    // It has not passed alone: it waits for another one.
    try await awaitEventually("it waits") { try ground.waiters("a") == 1 }
    try await ground.store.barrier("a", parties: 2).wait(timeout: .seconds(600))
    #expect(try peer.nextLine() == "passed")
    try peer.dismiss()
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)), arguments: ["kill", "stop"])
  func `A barrier that has opened lets all pass, though the process that opened it does not run`(
    action: String
  ) async throws {
    let ground = try StoreFixture()
    let peer = try ground.peer(environment: ["LARDER_FAULTS": "barrierOpened:\(action)@1"])
    let other = try ground.peer()
    let waiter = try await arrive(ground, "a", parties: 3, expected: 1)
    try other.send("barrier a 3")
    try await awaitEventually("two wait") { try ground.waiters("a") == 2 }
    try peer.send("barrier a 3")
    if action == "kill" { _ = try peer.wait() } else { try peer.waitUntilStopped() }
    try await waiter.value
    #expect(try other.nextLine() == "passed")
    if action == "stop" {
      peer.continue()
      #expect(try peer.nextLine() == "passed")
    }
    // No caller waits for the next round.
    let error = await #expect(throws: StoreError.self) {
      try await ground.store.barrier("a", parties: 2).wait(timeout: .milliseconds(50))
    }
    #expect(error?.code == .lockTimeout)
    try other.dismiss()
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `A caller that stops waiting when its barrier has opened has passed`() async throws {
    let ground = try StoreFixture()
    let peer = try ground.peer(environment: ["LARDER_FAULTS": "barrierOpened:stop@1"])
    let (other, waiter) = (try ground.peer(), try ground.peer())
    for (index, peer) in [other, waiter].enumerated() {
      try peer.send("barrier a 3")
      try await awaitEventually("\(index + 1) wait") { try ground.waiters("a") == index + 1 }
    }
    // Stopped, it passes when it runs again, and not before.
    try waiter.stop()
    try peer.send("barrier a 3")
    try peer.waitUntilStopped()
    #expect(try other.nextLine() == "passed")
    waiter.continue()
    #expect(try waiter.nextLine() == "passed")
    peer.continue()
    #expect(try peer.nextLine() == "passed")
    for peer in [peer, other, waiter] { try peer.dismiss() }
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `A barrier opens for all parties or none, whatever kills the last one`() async throws {
    let ground = try StoreFixture()
    let barrier = ground.store.barrier("a", parties: 3)
    let seed = Seed.announce()
    let points = ["barrierCounted", "barrierOpened", "lockEntered", "lockQueued", "lockReleased"]
    let plan = points.map { "\($0):kill%15" }.joined(separator: ",")
    var outcomes = (opened: 0, closed: 0)
    for (round, trial) in seed.trials(60).enumerated() {
      let passed = Passed()
      let tasks = (0..<2).map { _ in
        Task.detached {
          try await barrier.wait(timeout: .seconds(3600))
          passed.add()
        }
      }
      try await awaitEventually("two wait in round \(round)") { try ground.waiters("a") == 2 }
      let peer = try ground.peer(
        environment: ["LARDER_FAULTS": "seed=\(trial.value % 1_000_000),\(plan)"])
      try peer.send("barrier a 3")
      _ = try? peer.nextLine()
      peer.kill()
      _ = try peer.wait()
      // Either both have passed, or both wait, and one more lets them pass.
      let third = Task.detached { try await barrier.wait(timeout: .seconds(3600)) }
      try await awaitEventually("both pass in round \(round)") { passed.count == 2 }
      for task in tasks { try await task.value }
      third.cancel()
      do {
        try await third.value
        outcomes.closed += 1
      } catch is CancellationError {
        outcomes.opened += 1
      }
      try await awaitEventually("no caller waits") { try ground.waiters("a") == 0 }
    }
    print("barriers: \(outcomes)")
    #expect(outcomes.opened > 0 && outcomes.closed > 0)
    #expect(try ground.store.locks() == [])
  }
}
