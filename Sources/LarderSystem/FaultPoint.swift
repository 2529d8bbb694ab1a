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
// this process, or let the step fail. They exist only in builds with the package trait
// `FaultInjection`; everywhere else a fault point compiles to nothing.
//
// A process is armed by its environment:
//
//     LARDER_FAULTS="seed=7,afterStamps:kill@7,beforeCommit:delay=2000%10,begin:error=28@1"
//
//     name:action[=amount][@n][%percent]
//         name       of a point; * for all of them (for `error`: all that can fail)
//         action     kill (SIGKILL to itself), stop (SIGSTOP to itself),
//                    delay (busy wait of this many microseconds),
//                    error (the step fails with this errno; the default is EIO)
//         @n         at the n-th passage only
//         %percent   at each passage with this probability
//     seed=number    which passages `%` picks; without it, others in each run
//
// `LARDER_MUTANT=name` breaks one rule of the protocol on purpose, to prove that the storm detects
// it: see `Mutant`.

/// A named place where a process may be killed, stopped or delayed by a test.
@usableFromInline
package enum FaultPoint: String, CaseIterable, Sendable {
  // Opening, in order.
  case openGateTaken, openGenerationBuilt, openGenerationRenamed, currentRenamed, openCurrentWritten
  case openPresenceTaken, openTableReady, openBeforeEnvironment, openAfterEnvironment
  case openSlotTaken, openDone
  // Writing, in order (W0 to W5 of the protocol).
  case begin, afterWriterLabel, betweenPuts, afterEviction, beforeStamps, betweenStamps
  case afterStamps, beforeCommit, afterCommit, beforeWake
  // Reading.
  case afterRenew, beforeFill
  // Healing and closing.
  case condemnMarked, closeGateTaken, closeSynced, closeDone
  // A compaction's copy is complete, and the open lock not acquired yet.
  case copyWritten
  // The first write of a boot makes `state` dirty.
  case stateDirty
  // A relaxed store's sync: before the data are synced, before and after the checkpoint is
  // recorded. After a system crash: the checkpoint is in both metas, is synced, is recorded again.
  // The redo log: the record is written; the new end is known; its transaction is committed.
  // A process has the lock for syncing it. After a system crash: changes from the log are committed.
  // A file of it is created, and its name not synced yet.
  case logWritten, logEnded, logCommitted, logSyncing, logSynced, logReplayed, logFileCreated
  case syncBegun, beforeRecord, afterRecord, restoreWritten, restoreSynced, restoreRecorded
  // Single flight.
  case leaseTaken, leaseRegistered, leaseBeforeFill
  // Objects, each within a transaction: the keys of a saved one are stored, of a deleted one
  // removed; a type's record is written, a migration's state, a tombstone of an identifier; before
  // a sweep step.
  case objectIndexed, objectUnlinked, catalogChanged, migrationNoted, numberDropped, sweepStep

  // Locks: a process has the ticket of a slot; its request is listed and not granted; it has
  // released a lock that is granted to no other request yet.
  case lockEntered, lockQueued, lockReleased
  // Enough callers of a barrier were counted; it has opened, and none of them was granted yet.
  case barrierCounted, barrierOpened
  // Combined writes: one is offered to the process that writes; a writer has claimed some; the owner of
  // a claimed one has found it unsettled.
  case writeOffered, offersClaimed, claimAwaited

  /// Whether the step can fail here: a caller receives the error, and no effect of the step is
  /// visible yet.
  package var canFail: Bool {
    switch self {
    case .openGateTaken, .openGenerationBuilt, .openGenerationRenamed, .currentRenamed,
      .openCurrentWritten, .openPresenceTaken, .openTableReady, .openBeforeEnvironment,
      .openAfterEnvironment,
      .openSlotTaken:
      true
    case .begin, .afterWriterLabel, .stateDirty, .betweenPuts, .afterEviction, .beforeStamps,
      .beforeCommit, .objectIndexed, .objectUnlinked, .catalogChanged, .migrationNoted,
      .numberDropped, .sweepStep, .syncBegun, .beforeRecord:
      true
    case .copyWritten, .afterRenew, .closeGateTaken, .leaseTaken, .leaseRegistered,
      .leaseBeforeFill:
      true
    // The stamps or the commit are published, or no caller receives an error: nothing can fail.
    case .openDone, .betweenStamps, .afterStamps, .afterCommit, .beforeWake, .beforeFill,
      .condemnMarked, .closeSynced, .closeDone, .afterRecord, .restoreWritten, .restoreSynced,
      .restoreRecorded, .logWritten, .logEnded, .logCommitted, .logSyncing, .logSynced,
      .logReplayed, .logFileCreated,
      .lockEntered, .lockQueued,
      .lockReleased, .barrierCounted, .barrierOpened,
      .writeOffered, .offersClaimed, .claimAwaited:
      false
    }
  }
}

/// A deliberate violation of one rule of the protocol. The storm must detect each of them. Each
/// module declares its mutants in `Mutants.swift`.
@usableFromInline
package struct Mutant: Sendable {
  #if FAULTS
  private static let active = FileSystem.environment("LARDER_MUTANT")
  private let name: StaticString

  package init(_ name: StaticString) { self.name = name }

  /// Whether this rule is broken in this process.
  package var isActive: Bool { Mutant.active.map { $0 == name.description } ?? false }
  #else
  @inlinable @inline(__always)
  package init(_ name: StaticString) {}

  /// Whether this rule is broken in this process; always `false` in ordinary builds.
  @inlinable @inline(__always)
  package var isActive: Bool { false }
  #endif
}

