// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem
import LarderTesting

/// The counts and the findings of a run.
struct StressTotals: Sendable {
  var rounds = 0
  var kills = 0
  var stops = 0
  var operations: UInt64 = 0
  var memoryHits: UInt64 = 0
  var filesDamaged = 0
  var violations: [String] = []
}

/// The parent's side of one round: starts the processes, kills, stops and replaces them, and
/// collects the findings at the end.
struct StormRound {
  let storm: UInt64
  let number: Int
  let plan: RoundPlan
  let milliseconds: Int
  /// The fault points at which processes kill and delay themselves; empty in builds without the
  /// trait.
  let faults: String
  let say: (String) -> Void

  /// The longest time in nanoseconds that a running process may take for one operation. It includes
  /// the time for which another process is stopped with the writer lock or the open lock, and on a
  /// machine with much other work the processes of a round have a processor for a part of the time only.
  static let patience: UInt64 = 90_000_000_000

  private struct Crew {
    var child: ChildProcess
    var stoppedUntil: UInt64 = 0
    var isStopped: Bool { stoppedUntil != 0 }
  }

  func run(_ totals: inout StressTotals) throws {
    totals.rounds += 1
    let directory = try TemporaryDirectory()
    let path = directory.path
    try TestFiles.makeDirectory(path + "/histories")
    let board = try StormOracle(path: path + "/board")
    board.add(.clock, UInt64(Clocks.wallMilliseconds()))
    var random = Seed(plan.seed).generator(stream: 1)
    var crew = try plan.roles.indices.map { try start($0, path, &random) }
    var found: [String] = []

    let end = Clocks.monotonicNanoseconds() + UInt64(milliseconds) * 1_000_000
    let pause = Event()
    while Clocks.monotonicNanoseconds() < end, board.value(.violations) == 0, found.isEmpty {
      pause.wait(nanoseconds: UInt64.random(in: 2_000_000...12_000_000, using: &random))
      let now = Clocks.monotonicNanoseconds()
      for index in crew.indices {
        if crew[index].isStopped, now >= crew[index].stoppedUntil {
          crew[index].child.continue()
          crew[index].stoppedUntil = 0
          board[.workers, index, .issued] = now
        }
        if let status = crew[index].child.exitStatus {
          found += finalOutput(of: crew[index].child, index, status, &totals)
          crew[index] = try start(index, path, &random)
          // The beat is that of its predecessor until it has opened the store.
          board[.workers, index, .issued] = now
        } else if !crew[index].isStopped, lastBeat(index, board) != 0,
          now > lastBeat(index, board) &+ StormRound.patience
        {
          found.append("\(plan.roles[index]) \(index) has not moved for 90 s")
        }
      }
      disturb(&crew, at: now, &random, &totals)
    }

    for index in crew.indices where crew[index].isStopped { crew[index].child.continue() }
    if plan.endsByKill {
      if found.isEmpty { found += waitForOperations(of: crew, board) }
      for member in crew { member.child.kill() }
    }
    board.stop()
    found += waitForEnd(of: crew, &totals)
    totals.operations += board.value(.operations) + board.value(.reads)
    try report(&found, board, path, &totals)
  }

