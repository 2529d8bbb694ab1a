// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem
import LarderTesting

// THE DAMAGE MODE
//
// A few valid stores are built once. Then child processes copy them, damage the copies, open them
// and check what they read, a few hundred cases a second; the parent supervises. A child stores the
// number of its case in mapped memory before it opens the store: if it dies of a signal or hangs,
// that case is a violation, with a command that repeats it, and another child continues after it. A
// second phase damages a store that processes are using (LiveDamage.swift).

/// The counts and the findings of the damage mode.
package struct DamageOutcome: Sendable {
  package var filesDamaged = 0
  package var opened = 0
  package var violations: [String] = []
  /// Deaths of processes whose files were damaged while they used them.
  package var signalDeaths = 0
}

package enum DamageRun {
  /// The longest time of one phase of one case, in nanoseconds. The slowest phase takes
  /// milliseconds; the bound only ends a hang, on a machine that does much else too.
  static let deadline: UInt64 = 120_000_000_000
  /// The number of reported violations, after which a run ends.
  static let maximumViolations = 25

  /// Damages stores and opens them for `seconds`, and until `minimumFiles` were damaged.
  package static func run(
    seconds: Double, minimumFiles: Int, seed: UInt64, workers: Int, report: (String) -> Void
  ) async throws -> DamageOutcome {
    let work = try workDirectory()
    defer { TestFiles.removeAll(work) }
    var outcome = DamageOutcome()
    let start = Clocks.monotonicNanoseconds()
    report("damage: building \(DamageTemplate.all.count) stores in \(work), seed \(seed)")
    try build(work, seed)
    // A fifth of the time for stores in use.
    let budget = UInt64(max(seconds, 0.5) * 0.8e9)
    let supervisor = Supervisor(work: work, seed: seed, catalog: try .init(below: work))
    for index in 0..<workers {
      try supervisor.start(index, first: index, step: workers, count: .max)
    }
    watch(supervisor, until: start + budget, minimumFiles: minimumFiles, &outcome, report)
    let spent = Double(Clocks.monotonicNanoseconds() - start) / 1e9
    report(
      "damage: \(outcome.filesDamaged) files in \(tenths(spent)) s, "
        + "\(Int(Double(outcome.filesDamaged) / spent)) a second")
    let rest = max(seconds - spent, min(seconds * 0.2, 4))
    if outcome.violations.count < maximumViolations {
      var live = LiveDamage(work: work, seed: seed)
      try live.run(seconds: rest, &outcome, report)
    }
    return outcome
  }

  /// Damages a store while processes use it, and nothing else.
  static func damageInUse(
    seconds: Double, seed: UInt64, report: (String) -> Void
  ) throws -> DamageOutcome {
    let work = try workDirectory()
    defer { TestFiles.removeAll(work) }
    var outcome = DamageOutcome()
    var live = LiveDamage(work: work, seed: seed)
    try live.run(seconds: seconds, &outcome, report)
    return outcome
  }

  /// Repeats one case, and copies the damaged store to `keep` before it is opened.
  static func repeatCase(
    _ number: Int, seed: UInt64, keep: String?, report: (String) -> Void
  ) throws -> DamageOutcome {
    let work = try workDirectory()
    defer { TestFiles.removeAll(work) }
    try build(work, seed)
    let plan = DamagePlan(seed: seed, number: number, catalog: try .init(below: work))
    report("case \(number), store \(plan.template.number): \(plan.description)")
    if let keep { try plan.apply(at: keep) }
    var outcome = DamageOutcome()
    let supervisor = Supervisor(work: work, seed: seed, catalog: try .init(below: work))
    try supervisor.start(0, first: number, step: 1, count: 1)
    while supervisor.isRunning { supervisor.watch(&outcome) }
    return outcome
  }

  static func board(_ work: String, _ index: Int) -> String { "\(work)/board\(index)" }

  private static func tenths(_ value: Double) -> Double { (value * 10).rounded() / 10 }

  /// Creates the working directory, in memory if possible: the tests concern the contents of files.
  static func workDirectory(_ mode: String = "damage") throws -> String {
    let memory = "/dev/shm"
    let name =
      "larder-\(mode)-\(ProcessIdentity.pid)-\(Clocks.monotonicNanoseconds() % 1_000_000)"
    if (try? TestFiles.makeDirectory("\(memory)/\(name)")) != nil { return "\(memory)/\(name)" }
    let path = (FileSystem.environment("TMPDIR") ?? "/tmp") + "/" + name
    try TestFiles.makeDirectory(path)
    return path
  }

  private static func build(_ work: String, _ seed: UInt64) throws {
    for template in DamageTemplate.all {
      let arguments = ["stress", "damage-worker", "build", work, "\(seed)", "\(template.number)"]
      let outcome = try ChildProcess.run(PeerExecutable.path, arguments)
      let expected: ChildProcess.ExitStatus = template.isKilled ? .killed : .exited(0)
      guard outcome.status == expected else {
        throw DamageFailure(
          "template \(template.number) \(outcome.status): \(outcome.lines) "
            + outcome.standardError)
      }
    }
  }

  /// Waits for the end of the time and for `minimumFiles` damaged files, and then for the workers.
  private static func watch(
    _ supervisor: Supervisor, until end: UInt64, minimumFiles: Int,
    _ outcome: inout DamageOutcome, _ report: (String) -> Void
  ) {
    var reported = Clocks.monotonicNanoseconds()
    while supervisor.isRunning {
      supervisor.watch(&outcome)
      let now = Clocks.monotonicNanoseconds()
      let isEnough = now > end && outcome.filesDamaged >= minimumFiles
      if isEnough || outcome.violations.count >= maximumViolations { supervisor.stop() }
      if now - reported > 10_000_000_000 {
        reported = now
        report("damage: \(outcome.filesDamaged) files, \(outcome.violations.count) violations")
      }
    }
    report("damage: \(supervisor.summary)")
  }
}

