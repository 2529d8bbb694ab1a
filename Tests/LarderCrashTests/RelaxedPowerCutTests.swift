// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

// A relaxed store may be in the state after any command since the last one that is known to be on
// the disk: a command whose sync, closing or compaction was answered, or one that was answered
// before the commit of the transaction that a synced record in `synced` names. The state is
// complete: it contains nothing of a later command.
extension PowerCut {
  /// Returns the minimum number of commands in the store.
  private func floor(_ cut: Int) -> Int {
    var answered = 0
    var floor = 0
    // Commands answered before each commit, by the generation's directory.
    var before: [String: [UInt64: Int]] = [:]
    var recorded: [String: UInt64] = [:]
    func directory(_ path: String) -> String { String(path[..<path.lastIndex(of: "/")!]) }
    for event in life.events[..<cut] {
      switch event {
      case .output:
        let command = life.commands[answered]
        answered += 1
        if ["sync", "checkpoint", "close", "compact"].contains(command) { floor = answered }
      case .write(let path, _, let bytes, _) where path.hasSuffix("/data.mdb"):
        // LMDB writes a meta from its map size on; the transaction comes last.
        guard bytes.count == 120, let id: UInt64 = bytes.integer(at: 112) else { continue }
        before[directory(path), default: [:]][id] = answered
      case .write(let path, _, let bytes, _) where path.hasSuffix("/synced"):
        if let record = CheckpointRecord(bytes) { recorded[directory(path)] = record.transaction }
      case .sync(let path, _) where path.hasSuffix("/synced"):
        let known = recorded[directory(path)].flatMap { before[directory(path)]?[$0] }
        // One that is still being built counts only once it is in force.
        if let known, !path.contains(".tmp/"), !path.contains(".copy/") {
          floor = max(floor, known)
        }
      default: break
      }
    }
    return floor
  }

  /// Syncs the log and makes checkpoints, and between them commits often enough that LMDB would reuse the pages of
  /// the last checkpoint if it were not pinned.
  static func relaxedScript(_ path: String, _ open: String) -> [String] {
    func rounds(_ name: String) -> [String] {
      (0..<8).flatMap { round in
        [
          "set \(round % 4) \(name)\(round)", "large 6 \(12000 + 100 * round)",
          "pair \(name)\(round)",
        ]
      }
    }
    return ["open \(path) \(open)"] + rounds("a") + ["sync"] + rounds("b") + ["remove 2", "close"]
      + ["open \(path) \(open)"] + rounds("c") + ["checkpoint"] + rounds("d") + ["compact"]
      + rounds("e") + ["removeall", "sync"] + rounds("f") + ["checkpoint"] + rounds("g")
  }

  func examineRelaxed(
    _ state: StoreModel.State, _ cut: Int, _ newest: StoreModel, _ findings: inout Findings
  ) throws {
    let answered = life.answered(cut)
    let floor = floor(cut)
    var model = StoreModel()
    var allowed: Set<StoreModel.State> = floor == 0 ? model.states : []
    // The command of a killed process that was not committed: its record may be found until the next one writes.
    var lost: String?
    for (index, command) in life.commands.prefix(answered + 1).enumerated() {
      if let found = life.cutOff[index] {
        if found.isCommitted { model.acknowledge(found.command) } else { lost = found.command }
      }
      model.acknowledge(command)
      if !["open", "sync", "checkpoint", "close"].contains(where: command.hasPrefix) { lost = nil }
      guard index + 1 >= floor else { continue }
      allowed.formUnion(model.states)
      if let lost {
        var other = model
        other.acknowledge(lost)
        allowed.formUnion(other.states)
      }
    }
    guard allowed.contains(state) else {
      throw CrashHarness.UnexpectedOutcome(
        description:
          "It holds \(state), which it did after no command from \(floor) to \(answered).")
    }
    if newest.admits(state, mayForget: false) {
      findings.complete += 1
    } else {
      findings.older += 1
    }
    if state.isEmpty { findings.empty += 1 }
  }
}

extension PowerCuts {
  @Test(
    .enabled(if: Strace.isAvailable, needsStrace), .timeLimit(.minutes(60)),
    arguments: [3_600_000, 2])
  func `After a power cut a relaxed store is as after a commit, at its last sync or later`(
    interval: Int
  ) throws {
    let seed = Seed.announce()
    let start = ContinuousClock.now
    let scratch = try Scratch()
    let cut = try PowerCut(.relaxed, interval: interval, in: scratch)
    let findings = try cut.cut(Sweep.isFull ? 5000 : 150, lies: false, seed: seed, in: scratch)
    #expect(findings.lines == [], "\(findings.lines.count) of \(findings.images)")
    #expect(findings.complete > 0 && findings.older > 0, "\(findings)")
    Sweep.report(
      "relaxed, \(interval) ms: \(findings.images) power cuts in \(cut.life.events.count) events, "
        + "\(findings.complete) found complete, \(findings.older) older, \(start.age)")
  }

  /// Records a process that was killed in a transaction whose record began a segment, and a second one that syncs,
  /// and then writes to the segment before.
  private static func lifeWithStepBack(
    in scratch: Scratch, mutant: String = ""
  ) throws -> RecordedLife {
    let root = scratch.appending("recorded")
    try TestFiles.makeDirectory(root)
    let open = "open \(root)/store" + Scenario.option(.relaxed)
    let first = ["set 0 a", "sync", "large 12 6000", "large 13 6000", "large 14 12000"]
    let second = [
      "sync", "set 1 b", "set 2 b", "large 15 12000", "set 3 b", "sync", "set 4 b", "set 5 b",
      "close", open, "set 6 b", "set 7 b",
    ]
    return try RecordedLife(
      sessions: [([open] + first, (.logEnded, 3)), ([open] + second, nil)], root: root,
      log: scratch.appending("log"), environment: ["LARDER_MUTANT": mutant])
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(60)), arguments: ["", "logLeftUnsynced"])
  func `A sync is of all segments, though the log has stepped back to an older one`(
    mutant: String
  ) throws {
    let seed = Seed.announce()
    let scratch = try Scratch()
    let life = try Self.lifeWithStepBack(in: scratch, mutant: mutant)
    #expect(life.cutOff.count == 1)
    let findings = try PowerCut(life, .relaxed).cut(300, lies: false, seed: seed, in: scratch)
    #expect(
      findings.lines.isEmpty == mutant.isEmpty, "\(findings.lines.prefix(3)) of \(findings.images)")
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(60)), arguments: ["recordUnpinned", "recordedUnsynced", "logUnsynced"])
  func `A rule of relaxed stores that is broken is noticed after a power cut`(
    mutant: String
  ) throws {
    let seed = Seed.announce()
    let scratch = try Scratch()
    let cut = try PowerCut(.relaxed, environment: ["LARDER_MUTANT": mutant], in: scratch)
    let (found, images) = try PowerCut.count(upTo: 5, seed) {
      try cut.cut(150, lies: false, seed: $0, in: scratch)
    }
    #expect(found >= 5, "\(found) of \(images), \(seed)")
    Sweep.report("\(mutant): \(found) of \(images) were found out")
  }
}
