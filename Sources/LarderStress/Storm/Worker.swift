// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

/// One hostile process of a storm. It runs until it is killed, or the board says stop.
///
///     larder-stress worker ROLE SLOT ROUND-SEED-AND-NUMBER PROCESSES DIRECTORY
final class Worker: Sendable {
  let role: Role
  let slot: Int
  let plan: RoundPlan
  let directory: String
  let board: StormOracle
  let store: SharedStore
  /// One a namespace, all over the same store.
  let kept: PersistentCache<Int, StressValue>
  let removed: PersistentCache<Int, StressValue>
  let expiring: PersistentCache<Int, StressValue>

  init(role: Role, slot: Int, plan: RoundPlan, directory: String) throws {
    self.role = role
    self.slot = slot
    self.plan = plan
    self.directory = directory
    board = try StormOracle(path: directory + "/board")
    board.beat(slot)
    var options = plan.options(slot, board)
    let board = board
    options.onError = { error in Worker.judge(error, board) }
    store = try SharedStore(at: directory + "/store", options)
    kept = PersistentCache(
      storage: store, namespace: "kept", options: plan.cacheOptions(slot))
    removed = PersistentCache(
      storage: store, namespace: "removed", options: plan.cacheOptions(slot))
    expiring = PersistentCache(
      storage: store, namespace: "expiring", options: plan.cacheOptions(slot))
  }

  func cache(of key: Int) -> PersistentCache<Int, StressValue> {
    if LedgerKeys.kept.contains(key) { return kept }
    return LedgerKeys.removed.contains(key) ? removed : expiring
  }

  func run() async throws {
    ParentProcess.send("ready")
    switch role {
    case .writer: try await write()
    case .reader: read()
    case .flight: try await computeSingleFlight()
    case .counter: count()
    case .register: try register()
    case .budgetFiller: budgetFiller()
    case .opener: try openAndClose()
    case .maintainer: keep()
    case .objectWriter: try saveObjects()
    case .objectReader: try readObjects()
    case .query: try ask()
    case .index: try claim()
    case .family: try raise()
    case .oldProgram, .newProgram: try meetPrograms()
    case .observer: try await observe()
    case .bounded: keepBounded()
    case .transferrer: move()
    case .pager: turnPages()
    case .defaults: try setDefaults()
    case .defaultsWatcher: try await watchDefaults()
    case .storage: try useStorages()
    }
    store.close()
  }

  /// One step after the other until the storm is over.
  func loop(_ body: () async throws -> Void) async {
    while !board.isOver {
      board.beat(slot)
      do { try await body() } catch { Worker.judge(error, board) }
      board.add(.operations)
    }
  }

  func loop(_ body: () throws -> Void) {
    while !board.isOver {
      board.beat(slot)
      do { try body() } catch { Worker.judge(error, board) }
      board.add(.operations)
    }
  }

  // MARK: Findings

  func violation(_ text: String) {
    Worker.violation("\(role) \(slot): \(text)", board)
  }

  static func violation(_ text: String, _ board: StormOracle) {
    board.add(.violations)
    // A pipe nobody reads must not fill up.
    if board.value(.violations) < 50 { ParentProcess.send("violation: \(text)") }
  }

  /// Errors a storm brings about; any other is a finding.
  static let expected: Set<StoreError.Code> = [.writerStalled, .outcomeUnknown, .openTimeout]

  static func judge(_ error: any Error, _ board: StormOracle) {
    if let error = error as? StoreError, expected.contains(error.code) { return }
    violation("unexpected error: \(error)", board)
  }

  /// Looks at what a read of a ledger key gave.
  ///
  /// - Parameters:
  ///   - acknowledged: The board's word before the read.
  ///   - before: The board's clock before the read.
  @inline(__always)
  func judge(
    _ value: StressValue?, _ key: Int, acknowledged: UInt64, before: Int64, deadline: UInt64
  ) {
    guard let value else {
      if acknowledged > 0 { judgeAbsence(key, acknowledged: acknowledged, deadline: deadline) }
      return
    }
    if !value.isOwn(key) { violation("key \(key) holds a value of key \(value.key)") }
    if value.sequence < acknowledged {
      violation("key \(key) read as \(value.sequence), \(acknowledged) was acknowledged")
    }
    if value.deadline != 0, value.deadline <= before {
      violation("key \(key) read at \(before), it expired at \(value.deadline)")
    }
  }

  private func judgeAbsence(_ key: Int, acknowledged: UInt64, deadline: UInt64) {
    if plan.mayVanish { return }
    if LedgerKeys.removed.contains(key),
      board.ledger(key, .removalIssued) >= acknowledged
    {
      return
    }
    if LedgerKeys.expiring.contains(key) {
      // Whatever is or was in force may have expired by now.
      let now = UInt64(plan.usesBoardClock ? board.clock : Clocks.wallMilliseconds())
      if min(deadline, board.ledger(key, .deadline)) <= now { return }
    }
    violation("key \(key) is missing, \(acknowledged) was acknowledged")
  }
}