// Inlinable, or other modules would call an empty function at every point.
#if FAULTS
/// Passes a fault point.
package func fault(_ point: FaultPoint) { Faults.pass(point) }

/// Passes a fault point whose step can fail.
package func fault(throwing point: FaultPoint) throws(SystemError) {
  guard let code = Faults.pass(point) else { return }
  throw SystemError(errno: code, operation: "fault point \(point)")
}
#else
@inlinable @inline(__always)
package func fault(_ point: @autoclosure () -> FaultPoint) {}

@inlinable @inline(__always)
package func fault(throwing point: @autoclosure () -> FaultPoint) throws(SystemError) {}
#endif

/// Whether this build has fault points at all.
package enum FaultInjection {
  /// The number of objects that a migration step processes, set to small values by storms
  /// (`LARDER_STEP_LIMIT`); `nil` in ordinary builds.
  #if FAULTS
  package static let stepLimit = FileSystem.environment("LARDER_STEP_LIMIT").flatMap { Int($0) }
  #else
  package static var stepLimit: Int? { nil }
  #endif

  package static var isCompiledIn: Bool {
    #if FAULTS
    return true
    #else
    return false
    #endif
  }
}

#if FAULTS
package enum Faults {
  private struct Rule {
    let action: Action
    let occurrence: Int?
    let percent: Double?
    /// The value that makes the chances of this rule independent of others.
    let salt: UInt64
  }

  private enum Action { case kill, stop, delay(microseconds: UInt64), error(CInt) }

  private struct Plan {
    var rules: [FaultPoint: [Rule]] = [:]
    var seed = UInt64.random(in: 0 ... .max)
  }

  private static let plan = parse(FileSystem.environment("LARDER_FAULTS") ?? "")
  private static let passages = Mutex<[FaultPoint: Int]>([:])

  /// Performs the configured action; returns the error to throw, if any.
  @discardableResult
  static func pass(_ point: FaultPoint) -> CInt? {
    guard !plan.rules.isEmpty, let rules = plan.rules[point] else { return nil }
    let count = passages.withLock { passages in
      passages[point, default: 0] += 1
      return passages[point]!
    }
    var failure: CInt?
    for rule in rules {
      if let occurrence = rule.occurrence, occurrence != count { continue }
      if let percent = rule.percent, chance(rule.salt, count) >= percent { continue }
      switch rule.action {
      case .kill: kill(getpid(), SIGKILL)
      case .stop: kill(getpid(), SIGSTOP)
      case .delay(let microseconds):
        let end = Clocks.monotonicNanoseconds() + microseconds * 1000
        while Clocks.monotonicNanoseconds() < end {}
      case .error(let code): failure = code
      }
    }
    return failure
  }

  /// Returns a number in 0..<100 from the seed. It depends on n, not on the thread that makes the
  /// n-th passage of a point.
  private static func chance(_ salt: UInt64, _ occurrence: Int) -> Double {
    // The mixer of SplitMix64.
    var mixed = plan.seed ^ salt &+ UInt64(occurrence) &* 0x9e37_79b9_7f4a_7c15
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    mixed ^= mixed >> 31
    return Double(mixed >> 11) * 100 / Double(1 << 53)
  }

  private static func parse(_ text: String) -> Plan {
    var result = Plan()
    for item in text.split(separator: ",") {
      if item.hasPrefix("seed=") {
        guard let seed = UInt64(item.dropFirst(5)) else {
          fatalError("LARDER_FAULTS: cannot read \(item)")
        }
        result.seed = seed
        continue
      }
      let halves = item.split(separator: ":", maxSplits: 1)
      guard halves.count == 2 else { fatalError("LARDER_FAULTS: cannot read \(item)") }
      var spec = String(halves[1])
      let percent = cut(&spec, at: "%").flatMap(Double.init)
      let occurrence = cut(&spec, at: "@").flatMap(Int.init)
      let amount = cut(&spec, at: "=").flatMap(UInt64.init)
      let action: Action
      switch spec {
      case "kill": action = .kill
      case "stop": action = .stop
      case "delay": action = .delay(microseconds: amount ?? 100)
      case "error": action = .error(CInt(clamping: amount ?? UInt64(EIO)))
      default: fatalError("LARDER_FAULTS: no action \(spec)")
      }
      var points =
        halves[0] == "*"
        ? FaultPoint.allCases : FaultPoint(rawValue: String(halves[0])).map { [$0] } ?? []
      if points.isEmpty { fatalError("LARDER_FAULTS: no fault point \(halves[0])") }
      if case .error = action {
        points.removeAll { !$0.canFail }
        if points.isEmpty { fatalError("LARDER_FAULTS: nothing can fail at \(halves[0])") }
      }
      for point in points {
        result.rules[point, default: []].append(
          Rule(
            action: action, occurrence: occurrence, percent: percent,
            salt: XXH64.hash(Array("\(point.rawValue):\(halves[1])".utf8))))
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
