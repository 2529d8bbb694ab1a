// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTestSupport
import LarderTesting
import Testing

// Objects and their indexes are kept by a durable store, so the power may fail at any moment: what
// was acknowledged is there, of what was under way all or nothing, and indexes fit.

/// The possible images of the disk after a power failure while objects are saved and deleted.
struct ObjectPowerCut {
  static let commands = [
    "note save 0 4 first", "note save 2 6 second", "note delete 1 2", "note save 50 90 many",
    "note close", "notes STORE", "note delete 60 75", "note save 3 5 third",
    "note save 80 95 fourth", "note clear", "note save 7 9 fifth", "note sweep",
    "note save 8 30 sixth", "note index", "note migrate",
  ]

  let life: RecordedLife
  /// The states after 0, 1, 2 … of the commands, the first of which opens.
  let states: [String]

  init(in scratch: Scratch) throws {
    func script(_ path: String) -> [String] {
      ["notes \(path)"] + Self.commands.map { $0 == "notes STORE" ? "notes \(path)" : $0 }
    }
    let root = scratch.appending("recorded")
    try TestFiles.makeDirectory(root)
    life = try RecordedLife(
      script(root + "/store"), root: root, log: scratch.appending("log"))
    let peer = try TestExecutable.peer.start()
    var states: [String] = []
    for command in script(scratch.appending("clean")) {
      _ = try peer.ask(command)
      // Closing does not change the state.
      let state =
        command == "note close"
        ? states.last! : try peer.ask("note state")
      guard state.hasPrefix("state ") else {
        throw CrashHarness.UnexpectedOutcome(description: state)
      }
      states.append(state)
    }
    try peer.dismiss()
    self.states = states
  }

  /// Cuts the power `count` times and checks the remaining images.
  ///
  /// - Parameter lies: Whether the disk loses, once in each image, a write that was synced.
  func cut(
    _ count: Int, lies: Bool, seed: Seed, in scratch: Scratch
  ) throws -> PowerCut.Findings {
    var random = seed.generator()
    // The first event is before any object.
    let cuts = ((0..<count).map { _ in life.moment(using: &random) } + [1]).sorted()
    var findings = PowerCut.Findings()
    var judge: ChildProcess?
    var disk = DiskModel(root: life.root)
    var done = 0
    for (number, cut) in cuts.enumerated() {
      let trial = seed.derived(UInt64(number + 1))
      while done < cut, !lies {
        disk.apply(life.events[done])
        done += 1
      }
      let image = lies ? life.lyingDisk(upTo: cut, trial) : disk
      let path = scratch.appending("image")
      defer { TestFiles.removeAll(path) }
      var fate = DiskFate(mapped: life.mapped, random: trial.generator(stream: 1))
      try image.write(&fate, to: path)
      findings.images += 1
      do {
        let peer = try judge ?? TestExecutable.peer.start()
        judge = peer
        try examine(path + "/store", life.answered(cut), peer, &findings)
      } catch {
        judge = nil
        findings.lines.append("cut after event \(cut), \(fate), \(trial): \(error)")
      }
    }
    return findings
  }

  private func examine(
    _ path: String, _ answered: Int, _ peer: ChildProcess, _ findings: inout PowerCut.Findings
  ) throws {
    func ask(_ command: String) throws -> String {
      try peer.ask(command)
    }
    let opened = try ask("notes \(path)")
    guard opened == "opened" else { throw CrashHarness.UnexpectedOutcome(description: opened) }
    let state = try ask("note state")
    let verdict = try ask("note verify")
    let probe = try ask("note save 200 203 probe")
    let after = try ask("note verify")
    // A program that declares fewer indexes, or is older, may not save.
    let isWritable =
      probe == "ok" || probe.hasSuffix("[schemaMismatch]")
      || probe.hasSuffix("[newerSchema]")
    guard try ask("note close") == "ok", verdict == "sound", isWritable, after == "sound" else {
      throw CrashHarness.UnexpectedOutcome(
        description: "\(state), verify: \(verdict), save: \(probe), verify: \(after)")
    }
    // After opening, and after what was answered or one more.
    let first = max(answered - 1, 0)
    let last = min(answered, states.count - 1)
    guard states[first...last].contains(state) else {
      throw CrashHarness.UnexpectedOutcome(
        description: "\(state) after \(answered) commands, and not one of \(states[first...last])")
    }
    if state == states[0] { findings.empty += 1 } else { findings.complete += 1 }
  }
}

extension PowerCuts {
  @Test(.enabled(if: Strace.isAvailable, needsStrace), .timeLimit(.minutes(60)))
  func `After a power cut all objects that were acknowledged are there and indexes fit`() throws {
    let seed = Seed.announce()
    let start = ContinuousClock.now
    let scratch = try Scratch()
    let cut = try ObjectPowerCut(in: scratch)
    let findings = try cut.cut(Sweep.isFull ? 4000 : 80, lies: false, seed: seed, in: scratch)
    #expect(findings.lines == [], "\(findings.lines.count) of \(findings.images)")
    #expect(findings.complete > 0 && findings.empty > 0, "\(findings)")
    Sweep.report(
      "objects: \(findings.images) power cuts in \(cut.life.events.count) events, "
        + "\(findings.empty) found empty, \(findings.complete) complete, \(start.age)")
  }

  @Test(.enabled(if: Strace.isAvailable, needsStrace), .timeLimit(.minutes(60)))
  func `A disk that loses a synced write of objects is found out`() throws {
    let scratch = try Scratch()
    let seed = Seed.announce()
    let cut = try ObjectPowerCut(in: scratch)
    let (found, images) = try PowerCut.count(upTo: 3, seed) {
      try cut.cut(30, lies: true, seed: $0, in: scratch)
    }
    #expect(found >= 3, "\(found) of \(images), \(seed)")
    Sweep.report("\(found) of \(images) lies about objects were found out")
  }
}
