// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderSystem
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

// Plans as values need no fault point; what a child makes of them is in FaultStormTests.swift.

@Suite struct FaultPlanTests {
  static let documented: [FaultPlan.Point] = [
    .openGateTaken, .openGenerationBuilt, .openGenerationRenamed, .currentRenamed,
    .openCurrentWritten,
    .openPresenceTaken, .openTableReady, .openBeforeEnvironment, .openAfterEnvironment,
    .openSlotTaken, .openDone, .begin, .afterWriterLabel, .stateDirty, .betweenPuts,
    .afterEviction, .beforeStamps, .betweenStamps, .afterStamps, .beforeCommit, .afterCommit,
    .beforeWake, .afterRenew, .beforeFill, .leaseTaken, .leaseRegistered, .leaseBeforeFill,
    .objectIndexed, .objectUnlinked, .catalogChanged, .migrationNoted, .numberDropped, .sweepStep,
    .condemnMarked, .copyWritten, .closeGateTaken, .closeSynced, .closeDone, .syncBegun,
    .beforeRecord,
    .logWritten, .logEnded, .logCommitted, .logSyncing, .logSynced, .logReplayed,
    .logFileCreated,
    .afterRecord, .restoreWritten, .restoreSynced, .restoreRecorded,
    .lockEntered, .lockQueued, .lockReleased, .barrierCounted, .barrierOpened, .writeOffered,
    .offersClaimed, .claimAwaited,
  ]

  @Test func `The documented fault points are the engine's`() {
    #expect(Set(Self.documented).count == Self.documented.count)
    #expect(
      Set(Self.documented.map(\.rawValue)) == Set(FaultPoint.allCases.map(\.rawValue)))
    #expect(Set(FaultPlan.Point.allCases) == Set(Self.documented))
    for point in FaultPoint.allCases {
      #expect(FaultPlan.Point(rawValue: point.rawValue).canFail == point.canFail, "\(point)")
    }
    #expect(!FaultPlan.Point(rawValue: "spoon").canFail)
  }

  @Test func `A plan equals its environment variable`() {
    let plan = FaultPlan(
      [
        .kill(at: .afterStamps, occurrence: 7), .stop(at: .begin, occurrence: 1),
        .delay(at: .beforeCommit, microseconds: 2000, percent: 10),
        .error(at: .everywhere, errno: ENOSPC, occurrence: 2, percent: 0.5),
      ], seed: Seed(255))
    #expect(
      plan.description == "seed=255,afterStamps:kill@7,begin:stop@1,beforeCommit:delay=2000%10.0,"
        + "*:error=28@2%0.5")
    #expect(FaultPlan.variable == "LARDER_FAULTS")
  }

  @Test func `A plan without faults is one in every build`() throws {
    #expect(try FaultPlan().environment == ["LARDER_FAULTS": ""])
  }

  @Test(.enabled(if: !FaultPlan.isCompiledIn, "is about builds without the trait"))
  func `A fault that could never occur is an error with the remedy`() {
    let error = #expect(throws: FaultPlan.NotCompiledIn.self) {
      try FaultPlan([.kill(at: .begin)]).environment
    }
    #expect(error?.description.contains("FaultInjection") == true)
  }

  @Test func `Nothing can fail once the commit has been published`() async throws {
    let result = try await #require(
      processExitsWith: .failure, observing: [\.standardErrorContent]
    ) {
      _ = FaultPlan([.error(at: .afterCommit)])
    }
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("afterCommit cannot fail"))
  }

  @Test func `Passages are counted from one`() async throws {
    await #expect(processExitsWith: .failure) { _ = FaultPlan([.kill(at: .begin, occurrence: 0)]) }
  }
}
