// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

// FAULT POINTS
//
// Named places in opening, committing, filling and healing where a test may kill, stop or delay
// this process. They exist only in builds with the package trait `FaultInjection`; everywhere else
// a fault point compiles to nothing.
//
// A process is armed by its environment:
//
//     LARDER_FAULTS="afterStamps:kill@7,beforeCommit:delay=2000%10,begin:stop@1"
//
//     name:action[=microseconds][@n][%percent]
//         action     kill (SIGKILL to itself), stop (SIGSTOP to itself), delay (busy wait)
//         @n         at the n-th passage only
//         %percent   at each passage with this probability
//
// The protocol's rules can each be broken on purpose by `LARDER_MUTANT=name`, to prove that the
// storm notices: see `Mutant`.

/// A named place where a process may be killed, stopped or delayed by a test.
package enum FaultPoint: String, CaseIterable, Sendable {
  // Opening, in order.
  case openGateTaken, openGenerationBuilt, openGenerationRenamed, openCurrentWritten
  case openPresenceTaken, openTableReady, openBeforeEnvironment, openAfterEnvironment
  case openSlotTaken, openDone
  // Writing, in order (W0 to W5 of the protocol).
  case begin, afterWriterLabel, betweenPuts, afterEviction, beforeStamps, betweenStamps
  case afterStamps, beforeCommit, afterCommit, beforeWake
  // Reading.
  case afterRenew, beforeFill
  // Healing and closing.
  case condemnMarked, closeGateTaken, closeSynced, closeDone
  // The first write of a boot makes `state` dirty.
  case stateDirty
  // Single flight.
  case leaseTaken, leaseRegistered, leaseBeforeFill
}

/// A rule of the protocol, broken on purpose. Each must be caught by the storm.
package enum Mutant: String, CaseIterable, Sendable {
  case stampsAfterCommit, stampsOneLow, filedOneHigh, noRenewCheck, fillIgnoresCancel
  case combinerFilesFirst, labelsWithoutBase, condemnWithoutFloor, noBump
  case budgetOffByOne, leaseOutlivesHolder

  #if FAULTS
    package static let active: Mutant? = FileSystem.environment("LARDER_MUTANT").flatMap {
      Mutant(rawValue: $0)
    }
  #endif

  /// Whether this rule is broken in this process; `false` for good in ordinary builds.
  @inline(__always)
  package var isActive: Bool {
    #if FAULTS
      return Mutant.active == self
    #else
      return false
    #endif
  }
}

/// Passes a fault point. Compiles to nothing without the trait.
@inline(__always)
package func fault(_ point: @autoclosure () -> FaultPoint) {
  #if FAULTS
    Faults.pass(point())
  #endif
}

#if FAULTS
  package enum Faults {
    private struct Rule {
      let action: Action
      let passage: Int?
      let percent: Double?
    }

    private enum Action { case kill, stop, delay(microseconds: UInt64) }

    private static let rules: [FaultPoint: [Rule]] = parse(
      FileSystem.environment("LARDER_FAULTS") ?? "")
    private static let passages = Mutex<[FaultPoint: Int]>([:])

    static func pass(_ point: FaultPoint) {
      guard !rules.isEmpty, let rules = rules[point] else { return }
      let count = passages.withLock { passages in
        passages[point, default: 0] += 1
        return passages[point]!
      }
      for rule in rules {
        if let passage = rule.passage, passage != count { continue }
        if let percent = rule.percent, Double.random(in: 0..<100) >= percent { continue }
        switch rule.action {
        case .kill: kill(getpid(), SIGKILL)
        case .stop: kill(getpid(), SIGSTOP)
        case .delay(let microseconds):
          let end = Clocks.monotonicNanoseconds() + microseconds * 1000
          while Clocks.monotonicNanoseconds() < end {}
        }
      }
    }

    private static func parse(_ text: String) -> [FaultPoint: [Rule]] {
      var result: [FaultPoint: [Rule]] = [:]
      for item in text.split(separator: ",") {
        let halves = item.split(separator: ":", maxSplits: 1)
        guard halves.count == 2 else { fatalError("LARDER_FAULTS: cannot read \(item)") }
        var spec = String(halves[1])
        let percent = cut(&spec, at: "%").flatMap(Double.init)
        let passage = cut(&spec, at: "@").flatMap(Int.init)
        let amount = cut(&spec, at: "=").flatMap(UInt64.init)
        let action: Action
        switch spec {
        case "kill": action = .kill
        case "stop": action = .stop
        case "delay": action = .delay(microseconds: amount ?? 100)
        default: fatalError("LARDER_FAULTS: no action \(spec)")
        }
        let points =
          halves[0] == "*"
          ? FaultPoint.allCases : FaultPoint(rawValue: String(halves[0])).map { [$0] } ?? []
        if points.isEmpty { fatalError("LARDER_FAULTS: no fault point \(halves[0])") }
        for point in points {
          result[point, default: []].append(
            Rule(action: action, passage: passage, percent: percent))
        }
      }
      return result
    }

    private static func cut(_ text: inout String, at mark: Character) -> String? {
      guard let index = text.firstIndex(of: mark) else { return nil }
      let rest = String(text[text.index(after: index)...])
      text = String(text[..<index])
      return rest
    }
  }
#endif
