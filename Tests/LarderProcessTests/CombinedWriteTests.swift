// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

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
      // It cannot withdraw an offer while it is stopped.
      owner = try ground.peer(
        "\(durability)", environment: ["LARDER_FAULTS": "writeOffered:stop@1,claimAwaited:stop@1"])
      executor = try ground.peer(
        "\(durability)", environment: ["LARDER_FAULTS": faults])
      try executor.send("countlog m \(histories)")
    }

    /// Has the owner offer a write, which the executor claims.
    ///
    /// - Parameter isExecutorStopped: Whether it is stopped in an earlier transaction.
    /// - Returns: `false` if the executor has counted the offers while the owner was making the first one.
    func claim(_ write: String, isExecutorStopped: Bool = false) throws -> Bool {
      try owner.send(write)
      guard try isStopped(owner) else { return false }
      if isExecutorStopped { executor.continue() }
      guard try isStopped(executor) else { return false }
      owner.continue()
      return try isStopped(owner)
    }

    /// Waits until a process is stopped, for longer than that takes.
    private func isStopped(_ peer: ChildProcess) throws -> Bool {
      do {
        try peer.waitUntilStopped(deadline: .seconds(5))
        return true
      } catch  where error.code == .timedOut {
        return false
      }
    }

    /// Lets the executor go on until it has settled the offer.
    func settle() throws {
      let table = try ground.store.core.generation().table
      executor.continue()
      try eventually("the offer is settled") {
        (0..<table.offerSlots).contains { table.offerState($0).isSettled }
      }
    }
  }

  /// Returns processes of which one has claimed an increment of the other, and both are stopped.
  private static func stoppedPair(_ durability: Durability) throws -> Pair {
    for _ in 0..<60 {
      let pair = try Pair(durability)
      if try pair.claim("increment n") { return pair }
      for peer in [pair.owner, pair.executor] { peer.kill() }
    }
    return try #require(nil, "No increment was claimed.")
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)),
    arguments: [Durability.cache, .durable, .durableStrict])
  func `An increment that is executed for a stopped process is not repeated after a compaction`(
    durability: Durability
  ) throws {
    let pair = try Self.stoppedPair(durability)
    try pair.settle()
    try pair.ground.store.compact()
    pair.owner.continue()
    var last = 0
    for _ in 0..<2000 {
      let number = try #require(Int(pair.owner.nextLine().split(separator: " ").last ?? ""))
      #expect(number == last + 1, "Only this process increments the counter.")
      last = number
    }
    for peer in [pair.owner, pair.executor] { peer.kill() }
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)),
    arguments: [Durability.durable, .durableStrict])
  func `A process whose put was executed for it while it was stopped leaves the ticket free`(
    durability: Durability
  ) throws {
    let pair = try Pair(durability, faults: "afterWriterLabel:stop@30,offersClaimed:stop@1")
    // In a transaction, so that the put is offered.
    try pair.executor.waitUntilStopped()
    try #require(try pair.claim("set 7 text", isExecutorStopped: true))
    try pair.settle()
    pair.executor.kill()
    _ = try pair.executor.wait()
    pair.owner.continue()
    #expect(try pair.owner.nextLine() == "ok")
    let table = try pair.ground.store.core.generation().table
    try eventually("the ticket is free") { table.ticketHolder == nil }
    #expect(try pair.ground.numbers.value(forKey: 7) == "text")
    try pair.ground.numbers.setValue("next", forKey: 7)
    pair.owner.kill()
  }
}
