// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting

/// One process of a storm. It runs the operations of its role until the oracle's stop word is set
/// or the parent kills it.
///
///     LarderPeer stress worker ROLE SLOT ROUND-SEED-AND-NUMBER PROCESSES DIRECTORY
final class Worker: Sendable {
  let role: Role
  let slot: Int
  let plan: RoundPlan
  let directory: String
  let board: StormOracle
  let store: SharedStore
  /// One cache per namespace, all over the same store.
  let kept: PersistentCache<Int, StressValue>
  let removed: PersistentCache<Int, StressValue>
  let expiring: PersistentCache<Int, StressValue>

  /// Opens the round's store under the plan's options for `slot`.
  init(
    role: Role, slot: Int, plan: RoundPlan, directory: String, writeTimeout: Duration? = nil
  ) throws {
    self.role = role
    self.slot = slot
    self.plan = plan
    self.directory = directory
    board = try StormOracle(path: directory + "/board")
    var options = plan.options(slot, board)
    if let writeTimeout { options.writeTimeout = writeTimeout }
    let board = board
    options.onError = { error in Worker.judge(error, board) }
    let store = try SharedStore(at: directory + "/store", options)
    func cache(_ namespace: String) -> PersistentCache<Int, StressValue> {
      PersistentCache(storage: store, namespace: namespace, options: plan.cacheOptions(slot))
    }
    self.store = store
    kept = cache("kept")
    removed = cache("removed")
    expiring = cache("expiring")
    beat()
  }

  /// The regions of the cache's keys, and the cache that stores each.
  var cacheRegions: [(region: OracleRegion, cache: PersistentCache<Int, StressValue>)] {
    [(.kept, kept), (.removed, removed), (.expiring, expiring)]
  }

  func run() async throws {
    ParentProcess.send("ready")
    switch role {
    case .writer: await loop(write())
    case .reader: read()
    case .flight: await loop(computeSingleFlight())
    case .tagger: await loop(try useTags())
    case .counter: await loop(count())
    case .register: await loop(try register())
    case .budgetFiller: await loop(fillBudget())
    case .opener: await loop(openAndClose())
    case .maintainer: await loop(maintain())
    case .objectWriter: await loop(saveObjects())
    case .objectReader: readObjects()
    case .query: await loop(query())
    case .index: await loop(claim())
    case .family: await loop(saveFamilies())
    case .oldProgram, .newProgram: await loop(runSchemaVersion())
    case .observer: await observe()
    case .bounded: await loop(saveBounded())
    case .transferrer: await loop(transfer())
    case .pager: await loop(turnPages())
    case .defaults: await loop(try setDefaults())
    case .defaultsWatcher: try await watchDefaults()
    case .storage: await loop(useStorages())
    }
    store.close()
  }

  // MARK: Operations

  /// One row of a worker's table: a step, and its share of all steps.
  struct Operation {
    let weight: Int
    let step: () async throws -> Void

    init(_ weight: Int, _ step: @escaping () throws -> Void) {
      self.weight = weight
      self.step = { try step() }
    }

    init(_ weight: Int, _ step: @escaping () async throws -> Void) {
      self.weight = weight
      self.step = step
    }
  }

  /// Runs random operations of a table until the storm is over.
  func loop(_ operations: [Operation]) async {
    let weights = operations.reduce(0) { $0 + $1.weight }
    while !board.isOver {
      beat()
      var number = Int.random(in: 0..<weights)
      let operation = operations.first {
        number -= $0.weight
        return number < 0
      }!
      do { try await operation.step() } catch { Worker.judge(error, board) }
      board.add(.operations)
    }
  }

  func beat() { board[.workers, slot, .issued] = Clocks.monotonicNanoseconds() }

  /// Runs a step outside of the loop, with the same judgement of its errors.
  func attempt(_ step: () throws -> Void) {
    do { try step() } catch { Worker.judge(error, board) }
  }

  func rest(milliseconds: UInt64) { Event().wait(nanoseconds: milliseconds * 1_000_000) }

  /// The index of this process among those of its role, and their number.
  var place: (index: Int, count: Int) {
    let same = plan.roles.indices.filter { plan.roles[$0] == role }
    return (same.firstIndex(of: slot) ?? 0, max(same.count, 1))
  }

  /// The time of the store, in milliseconds.
  var now: Int64 { plan.usesBoardClock ? board.clock : Clocks.wallMilliseconds() }

  // MARK: Findings

  func violation(_ text: String) {
    Worker.violation("\(role) \(slot): \(text)", board)
  }

  static func violation(_ text: String, _ board: StormOracle) {
    board.add(.violations)
    // The parent reads the pipe only at the end, so the output must fit into its buffer.
    if board.value(.violations) < 50 { ParentProcess.send("violation: \(text)") }
  }

  /// Errors that a storm causes; any other is a finding.
  static let expected: Set<StoreError.Code> = [.writerStalled, .outcomeUnknown, .openTimeout]

  static func judge(_ error: any Error, _ board: StormOracle) {
    if let error = error as? StoreError, expected.contains(error.code) { return }
    violation("unexpected error: \(error)", board)
  }

  func verify(_ store: SharedStore, _ name: String = "verify") throws {
    for finding in try store.verify() { violation("\(name): \(finding)") }
  }

  func checkBudget() throws {
    let bytes = try store.statistics().bytes
    if bytes > plan.budget { violation("\(bytes) of \(plan.budget) bytes are stored") }
  }
}
#endif
