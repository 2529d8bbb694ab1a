// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

// Objects, killed at every point of a transaction and at every step of longer operations. A clean
// run determines the possible states; a victim that acknowledged N commands leaves the state after
// N or N + 1 of them. Another process has the store open all the time, finds that state, and
// continues to the end.

extension Crashes {
  static let objectPoints: [FaultPoint] = [
    .objectIndexed, .objectUnlinked, .catalogChanged, .migrationNoted, .numberDropped, .sweepStep,
  ]

  /// The points of every transaction, in addition to those of objects.
  private static let everyPoint: [FaultPoint] =
    objectPoints + [
      .begin, .betweenPuts, .beforeStamps, .betweenStamps, .afterStamps, .beforeCommit,
      .afterCommit,
    ]

  struct NoteScenario: CustomStringConvertible, Sendable {
    let name: String
    let script: [String]
    var description: String { name }

    static let all = [
      NoteScenario(
        name: "save and delete",
        script: ["save 0 3 new", "save 400 402 more", "delete 1 3", "save 1 2 again"]),
      NoteScenario(name: "delete everything", script: ["clear", "sweep", "save 5 9 new", "sweep"]),
      NoteScenario(name: "build indexes", script: ["index"]),
      NoteScenario(name: "migrate", script: ["index", "migrate", "sweep"]),
    ]
  }

  /// A store of notes to copy, in several steps' size.
  private static func noteGround(_ scratch: Scratch) throws -> String {
    let path = scratch.appending("notes")
    let outcome = try ChildProcess.run(
      TestExecutable.peer.path,
      input: ["notes \(path)", "note save 0 600 old", "note save 600 1100 older"])
    try #require(outcome.lines == ["opened", "ok", "ok"], "\(outcome)")
    return path
  }

  private static func openNotes(
    _ path: String, environment: [String: String] = [:]
  ) throws -> ChildProcess {
    let peer = try TestExecutable.peer.start(environment: environment)
    let answer = try peer.ask("notes \(path)")
    try #require(answer == "opened", "\(answer)")
    return peer
  }