  /// Kills or stops one process at random, or none.
  private func disturb(
    _ crew: inout [Crew], at now: UInt64, _ random: inout some RandomNumberGenerator,
    _ totals: inout StressTotals
  ) {
    let victim = Int.random(in: 0..<crew.count, using: &random)
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<12:
      if plan.roles[victim].isPatient, Int.random(in: 0..<50, using: &random) > 0 { break }
      crew[victim].child.kill()
      crew[victim].stoppedUntil = 0
    case 12..<15 where !crew.contains(where: \.isStopped):
      let time = UInt64.random(in: 10_000_000...400_000_000, using: &random)
      guard (try? crew[victim].child.stop()) != nil else { break }
      crew[victim].stoppedUntil = now + time
      totals.stops += 1
    default: break
    }
  }

  /// Waits until every process has completed one more operation, and returns those that have not.
  private func waitForOperations(of crew: [Crew], _ board: StormOracle) -> [String] {
    let beats = crew.indices.map { lastBeat($0, board) }
    func idle() -> [Int] {
      crew.indices.filter {
        crew[$0].child.exitStatus == nil && lastBeat($0, board) == beats[$0]
      }
    }
    let pause = Event()
    let limit = Clocks.monotonicNanoseconds() + StormRound.patience
    while Clocks.monotonicNanoseconds() < limit, !idle().isEmpty {
      pause.wait(nanoseconds: 2_000_000)
    }
    return idle().map { "\(plan.roles[$0]) \($0) does not move at the end" }
  }

  /// Waits for the end of every process, and returns the findings in their output.
  private func waitForEnd(of crew: [Crew], _ totals: inout StressTotals) -> [String] {
    var found: [String] = []
    for index in crew.indices {
      guard let status = try? crew[index].child.wait() else {
        found.append("\(plan.roles[index]) \(index) does not end")
        crew[index].child.kill()
        continue
      }
      found += finalOutput(of: crew[index].child, index, status, &totals)
    }
    return found
  }

  /// Audits the store and the histories of the round, and reports all findings.
  private func report(
    _ found: inout [String], _ board: StormOracle, _ path: String, _ totals: inout StressTotals
  ) throws {
    found += try audit(path, &totals)
    if found.isEmpty, board.value(.violations) > 0 {
      found.append("\(board.value(.violations)) violations of which no text arrived")
    }
    let history = try HistoryLog.operations(in: path + "/histories")
    if !plan.mayVanish {
      found += Linearizability.violations(searching: history).prefix(5).map { "registers: \($0)" }
    }
    totals.violations += found.map { "round \(number): \($0)" }
    say(
      "round \(number): \(plan.theme), \(plan.durability), \(plan.roles.count) processes"
        + (plan.mayVanish ? ", evicting" : "") + (plan.compacts ? ", compacting" : "")
        + ", \(history.count) logged, \(found.count) violations")
  }

  // MARK: Processes

  /// The arguments from which a child derives the plan.
  private var planArguments: [String] { ["\(storm)", "\(number)", "\(plan.roles.count)"] }

  private func lastBeat(_ index: Int, _ board: StormOracle) -> UInt64 {
    board[.workers, index, .issued]
  }

  private func start(
    _ index: Int, _ path: String, _ random: inout some RandomNumberGenerator
  ) throws -> Crew {
    // Migrations of a few objects take several steps.
    var environment = ["LARDER_STEP_LIMIT": "4"]
    if !faults.isEmpty, Int.random(in: 0..<4, using: &random) > 0 {
      environment["LARDER_FAULTS"] = faults
    }
    let arguments =
      ["stress", "worker", plan.roles[index].rawValue, "\(index)"] + planArguments + [path]
    return Crew(
      child: try ChildProcess(PeerExecutable.path, arguments, environment: environment))
  }

  private func finalOutput(
    of child: ChildProcess, _ index: Int, _ status: ChildProcess.ExitStatus,
    _ totals: inout StressTotals
  ) -> [String] {
    let lines = (try? child.remainingLines()) ?? []
    var found = lines.filter { $0 != "ready" }
    switch status {
    case .exited(0): break
    case .killed: totals.kills += 1
    default: found.append("\(plan.roles[index]) \(index) ended: \(status)")
    }
    return found
  }

  private func audit(_ path: String, _ totals: inout StressTotals) throws -> [String] {
    let outcome = try ChildProcess.run(
      PeerExecutable.path, ["stress", "audit"] + planArguments + [path])
    var found: [String] = []
    for line in outcome.lines where line != "ready" {
      if line.hasPrefix("hits "), let hits = UInt64(line.dropFirst(5)) {
        totals.memoryHits += hits
      } else {
        found.append(line)
      }
    }
    if outcome.status != .exited(0) {
      found.append("the audit ended: \(outcome.status) \(outcome.standardError.suffix(300))")
    }
    return found
  }
}
#endif
