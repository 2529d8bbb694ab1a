// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

// THE STORM OF DEQUES
//
// Eight processes push numbers to one deque, claim numbers and complete them, and are killed at random,
// some after they were stopped. Each tells what it has pushed, begun and completed. The oracle: every
// pushed number is begun, no number is completed twice, and one that is begun more often than once was
// begun by a process that was killed.

/// Eight processes that work on one deque and are killed.
final class DequeStorm: Sendable {
  struct Journal {
    var pushed: Set<Int> = []
    var begun: [Int: Int] = [:]
    var done: [Int: Int] = [:]
    /// The numbers that a process had begun, and not completed, when it was killed.
    var interrupted: [Int: Int] = [:]
    var kills = 0
  }

  private static let drivers = 4
  private static let numbersOfProcess = 1_000_000
  private static let pushes = 100
  let ground: StoreFixture
  let journal = Mutex(Journal())
  private let nextProcess = Atomic<Int>(0)
  private let kills: Int

  init(kills: Int) throws {
    ground = try StoreFixture()
    self.kills = kills
  }

  var deque: SharedDeque<Int> {
    SharedDeque(storage: ground.store, name: "storm", maximumAttempts: .max)
  }

  func run(_ seed: Seed) throws {
    let drivers = (0..<Self.drivers).map { number in
      JoinableThread { [self] in
        Result {
          var random = seed.generator(stream: UInt64(number))
          while journal.withLock({ $0.kills }) < kills { try runTwo(&random) }
        }
      }
    }
    for driver in drivers { try driver.join().get() }
  }

  /// Two processes from their start to their end.
  private func runTwo(_ random: inout SeededRandom) throws {
    let peers = try (0..<2).map { _ in
      let first = nextProcess.wrappingAdd(1, ordering: .relaxed).oldValue * Self.numbersOfProcess
      let peer = try ground.peer()
      try peer.send("work storm \(first) \(Self.pushes)")
      return peer
    }
    for peer in peers {
      var begun: Set<Int> = []
      // Its own pushes are as many lines, whatever the others claim.
      for _ in 0..<Int.random(in: 1...Self.pushes, using: &random) {
        try note(peer.nextLine(), &begun)
      }
      if random.chance(20) { try peer.stop() }
      peer.kill()
      _ = try peer.wait()
      for line in try peer.remainingLines() { try note(line, &begun) }
      journal.withLock { journal in
        journal.kills += 1
        for number in begun { journal.interrupted[number, default: 0] += 1 }
      }
    }
  }

  private func note(_ line: String, _ begun: inout Set<Int>) throws {
    let words = line.split(separator: " ")
    guard words.count == 2, let number = Int(words[1]) else { return }
    journal.withLock { journal in
      switch words[0] {
      case "pushed": journal.pushed.insert(number)
      case "begun":
        journal.begun[number, default: 0] += 1
        begun.insert(number)
      case "done":
        journal.done[number, default: 0] += 1
        begun.remove(number)
      default: Issue.record("\(line)")
      }
    }
  }

  /// Claims and completes what the processes have left.
  func finish() async throws {
    while try deque.status() != .init(waiting: 0, claimed: 0, failed: 0) {
      // The last ones may be claims of processes whose end is not noticed yet.
      let claim = try #require(
        try await deque.claim(lease: .seconds(3600), timeout: .seconds(600)), "an element is lost")
      journal.withLock { journal in
        journal.begun[claim.element, default: 0] += 1
        journal.done[claim.element, default: 0] += 1
      }
      #expect(try await claim.complete())
    }
  }
}

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Deque storm: eight processes and 500 kills lose no element and complete none twice`()
    async throws
  {
    let storm = try DequeStorm(kills: 500)
    try storm.run(Seed.announce())
    try await storm.finish()
    let journal = storm.journal.withLock { $0 }
    print(
      "storm of deques: \(journal.kills) kills, \(journal.pushed.count) pushed, "
        + "\(journal.done.count) completed, "
        + "\(journal.begun.values.filter { $0 > 1 }.count) begun again"
    )
    #expect(journal.kills >= 500 && journal.pushed.count > 500)
    let lost = journal.pushed.subtracting(journal.begun.keys)
    #expect(lost.isEmpty, "\(lost.count) lost")
    #expect(journal.done.values.allSatisfy { $0 == 1 })
    for (number, count) in journal.begun where count > 1 {
      // A kill can come before the line of an end, or of a beginning.
      #expect(count <= 1 + journal.interrupted[number, default: 0], "\(number)")
    }
    #expect(journal.begun.values.contains { $0 > 1 }, "no claim was interrupted")
    #expect(try storm.deque.status() == .init(waiting: 0, claimed: 0, failed: 0))
    #expect(try storm.ground.store.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A claim ends with a killed process, and stays with a stopped one`() async throws {
    let ground = try StoreFixture()
    let peers = try (0..<2).map { _ in try ground.peer() }
    let deque = SharedDeque<String>(storage: ground.store, name: "jobs")
    try await deque.push(contentsOf: ["a", "b"])
    #expect(try peers[0].ask("claimfirst jobs 3600000") == "claimed a 1")
    #expect(try peers[1].ask("claimfirst jobs 3600000") == "claimed b 1")
    try peers[1].stop()
    let waiting = Task { try await deque.claim(lease: .seconds(3600), timeout: .seconds(600)) }
    try await awaitEventually("the task waits") { ground.store.observerCount > 0 }
    peers[0].kill()
    _ = try peers[0].wait()
    let claim = try #require(try await waiting.value)
    #expect(claim.element == "a" && claim.attempt == 2)
    #expect(
      try await deque.claim(lease: .seconds(3600)) == nil, "the stopped process has the other")
    peers[1].kill()
    _ = try peers[1].wait()
    #expect(try await deque.claim(lease: .seconds(3600), timeout: .seconds(600))?.element == "b")
    #expect(try await claim.complete())
  }

  @Test(.timeLimit(.minutes(60)))
  func `Elements of one process are popped by another and survive both`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<2).map { _ in try ground.peer() }
    #expect(try peers[0].ask("push jobs a") == "ok")
    #expect(try peers[0].ask("push jobs b") == "ok")
    #expect(try peers[1].ask("pop jobs") == "popped a")
    for peer in peers {
      peer.kill()
      _ = try peer.wait()
    }
    let deque = SharedDeque<String>(storage: ground.store, name: "jobs")
    #expect(try deque.popFirst() == "b" && deque.popFirst() == nil)
  }
}