/// Starts, watches and replaces the children that open damaged stores.
final class Supervisor {
  private struct Worker {
    var child: ChildProcess
    let board: DamageProgress
    let index: Int
    let step: Int
  }

  private let work: String
  private let seed: UInt64
  private let catalog: DamagePlan.Catalog
  private var workers: [Worker] = []
  private var boards: [DamageProgress] = []
  private var isStopping = false

  init(work: String, seed: UInt64, catalog: DamagePlan.Catalog) {
    self.work = work
    self.seed = seed
    self.catalog = catalog
  }

  var isRunning: Bool { !workers.isEmpty }

  func start(_ index: Int, first: Int, step: Int, count: Int) throws {
    let board = try DamageProgress(path: DamageRun.board(work, index))
    if first < step || count == 1 { boards.append(board) }
    board.begin(first)
    let arguments = [
      "stress", "damage-worker", "open", work, "\(seed)", "\(index)", "\(first)", "\(step)",
    ]
    let child = try ChildProcess(
      PeerExecutable.path, arguments + (count == .max ? [] : ["\(count)"]),
      standardError: .captured)
    workers.append(Worker(child: child, board: board, index: index, step: step))
  }

  func stop() {
    isStopping = true
    for worker in workers { worker.board[.stop] = 1 }
  }

  /// Waits briefly, reads the output of every child, and replaces children that died or hang.
  func watch(_ outcome: inout DamageOutcome) {
    Event().wait(nanoseconds: 5_000_000)
    for position in workers.indices.reversed() {
      let worker = workers[position]
      let status = worker.child.exitStatus
      take(worker, &outcome)
      if let status {
        workers.remove(at: position)
        if status != .exited(0) { lose(worker, "\(status)", &outcome) }
      } else if let now = worker.board.now, now.nanoseconds > DamageRun.deadline {
        worker.child.kill()
        _ = try? worker.child.wait()
        take(worker, &outcome)
        workers.remove(at: position)
        lose(worker, "hung", &outcome)
      }
    }
    outcome.filesDamaged = boards.reduce(0) { $0 + Int($1[.finished]) }
    outcome.opened = boards.reduce(0) { $0 + Int($1[.opened]) + Int($1[.refused]) }
  }

  private func take(_ worker: Worker, _ outcome: inout DamageOutcome) {
    while let line = try? worker.child.nextLine(deadline: .zero) {
      let parts = line.split(separator: " ", maxSplits: 1)
      guard parts.count == 2, let number = Int(parts[0]) else {
        outcome.violations.append("a worker said: \(line)")
        continue
      }
      add(number, String(parts[1]), &outcome)
    }
  }

  /// A child died or was killed in the middle of a case.
  private func lose(_ worker: Worker, _ what: String, _ outcome: inout DamageOutcome) {
    guard let now = worker.board.now else {
      outcome.violations.append("a worker \(what): \(worker.child.standardErrorText.prefix(300))")
      return
    }
    let text = worker.child.standardErrorText.prefix(300)
    add(now.number, "the process \(what) while \(now.phase). \(text)", &outcome)
    worker.board.add(.finished)
    worker.board[.current] = 0
    if isStopping || worker.step == 1 && workers.isEmpty && boards.count == 1 { return }
    try? start(
      worker.index, first: now.number + worker.step, step: worker.step, count: .max)
  }

  private func add(_ number: Int, _ text: String, _ outcome: inout DamageOutcome) {
    guard outcome.violations.count < DamageRun.maximumViolations else { return }
    let plan = DamagePlan(seed: seed, number: number, catalog: catalog)
    outcome.violations.append(
      "\(text)\n    store \(plan.template.number) (.\(plan.template.durability)), "
        + "\(plan.description)\n    scripts/stress damage --seed \(seed) --case \(number)")
  }

  /// A summary of the openings and reads, as text.
  var summary: String {
    func sum(_ word: DamageProgress.Word) -> UInt64 { boards.reduce(0) { $0 + $1[word] } }
    return "\(sum(.opened)) opened, \(sum(.refused)) refused, \(sum(.healed)) started empty, "
      + "\(sum(.unsound)) found unsound; \(sum(.hits)) values read, \(sum(.misses)) misses, "
      + "\(sum(.failures)) typed errors"
  }
}
#endif
