// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

extension Crashes {
  /// The scenario that passes each point, and the passages at which to inject the fault.
  static let passages: [FaultPoint: [(scenario: String, numbers: [Int])]] = {
    let creations = ["create a cache", "create a durable store", "create a relaxed store"]
    let condemnations = [
      "condemn a damaged file", "condemn with another", "condemn a damaged table with another",
      "a cache after a crash of the system", "compact with another", "compact a durable store",
      "compact a durable store with another", "compact a relaxed store with another",
    ]
    let openings =
      creations + condemnations + [
        "open alone", "open with another", "remake a table that is gone",
        "remake the table of another boot", "a durable store after a crash of the system",
        "a relaxed store after a crash of the system",
      ]
    let commits = [
      "commit to a cache", "commit alone", "commit to a durable store", "write behind",
      "remove everything", "commit to a relaxed store",
    ]
    let closings = [
      "close alone", "close a durable store", "close with another", "close a relaxed store",
    ]
    let syncs = ["sync a relaxed store", "sync a relaxed store with another"]
    let restorations = [
      "a relaxed store after a crash of the system", "a durable store after a crash of the system",
    ]
    let durable = ["commit to a durable store"]
    func at(_ scenarios: [String], _ numbers: Int...) -> [(scenario: String, numbers: [Int])] {
      scenarios.map { ($0, numbers) }
    }
    return [
      .openGateTaken: at(openings, 1), .openGenerationBuilt: at(creations + condemnations, 1),
      .openGenerationRenamed: at(creations + condemnations, 1),
      .currentRenamed: at(creations + condemnations, 1),
      .openCurrentWritten: at(creations + condemnations, 1),
      .openPresenceTaken: at(openings, 1), .openTableReady: at(openings, 1),
      .openBeforeEnvironment: at(openings, 1), .openAfterEnvironment: at(openings, 1),
      .openSlotTaken: at(openings, 1), .openDone: at(openings, 1),
      .begin: at(commits, 1), .afterWriterLabel: at(commits, 1),
      .betweenPuts: at(["commit to a cache", "commit to a durable store"], 1, 3),
      .afterEviction: at(["evict"], 1, 3), .beforeStamps: at(commits, 1),
      .betweenStamps: at(["commit to a cache", "commit to a durable store"], 1, 4),
      .afterStamps: at(commits, 1), .beforeCommit: at(commits, 1), .afterCommit: at(commits, 1),
      .beforeWake: at(commits, 1),
      .afterRenew: at(["open alone", "open with another", "compute"], 1),
      .beforeFill: at(["open alone", "open with another"], 1),
      .condemnMarked: at(["condemn with another", "compact with another"], 1),
      .copyWritten: at(["compact with another"], 1),
      .closeGateTaken: at(closings, 1), .closeSynced: at(closings, 1), .closeDone: at(closings, 1),
      .stateDirty: at(["commit alone", "close alone", "close a durable store"], 1),
      .syncBegun: at(syncs, 1, 2), .beforeRecord: at(syncs, 1, 2), .afterRecord: at(syncs, 1, 2),
      .logWritten: at(durable, 1, 3), .logEnded: at(durable, 1, 3),
      .logCommitted: at(durable, 1, 3),
      .logSyncing: at(durable, 1, 3),
      .logFileCreated: at(["create a durable store", "create a relaxed store"], 1),
      .restoreWritten: at(restorations, 1), .restoreSynced: at(restorations, 1),
      .restoreRecorded: at(restorations, 1), .leaseTaken: at(["compute"], 1),
      .leaseRegistered: at(["compute"], 1),
      .leaseBeforeFill: at(["compute"], 1),
    ]
  }()

  static let processPoints: [FaultPoint] = [
    // Processes are killed there in `RedoLogPowerCutTests.swift` and `RedoLogStrictTests.swift`.
    .logReplayed, .logSynced, .lockEntered, .lockQueued, .lockReleased, .barrierCounted,
    .barrierOpened, .writeOffered, .offersClaimed, .claimAwaited,
  ]

  @Test func `The sweep injects a fault at every fault point`() {
    // Those within the transactions of objects are `ObjectSweepTests.swift`'s, those that need
    // several processes `LockStormTests.swift`'s, `BarrierProcessTests.swift`'s and `IncrementStormTests.swift`'s.
    let missing = FaultPoint.allCases.filter {
      Self.passages[$0]?.isEmpty ?? true
        && !(Self.objectPoints + Self.processPoints).contains($0)
    }
    #expect(missing == [], "Give each a scenario that passes it in `passages`.")
    let known = Set(Scenario.all.map(\.name))
    for scenario in Self.passages.values.joined() { #expect(known.contains(scenario.scenario)) }
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `A process killed at any fault point takes nothing acknowledged with it`() throws {
    let arena = try CrashHarness()
    let start = ContinuousClock.now
    var count = 0
    for point in FaultPoint.allCases {
      for (scenario, numbers) in Self.passages[point] ?? [] {
        for number in numbers {
          count += 1
          do {
            let blow = CrashHarness.InjectedFault.fault("\(point):kill@\(number)")
            let hasFallen = try arena.strike(.named(scenario), blow)
            #expect(hasFallen, "\(scenario) does not pass \(point) \(number) times.")
          } catch {
            Issue.record(error)
          }
        }
      }
    }
    Sweep.report("\(count) kills at \(FaultPoint.allCases.count) fault points, \(start.age)")
  }
}

extension ContinuousClock.Instant {
  /// For reports.
  var age: String {
    "\(Int((ContinuousClock.now - self) / .milliseconds(1))) ms"
  }
}
