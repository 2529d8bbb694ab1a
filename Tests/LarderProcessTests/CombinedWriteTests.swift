// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Writes that a process executes for another one, which is stopped meanwhile.
extension ProcessStorms {
  /// An owner that is stopped after it has found its claimed offer unsettled, and the executor, which is stopped
  /// with the claim.
  private struct Pair {
    let ground: StoreFixture
    let owner: ChildProcess
    let executor: ChildProcess

    init(_ durability: Durability, faults: String = "offersClaimed:stop@1") throws {
      ground = try StoreFixture(StoreOptions(durability: durability))
      let histories = ground.directory.appending("histories")
      try TestFiles.makeDirectory(histories)
      owner = try ground.peer(
        "\(durability)", environment: ["LARDER_FAULTS": "claimAwaited:stop@1"])
      executor = try ground.peer(
        "\(durability)", environment: ["LARDER_FAULTS": faults])
      try executor.send("countlog m \(histories)")
    }

    /// Waits until the executor is stopped in a transaction, has the owner offer a put, and lets the executor claim
    /// it.
    ///
    /// - Returns: `false` if the owner has withdrawn its offer before.
    func offer(_ put: String) throws -> Bool {
      try eventually("the executor is stopped") { isStopped(executor) }
      try owner.send(put)
      let table = try ground.store.core.generation().table
      let isOffered = Self.isTrue(within: .seconds(2)) {
        (0..<table.offerSlots).contains { table.offerState($0) == .offered }
      }
      executor.kill(SIGCONT)
      return isOffered && areStopped(within: .seconds(1))
    }

    private func isStopped(_ peer: ChildProcess) -> Bool {
      ProcessIdentity.isStopped(peer.processIdentifier)
    }

    func areStopped(within limit: Duration) -> Bool {
      Self.isTrue(within: limit) { isStopped(owner) && isStopped(executor) }
    }

    private static func isTrue(within limit: Duration, _ condition: () -> Bool) -> Bool {
      let end = ContinuousClock.now + limit
      while ContinuousClock.now < end {
        if condition() { return true }
        OSThread.yield()
      }
      return false
    }

    /// Lets the executor go on until it has settled the offer.
    func settle() throws {
      let table = try ground.store.core.generation().table
      executor.kill(SIGCONT)
      try eventually("the offer is settled") {
        (0..<table.offerSlots).contains { table.offerState($0).isSettled }
      }
    }
  }

  /// Returns processes of which one has claimed an increment of the other, and both are stopped.
  private static func stoppedPair(_ durability: Durability) throws -> Pair {
    for _ in 0..<30 {
      let pair = try Pair(durability)
      try pair.owner.send("increment n")
      // The executor may have claimed an offer that was withdrawn in that moment.
      if pair.areStopped(within: .seconds(15)) { return pair }
      for peer in [pair.owner, pair.executor] { peer.kill() }
    }
    return try #require(nil, "No increment was claimed.")
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(15)),
    arguments: [Durability.cache, .durable, .durableStrict])
  func `An increment that is executed for a stopped process is not repeated after a compaction`(
    durability: Durability
  ) throws {
    let pair = try Self.stoppedPair(durability)
    try pair.settle()
    try pair.ground.store.compact()
    pair.owner.kill(SIGCONT)
    var last = 0
    for _ in 0..<2000 {
      let number = try #require(Int(pair.owner.nextLine().split(separator: " ").last ?? ""))
      #expect(number == last + 1, "Only this process increments the counter.")
      last = number
    }
    for peer in [pair.owner, pair.executor] { peer.kill() }
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(15)),
    arguments: [Durability.durable, .durableStrict])
  func `A process whose put was executed for it while it was stopped leaves the ticket free`(
    durability: Durability
  ) throws {
    for round in 0..<200 {
      let pair = try Pair(
        durability, faults: "afterWriterLabel:stop@30,offersClaimed:stop@1")
      // An offer is withdrawn after 5 ms.
      if try pair.offer("set 7 text") {
        try pair.settle()
        pair.executor.kill()
        _ = try pair.executor.wait()
        pair.owner.kill(SIGCONT)
        #expect(try pair.owner.nextLine() == "ok")
        let table = try pair.ground.store.core.generation().table
        try eventually("the ticket is free", within: .seconds(120)) { table.ticketHolder == nil }
        #expect(try pair.ground.numbers.value(forKey: 7) == "text")
        try pair.ground.numbers.setValue("next", forKey: 7)
        print("The put was executed in round \(round).")
        return pair.owner.kill()
      }
      for peer in [pair.owner, pair.executor] { peer.kill() }
    }
    Issue.record("No put was offered.")
  }
}
