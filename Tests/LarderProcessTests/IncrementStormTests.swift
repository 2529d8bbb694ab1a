// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

// THE STORM OF INCREMENTS
//
// Four processes increment one counter again and again and are killed; in builds with fault points also
// with an offered increment, with claimed ones of others, and between the steps of a commit. They log each
// increment in mapped files. The oracle: no number is received twice, none is above the last one, and the
// counter is above the number of ended increments by at most the number of those in progress when their
// process was killed. Those of a durable store execute puts for each other as well: there the oracle is a
// search for an order of all operations.

/// Four processes that increment a counter and are killed.
private struct IncrementStorm {
  struct Outcome {
    var kills = 0
    var ended = 0
    var pending = 0
    var repeated = 0
    var total = 0
    var isSound: Bool { repeated == 0 && (ended...ended + pending).contains(total) }
  }

  let ground: StoreFixture
  let histories: String
  let counters: PersistentCache<String, UInt64>
  let environment: [String: String]

  init(faults: String, mutant: String? = nil) throws {
    ground = try StoreFixture()
    histories = ground.directory.appending("histories")
    try TestFiles.makeDirectory(histories)
    counters = PersistentCache(storage: ground.store, namespace: "counters")
    var environment = hasFaults ? ["LARDER_FAULTS": faults] : [:]
    if let mutant { environment["LARDER_MUTANT"] = mutant }
    self.environment = environment
  }

  /// Runs processes until so many have been killed, and kills the rest.
  ///
  /// - Parameter onlyByFaults: Whether all but the last ones are killed by their faults.
  func run(kills: Int, onlyByFaults: Bool = false, _ seed: Seed) throws -> Outcome {
    var random = seed.generator()
    var peers = try (0..<4).map { _ in try start() }
    for _ in 0..<kills {
      let index = Int.random(in: 0..<4, using: &random)
      let wanted = try count() + UInt64.random(in: 1...2000, using: &random)
      try eventually("the counter is \(wanted), or a process has ended") {
        try !onlyByFaults && count() >= wanted || peers.contains { $0.exitStatus != nil }
      }
      let victim = peers.firstIndex { $0.exitStatus != nil } ?? index
      peers[victim].kill()
      #expect(try peers[victim].wait() == .signalled(SIGKILL))
      peers[victim] = try start()
    }
    for peer in peers {
      peer.kill()
      _ = try peer.wait()
    }
    return try outcome(kills: kills)
  }

  private func start() throws -> ChildProcess {
    let peer = try ground.peer(environment: environment)
    try peer.send("countlog n \(histories)")
    return peer
  }

  private func count() throws -> UInt64 { try counters.value(forKey: "n") ?? 0 }

  private func outcome(kills: Int) throws -> Outcome {
    // A last increment settles what killed processes have offered.
    try counters.increment(forKey: "n", by: 0)
    let operations = try HistoryLog.operations(in: histories)
    let ended = operations.filter { $0.end != Linearizability.pending }
    let numbers = Set(ended.map(\.old))
    return Outcome(
      kills: kills, ended: ended.count, pending: operations.count - ended.count,
      repeated: ended.count - numbers.count, total: Int(try count()))
  }
}

extension ProcessStorms {
  private static let everywhere =
    [
      "writeOffered", "offersClaimed", "beforeStamps", "afterStamps", "beforeCommit",
      "afterCommit", "beforeWake",
    ].map { "\($0):kill%0.01" }.joined(separator: ",")

  @Test(.timeLimit(.minutes(60)))
  func `Increment storm: killed processes lose no increment and count none twice`() throws {
    let storm = try IncrementStorm(faults: Self.everywhere)
    let start = ContinuousClock.now
    let outcome = try storm.run(kills: hasFaults ? 300 : 60, Seed.announce())
    print("storm of increments: \(outcome), \(start.duration(to: .now))")
    #expect(outcome.isSound)
    #expect(outcome.total > outcome.kills)
    #expect(try storm.ground.store.verify() == [])
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)),
    arguments: [
      ("offersCountAsDone", "beforeCommit:kill%0.02"),
      ("offersCountAsRefused", "afterCommit:kill%0.02"),
    ])
  func `Increment storm: a rule that is broken is noticed`(mutant: String, faults: String) throws {
    // Whether a writer dies with offers of others in its commit depends on the scheduler.
    let seed = Seed.announce()
    var rounds: UInt64 = 0
    var outcome: IncrementStorm.Outcome
    repeat {
      let storm = try IncrementStorm(faults: faults, mutant: mutant)
      outcome = try storm.run(kills: 50, onlyByFaults: true, seed.derived(rounds))
      rounds += 1
    } while outcome.isSound && rounds < 30
    print("storm of \(mutant): \(outcome) after \(rounds) rounds")
    #expect(!outcome.isSound)
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `Histories of a durable store are linearizable if writers are killed with writes of others`()
    throws
  {
    let ground = try StoreFixture(StoreOptions(durability: .durable))
    let histories = ground.directory.appending("histories")
    try TestFiles.makeDirectory(histories)
    let seed = Seed.announce()
    func start(_ number: Int) throws -> ChildProcess {
      let peer = try ground.peer("durable", environment: ["LARDER_FAULTS": Self.everywhere])
      try peer.send("exchange \(histories) \(seed.derived(UInt64(number)).value >> 2)")
      return peer
    }
    var peers = try (0..<4).map { try start($0) }
    for number in 4..<34 {
      try eventually("a process has ended") {
        peers.contains { $0.exitStatus != nil }
      }
      let victim = try #require(peers.firstIndex { $0.exitStatus != nil })
      #expect(try peers[victim].wait() == .signalled(SIGKILL))
      peers[victim] = try start(number)
    }
    for peer in peers { peer.kill() }
    let cache = PersistentCache<Int, UInt64>(storage: ground.store, namespace: "registers")
    for key in 0..<6 { _ = try cache.value(forKey: key) }
    let operations = try HistoryLog.operations(in: histories)
    print("\(operations.count) operations of killed processes")
    #expect(Linearizability.violations(searching: operations) == [], "\(seed)")
    #expect(try ground.store.verify() == [])
  }
}
