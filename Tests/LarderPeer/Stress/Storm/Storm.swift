// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem
import LarderTesting

/// A sequence of rounds, until the time has ended or a round finds a violation.
struct Storm {
  let seed: UInt64
  let seconds: Double
  let processes: Int
  /// One round only, to repeat it.
  let only: Int?
  /// Rounds of this theme only.
  let theme: RoundWorkload?
  let say: (String) -> Void

  /// The length of a round: a short storm has a round of each theme.
  private var roundMilliseconds: Int {
    theme == nil && only == nil ? min(8000, max(2000, Int(seconds * 200))) : 8000
  }

  /// Kills and delays at the named points, where the build has them.
  static var faults: String {
    #if FAULTS
    "*:delay=60%1,afterStamps:kill%0.1,betweenStamps:kill%0.05,beforeCommit:kill%0.1,"
      + "afterCommit:kill%0.1,begin:kill%0.05,betweenPuts:kill%0.02,afterEviction:kill%0.02,"
      + "openGateTaken:kill%1,openBeforeEnvironment:kill%1,openTableReady:kill%1,"
      + "openAfterEnvironment:kill%1,openSlotTaken:kill%1,openGenerationBuilt:kill%2,"
      + "openCurrentWritten:kill%2,condemnMarked:kill%2,copyWritten:kill%2,closeGateTaken:kill%1,"
      + "closeSynced:kill%1,leaseTaken:kill%0.2,leaseRegistered:kill%0.2,"
      + "leaseBeforeFill:kill%0.2,objectIndexed:kill%0.05,objectUnlinked:kill%0.1,"
      + "catalogChanged:kill%0.2,migrationNoted:kill%0.5,numberDropped:kill%0.5,"
      + "sweepStep:kill%0.5"
    #else
    ""
    #endif
  }

  func run(_ totals: inout StressTotals) throws {
    let end = Clocks.monotonicNanoseconds() + UInt64(seconds * 1_000_000_000)
    var number = only ?? 0
    repeat {
      let plan = RoundPlan(seed: seed, round: number, processes: processes)
      if only == nil, let theme, plan.theme != theme {
        number += 1
        continue
      }
      let left = end.subtractingReportingOverflow(Clocks.monotonicNanoseconds())
      if left.overflow || left.partialValue < 500_000_000 { break }
      let round = StormRound(
        storm: seed, number: number,
        plan: plan, milliseconds: min(roundMilliseconds, Int(left.partialValue / 1_000_000)),
        faults: Storm.faults, say: say)
      try round.run(&totals)
      if only == nil, totals.violations.isEmpty { number += 1 }
    } while totals.violations.isEmpty
    if !totals.violations.isEmpty {
      say("again: scripts/stress --seed \(seed) --processes \(processes) --round \(number)")
    }
  }
}
#endif