  /// The states a clean run goes through, the first before any command.
  private static func states(_ scenario: NoteScenario, _ path: String) throws -> [String] {
    let peer = try openNotes(path)
    var states = [try peer.ask("note state")]
    for command in scenario.script {
      let answer = try peer.ask("note \(command)")
      try #require(answer == "ok", "\(command): \(answer)")
      states.append(try peer.ask("note state"))
    }
    try peer.dismiss()
    return states
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)),
    arguments: Share.current.arguments(of: NoteScenario.all))
  func `A process killed within any step of objects leaves all of it or nothing`(
    scenario: NoteScenario
  ) throws {
    let scratch = try Scratch()
    let ground = try Self.noteGround(scratch)
    let clean = scratch.appending("clean")
    try TestFiles.copyTree(ground, to: clean)
    let states = try Self.states(scenario, clean)
    try #require(states.allSatisfy { $0.hasPrefix("state ") }, "\(states)")
    var kills = 0
    for point in Self.everyPoint {
      var occurrence = 1
      // Sparse beyond the first ones: a save passes some points a thousand times.
      while occurrence < (Sweep.isFull ? 5000 : 40) {
        let path = scratch.appending("struck")
        defer { TestFiles.removeAll(path) }
        try TestFiles.copyTree(ground, to: path)
        let blow = "\(scenario), \(point):kill@\(occurrence)"
        guard try Self.strike(scenario, states, path, "\(point):kill@\(occurrence)", blow) else {
          break
        }
        kills += 1
        occurrence = occurrence < 3 ? occurrence + 1 : occurrence * (Sweep.isFull ? 2 : 4)
      }
    }
    Sweep.report("\(scenario): \(kills) kills")
    #expect(kills >= 10)
  }

  /// - Returns: Whether the fault was injected.
  private static func strike(
    _ scenario: NoteScenario, _ states: [String], _ path: String, _ faults: String, _ blow: String
  ) throws -> Bool {
    let witness = try openNotes(path)
    let victim = try openNotes(path, environment: ["LARDER_FAULTS": faults])
    victim.sendAll(scenario.script.map { "note \($0)" })
    let answers = try victim.remainingLines()
    let status = try victim.wait()
    let hasFallen = status == .signalled(SIGKILL)
    #expect(hasFallen || status == .exited(0), "\(blow): \(status)")
    #expect(answers.allSatisfy { $0 == "ok" }, "\(blow): \(answers)")
    let done = answers.count
    let state = try witness.ask("note state")
    #expect(
      states[min(done, states.count - 1)...min(done + 1, states.count - 1)].contains(state),
      "\(blow): \(state) after \(done) of \(states)")
    #expect(try SharedStoreFindings.of(path) == [], "\(blow)")
    for command in scenario.script.dropFirst(done) {
      let answer = try witness.ask("note \(command)")
      #expect(answer == "ok", "\(blow): \(command): \(answer)")
    }
    let judge = try openNotes(path)
    let last = try judge.ask("note state")
    #expect(last == states.last, "\(blow)")
    #expect(try SharedStoreFindings.of(path) == [], "\(blow)")
    for peer in [judge, witness] { try peer.dismiss() }
    return hasFallen
  }

  @Test(.timeLimit(.minutes(60)))
  func `Indexes fit the objects after a thousand random kills`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let scratch = try Scratch()
    let path = scratch.appending("notes")
    let judge = try Self.openNotes(path)
    // Two at a time.
    let count = Sweep.isFull ? 500 : 30
    for kill in 1...count {
      let peers = try (0..<2).map { _ in try Self.openNotes(path) }
      for peer in peers {
        try peer.send("note churn \(UInt32.random(in: 0...UInt32.max, using: &random))")
        let answer = try peer.nextLine()
        #expect(answer == "churning")
      }
      var spins = Int.random(in: 0...2000, using: &random)
      while spins > 0 { spins -= sched_yield() == 0 ? 1 : 0 }
      // One dies while the other is at work.
      for peer in peers {
        peer.kill()
        _ = try peer.wait()
      }
      guard kill % 5 == 0 || kill == count else { continue }
      let state = try judge.ask("note state")
      #expect(state.hasPrefix("state "), "\(state), kill \(kill), \(seed)")
      #expect(try SharedStoreFindings.of(path) == [], "kill \(kill), \(seed)")
    }
    Sweep.report("\(count * 2) random kills of processes that write objects")
    try judge.dismiss()
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `Eight processes that start a migration, killed at each of its steps, apply it once`() throws
  {
    let scratch = try Scratch()
    let ground = try Self.noteGround(scratch)
    let clean = scratch.appending("clean")
    try TestFiles.copyTree(ground, to: clean)
    let states = try Self.states(
      NoteScenario(name: "migrate", script: ["index", "migrate"]), clean)
    var kills = 0
    for step in 1...(Sweep.isFull ? 12 : 5) {
      let path = scratch.appending("struck\(step)")
      try TestFiles.copyTree(ground, to: path)
      let first = try Self.openNotes(path)
      #expect(try first.ask("note index") == "ok")
      for point in ["migrationNoted", "beforeCommit", "afterCommit"] {
        let peers = try (0..<8).map { _ in
          try Self.openNotes(path, environment: ["LARDER_FAULTS": "\(point):kill@\(step)"])
        }
        for peer in peers { try peer.send("note migrate") }
        for peer in peers {
          peer.closeInput()
          let answers = try peer.remainingLines()
          let status = try peer.wait()
          if status == .signalled(SIGKILL) { kills += 1 }
          #expect(answers.allSatisfy { $0 == "ok" }, "\(answers), step \(step)")
        }
        #expect(try SharedStoreFindings.of(path) == [], "step \(step) of \(point)")
      }
      #expect(try first.ask("note migrate") == "ok")
      #expect(try first.ask("note state") == states.last)
      #expect(try SharedStoreFindings.of(path) == [], "step \(step)")
      try first.dismiss()
      TestFiles.removeAll(path)
    }
    Sweep.report("\(kills) kills of eight processes that migrate")
    #expect(kills >= 15)
  }
}

/// The findings of verify() for a store, computed by this process.
enum SharedStoreFindings {
  static func of(_ path: String) throws -> [String] {
    let store = try ObjectStore(at: path)
    defer { store.close() }
    return try store.storage.verify().map { "\($0)" }
  }
}
