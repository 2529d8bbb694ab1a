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

// THE STORM OF LOCKS
//
// Eight processes with two threads each hold one lock again and again, and are killed at random, some
// after they were stopped; in builds with fault points also inside the ticket, between their request and
// its grant, and between a release and the next grant. Each holder marks a file when it enters and
// leaves. The oracle: no holder finds the mark of another (exclusion), every token is greater than the
// last one, and the number in the file grows within the limit after each kill (no lock outlives its
// holder).

/// Eight processes that hold a lock and are killed.
final class LockStorm: Sendable {
  struct Outcome {
    var kills = 0
    var grants: UInt64 = 0
    var violations: UInt64 = 0
    /// Whether no process acquired the lock within the limit.
    var hasStalled = false
  }

  private static let drivers = 4
  let ground: StoreFixture
  private let counter: String
  private let environment: [String: String]
  private let limit: Duration
  private let kills = Atomic<Int>(0)
  private let isOver = Atomic<Bool>(false)

  init(environment: [String: String] = [:], limit: Duration = .seconds(600)) throws {
    ground = try StoreFixture()
    counter = ground.directory.appending("counter")
    self.environment = environment
    self.limit = limit
  }

  private var words: [UInt64] {
    let bytes = (try? TestFiles.contents(of: counter)) ?? []
    return (0..<4).map { bytes.integer(at: 8 * $0) ?? 0 }
  }

  func run(kills count: Int, _ seed: Seed) throws -> Outcome {
    let drivers = (0..<Self.drivers).map { number in
      JoinableThread { [self] in
        Result {
          var random = seed.generator(stream: UInt64(number))
          try drive(count, &random)
        }
      }
    }
    var hasStalled = false
    for driver in drivers {
      do { try driver.join().get() } catch is ConditionTimedOut { hasStalled = true }
    }
    let words = words
    return Outcome(
      kills: kills.load(ordering: .relaxed), grants: words[0], violations: words[3],
      hasStalled: hasStalled)
  }

  private func start() throws -> ChildProcess {
    let peer = try ground.peer(environment: environment)
    try peer.send("lockloop storm \(counter)")
    return peer
  }

  private func drive(_ count: Int, _ random: inout SeededRandom) throws {
    defer { isOver.store(true, ordering: .relaxed) }
    var peers = try (0..<2).map { _ in try start() }
    while kills.load(ordering: .relaxed) < count, !isOver.load(ordering: .relaxed) {
      let index = Int.random(in: 0..<2, using: &random)
      let wanted = words[0] + UInt64.random(in: 1...20, using: &random)
      try eventually("the lock is held \(wanted) times", within: limit) {
        words[0] >= wanted || isOver.load(ordering: .relaxed) || peers[index].exitStatus != nil
      }
      // One that has killed itself cannot be stopped.
      if random.chance(20) { try? peers[index].stop() }
      peers[index].kill()
      _ = try peers[index].wait()
      kills.wrappingAdd(1, ordering: .relaxed)
      peers[index] = try start()
    }
    for peer in peers { peer.kill() }
  }
}

extension ProcessStorms {
  @Test(.timeLimit(.minutes(60)))
  func `Locks storm: eight processes and 500 kills leave one holder at a time and growing tokens`()
    throws
  {
    let plan = ["lockEntered", "lockQueued", "lockReleased"].map { "\($0):kill%1" }
    let storm = try LockStorm(
      environment: hasFaults ? ["LARDER_FAULTS": plan.joined(separator: ",")] : [:])
    let start = ContinuousClock.now
    let outcome = try storm.run(kills: 500, Seed.announce())
    print(
      "storm of locks: \(outcome.kills) kills, \(outcome.grants) grants, \(start.duration(to: .now))"
    )
    #expect(!outcome.hasStalled && outcome.violations == 0)
    #expect(outcome.kills >= 500 && outcome.grants > 500)
    // No process is left, so no lock is held.
    try storm.ground.store.lock("storm").withLock(timeout: .seconds(600)) { _ in }
    #expect(try storm.ground.store.locks() == [])
    #expect(try storm.ground.store.verify() == [])
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `Locks: without the check of holders a killed process keeps its lock, which is noticed`()
    throws
  {
    let ground = try StoreFixture()
    let (holder, sound) = (try ground.peer(), try ground.peer())
    let broken = try ground.peer(environment: ["LARDER_MUTANT": "lockOutlivesHolder"])
    #expect(try holder.ask("lock a").hasPrefix("holding "))
    holder.kill()
    _ = try holder.wait()
    #expect(try broken.ask("trylock a 100").hasPrefix("timeout "))
    #expect(try sound.ask("trylock a 600000").hasPrefix("locked "))
    try broken.dismiss()
    try sound.dismiss()
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)),
    arguments: ["lockGrantsTwice", "lockTokenRepeats"])
  func `Locks storm: a rule that is broken is noticed`(mutant: String) throws {
    let storm = try LockStorm(environment: ["LARDER_MUTANT": mutant], limit: .seconds(10))
    let outcome = try storm.run(kills: 200, Seed.announce())
    print("storm of \(mutant): \(outcome)")
    #expect(outcome.hasStalled || outcome.violations > 0)
  }
}
