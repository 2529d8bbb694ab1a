// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

// DAMAGE TO A STORE IN USE
//
// Processes use a cache; several times a second something is done to its files in place. LMDB maps
// its file: a process that touches a page which was just cut off gets a SIGBUS, and nothing a
// library does without a signal handler can prevent that. So deaths by signal are counted and
// bounded (one and a half per act of sabotage), not forbidden. Violations are a wrong or an old
// value, an untyped error, a process that hangs, and a store that does not recover: after each act
// every process has to complete a write and read it back within the deadline.

/// Damages a store while processes use it.
struct LiveDamage {
  /// The longest time after one act for which the store may be unusable, including restarts.
  static let deadline: UInt64 = 180_000_000_000
  /// The longest time for which a process may loop in liblmdb before it is counted as dead.
  static let patience: UInt64 = 4_000_000_000
  /// Deaths by signal per act.
  static let bound = 1.5

  let work: String
  let seed: UInt64
  private var children: [ChildProcess] = []
  private var deaths = 0

  init(work: String, seed: UInt64) {
    self.work = work
    self.seed = seed
  }

  private var path: String { work + "/live" }

  mutating func run(
    seconds: Double, _ outcome: inout DamageOutcome, _ report: (String) -> Void
  ) throws {
    let board = try LiveOracle(path: work + "/liveboard")
    var random = Seed(seed).generator(stream: 1 << 34)
    for id in 0..<LiveWorker.processes { children.append(try start(id)) }
    let end = Clocks.monotonicNanoseconds() + UInt64(seconds * 1e9)
    var acts = 0
    var last = "nothing"
    var isSound = recovers(board, after: last, &outcome)
    while isSound, Clocks.monotonicNanoseconds() < end {
      last = sabotage(board, &random)
      acts += 1
      isSound = recovers(board, after: "act \(acts), \(last)", &outcome)
    }
    finish(board, after: last, &outcome)
    outcome.filesDamaged += acts
    outcome.signalDeaths += deaths
    if acts >= 20, Double(deaths) > Self.bound * Double(acts) {
      outcome.violations.append("\(deaths) deaths by signals in \(acts) acts of sabotage")
    }
    report(
      "damage in use: \(acts) acts, \(deaths) deaths by signals, \(board.value(.reads)) reads "
        + "(\(board.value(.hits)) hits), \(board.value(.writes)) writes, "
        + "\(board.value(.errors)) typed errors")
  }

  private func start(_ id: Int) throws -> ChildProcess {
    try ChildProcess(
      PeerExecutable.path,
      ["stress", "damage-worker", "live", path, work + "/liveboard", "\(id)"],
      // Backtraces are slow, so they are printed only if the environment enables them.
      environment: FileSystem.environment("SWIFT_BACKTRACE").map { ["SWIFT_BACKTRACE": $0] } ?? [:],
      standardError: .captured)
  }

  /// Waits until every process has completed two operations, of which the first may have begun before the act, and
  /// restarts those that died.
  private mutating func recovers(
    _ board: LiveOracle, after what: String, _ outcome: inout DamageOutcome
  ) -> Bool {
    let start = Clocks.monotonicNanoseconds()
    var looked = start
    var ticks: [Int: Int] = [:]
    let before = (0..<LiveWorker.processes).map { board.progress($0) }
    func isBusy(_ id: Int) -> Bool { board.progress(id) < before[id] + 2 }
    while (0..<LiveWorker.processes).contains(where: isBusy) {
      for id in children.indices {
        guard let status = children[id].exitStatus else { continue }
        if case .signalled(let signal) = status, [SIGBUS, SIGSEGV, SIGABRT].contains(signal) {
          deaths += 1
        } else {
          let lines = (try? children[id].remainingLines()) ?? []
          outcome.violations.append(
            "in use, after \(what): a process \(status): \(lines) "
              + children[id].standardErrorText.suffix(4000)
              + "\n    scripts/stress damage --seed \(seed) (the act; timing is not repeatable)")
          return false
        }
        guard let child = try? self.start(id) else { return false }
        children[id] = child
      }
      let now = Clocks.monotonicNanoseconds()
      if now - start > Self.patience, now - looked > 1_000_000_000 {
        // Pages that form a cycle make liblmdb loop for ever, in a read or with the writer lock.
        // That counts as a death, and the other processes must recover from it as from one.
        looked = now
        for id in children.indices where board.progress(id) == before[id] {
          guard children[id].exitStatus == nil, let new = Self.processorTime(children[id]) else {
            continue
          }
          guard let old = ticks.updateValue(new, forKey: id), new - old >= 5 else { continue }
          children[id].kill()
          _ = try? children[id].wait()
          ticks[id] = nil
          deaths += 1
          if let child = try? self.start(id) { children[id] = child }
        }
      }
      if Clocks.monotonicNanoseconds() - start > Self.deadline {
        let stuck = (0..<LiveWorker.processes).filter(isBusy)
        outcome.violations.append(
          "in use, after \(what): processes \(stuck) complete no operation\n"
            + "    scripts/stress damage --seed \(seed) (the act; timing is not repeatable)")
        return false
      }
      usleep(3000)
    }
    return true
  }

  /// The processor time all threads of a process have used outside of the system, in hundredths of
  /// a second.
  private static func processorTime(_ child: ChildProcess) -> Int? {
    guard let text = try? TestFiles.contents(of: "/proc/\(child.processIdentifier)/stat") else {
      return nil
    }
    let fields = String(decoding: text, as: UTF8.self).split(separator: ")").last?.split(
      separator: " ")
    guard let fields, fields.count > 11 else { return nil }
    return Int(fields[11])
  }

  private mutating func finish(
    _ board: LiveOracle, after what: String, _ outcome: inout DamageOutcome
  ) {
    board.stop()
    for child in children {
      guard let status = try? child.wait() else {
        outcome.violations.append("in use: a process does not end, after \(what)")
        child.kill()
        continue
      }
      if case .signalled = status {
        deaths += 1
      } else if status != .exited(0) {
        let lines = (try? child.remainingLines()) ?? []
        outcome.violations.append("in use, at the end: a process \(status): \(lines)")
      }
    }
    children = []
    // The next process must find a working cache.
    do {
      let store = try SharedStore(at: path)
      try store.setBytes([1, 2, 3], forKey: "next")
      if try store.bytes(forKey: "next") != [1, 2, 3] {
        outcome.violations.append("in use: afterwards the store keeps nothing")
      }
      store.close()
    } catch {
      outcome.violations.append("in use: afterwards the store does not work: \(error)")
    }
  }

  /// Damages a file of the current generation once, and returns a description.
  private func sabotage(_ board: LiveOracle, _ random: inout SeededRandom) -> String {
    let act = LiveAct.all.randomElement(using: &random)!
    act.damage(LiveFiles(store: path), &random, board)
    return act.name
  }
}
#endif
