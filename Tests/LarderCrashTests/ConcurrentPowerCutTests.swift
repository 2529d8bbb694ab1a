// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// The operations of three processes on one store at the same time: one was killed, one stopped for a time or
/// killed, and one went on.
private struct RecordedCompany {
  let events: [DiskEvent]
  let root: String
  let mapped: [String: [UInt8]]
  /// The commits in their order.
  let history: [String]
  /// The last commit of each process before a sync, by all commits that it syncs; `nil` if each one is on the disk.
  private var synced: [String: String]?

  /// strace or the shell has failed.
  private struct Failure: Error, CustomStringConvertible { let description: String }

  /// Records processes; again if strace fails, which shows nothing of the store.
  static func record(
    _ seed: Seed, durability: String, in scratch: Scratch, mutant: String? = nil,
    hasSlowNames: Bool = false
  ) throws -> RecordedCompany {
    for _ in 0..<2 {
      do {
        return try RecordedCompany(
          seed, durability: durability, in: scratch, mutant: mutant, hasSlowNames: hasSlowNames)
      } catch let failure as Failure {
        Sweep.report("\(failure)")
      }
    }
    return try RecordedCompany(
      seed, durability: durability, in: scratch, mutant: mutant, hasSlowNames: hasSlowNames)
  }

  private init(
    _ seed: Seed, durability: String, in scratch: Scratch, mutant: String?, hasSlowNames: Bool
  ) throws {
    var random = seed.generator()
    root = scratch.appending("company")
    TestFiles.removeAll(root)
    try TestFiles.makeDirectory(root)
    let boot = try SystemBoot()
    var environment = boot.environment
    if let mutant { environment["LARDER_MUTANT"] = mutant }
    // Every sync of a directory takes 40 ms, and two processes are killed in one.
    let disk = hasSlowNames ? try SlowNames("/", death: 0, in: scratch) : nil
    disk?.slow(&environment, killing: false)
    var lines: [String] = []
    let program = try TestExecutable.peer.path
    // A broken rule of the log shows in a log: compactions and deaths at names would leave less of it.
    let hasNames = mutant == nil
    let points: [FaultPoint] =
      [.logWritten, .logEnded, .beforeCommit, .afterCommit, .logCommitted, .logSyncing]
      + (hasNames ? [.logFileCreated, .currentRenamed] : [])
    if durability == "relaxed" { synced = [:] }
    let options = "\(root)/store \(durability)"
    for name in ["a", "b", "c"] {
      let commands = Self.commands(name, options, compacts: hasNames, &random)
      for index in commands.indices where commands[index].hasSuffix(" sync") {
        for earlier in commands[...index] where earlier.hasPrefix("commit ") {
          let known = Self.commit(earlier)
          if synced?[known] == nil { synced?[known] = Self.commit(commands[index]) }
        }
      }
      let file = scratch.appending("commands-\(name)")
      try TestFiles.write(Array(commands.map { $0 + "\n" }.joined().utf8), to: file)
      let point = points.randomElement(using: &random)!
      let isOfName = [.logFileCreated, .currentRenamed].contains(point)
      let number = isOfName ? 1 : Int.random(in: 3...20, using: &random)
      // A strict store syncs while no other process can write.
      let stops = name == "b" && durability == "durable" && random.chance(50)
      let death =
        hasSlowNames
        ? "SYNC_DEATH=\(Int.random(in: 1...8, using: &random))"
        : "LARDER_FAULTS=\(stops ? .logSyncing : point):\(stops ? "stop" : "kill")@\(number)"
      lines.append(
        (name == "c" ? "" : death + " ")
          + "\(program) < \(file) > \(scratch.appending("answers-\(name)")) & \(name)=$!"
      )
    }
    // It may stop later still.
    lines += [
      "wait $a; wait $c; (while kill -CONT $b 2>/dev/null; do :; done) & wait $b; wait; true"
    ]
    let log = scratch.appending("company-log")
    let shell = try Strace.shared.start(
      ["/bin/sh", "-c", lines.joined(separator: "\n")], recording: DiskRecording.calls, to: log,
      withData: true, environment: environment)
    let status = try withExtendedLifetime(disk) { try shell.wait() }
    guard status.isSuccess else {
      throw Failure(description: "The recording failed: \(status), \(shell.standardErrorText)")
    }
    for name in ["a", "b", "c"] {
      let answers = String(
        decoding: try TestFiles.contents(of: scratch.appending("answers-\(name)")), as: UTF8.self)
      if answers.contains("error") { throw CrashHarness.UnexpectedOutcome(description: answers) }
    }
    events = DiskRecording(log: try TestFiles.contents(of: log), root: root).events
    let files = try StorePaths(root + "/store")
    mapped = [
      "shared.table": try TestFiles.contents(of: files.table),
      "lock.mdb": try TestFiles.contents(of: files.lock),
    ]
    let peer = try TestExecutable.peer.start(environment: boot.environment)
    _ = try peer.ask("open \(root)/store \(durability)")
    history = try Self.words(peer.ask("history"))
    try withExtendedLifetime(boot) { try peer.send("exit") }
  }

  private static func commands(
    _ name: String, _ store: String, compacts: Bool, _ random: inout SeededRandom
  ) -> [String] {
    ["open \(store)"]
      + (0..<20).map { index in
        if random.chance(5) { return "checkpoint" }
        if compacts, random.chance(5) { return "compact" }
        let size = Int.random(in: 10...(random.chance(20) ? 9000 : 600), using: &random)
        let syncs = store.hasSuffix("relaxed") && random.chance(20)
        return "commit \(name) \(index) \(size)\(syncs ? " sync" : "")"
      }
  }

  /// The name of a commit, from its command or its answer.
  private static func commit(_ words: some StringProtocol) -> String {
    words.split(separator: " ").dropFirst().prefix(2).joined(separator: ".")
  }

  static func words(_ answer: String) -> [String] {
    answer.split(separator: " ").dropFirst().map(String.init)
  }

  /// The commits that were acknowledged before an event; of a relaxed store, those with a sync after them that was.
  func acknowledged(_ cut: Int) -> Set<String> {
    let answered = Set(
      events[..<cut].flatMap { event -> [String] in
        guard case .output(let text) = event else { return [] }
        return text.split(separator: "\n").filter { $0.hasPrefix("ack ") }.map(Self.commit)
      })
    guard let synced else { return answered }
    return Set(synced.filter { answered.contains($0.value) }.keys)
  }

  /// Returns the fault in the commits that a recovered store has, or `nil`.
  func complaint(_ found: [String], after cut: Int) -> String? {
    let lost = acknowledged(cut).subtracting(found)
    if !lost.isEmpty { return "\(lost) were acknowledged and are lost" }
    if history.starts(with: found) { return nil }
    // The last one may be that of a killed process: its record is made, though it did not commit.
    if let last = found.last, history.starts(with: found.dropLast()), last != "?",
      !history.contains(last)
    {
      return nil
    }
    return "\(found) is no beginning of \(history)"
  }
}

extension PowerCuts {
  private struct Outcome {
    var images = 0
    var violations: [String] = []
    /// Images that have some of the commits, not all.
    var partial = 0
  }

  /// Cuts the power at many moments, and opens what is left.
  private static func cut(
    _ company: RecordedCompany, _ durability: String, count: Int, seed: Seed, in scratch: Scratch
  ) throws -> Outcome {
    var random = seed.generator(stream: 3)
    let cuts = (0..<count).map { _ in Int.random(in: 1...company.events.count, using: &random) }
    var (outcome, disk, done) = (Outcome(), DiskModel(root: company.root), 0)
    var judge: ChildProcess?
    for (number, cut) in cuts.sorted().enumerated() {
      while done < cut {
        disk.apply(company.events[done])
        done += 1
      }
      let trial = seed.derived(UInt64(number + 1))
      let path = scratch.appending("image")
      defer { TestFiles.removeAll(path) }
      var fate = DiskFate(mapped: company.mapped, random: trial.generator(stream: 1))
      try disk.write(&fate, to: path)
      outcome.images += 1
      do {
        let peer = try judge ?? TestExecutable.peer.start()
        judge = peer
        func answer(_ command: String) throws -> String {
          try peer.ask(command)
        }
        let opened = try answer("open \(path)/store \(durability)")
        let history = try answer("history")
        let found = RecordedCompany.words(history)
        let rest = try [
          answer("verify"), answer("commit d 0 100"), answer("verify"), answer("close"),
        ]
        let complaint = company.complaint(found, after: cut)
        if !opened.hasPrefix("opened") || !history.hasPrefix("history")
          || rest != ["sound", "ack d 0", "sound", "ok"] || complaint != nil
        {
          outcome.violations.append(
            "round \(seed), after event \(cut), \(fate), \(trial): \(opened), \(complaint ?? history), \(rest)"
          )
        }
        if !found.isEmpty, found.count < company.history.count { outcome.partial += 1 }
      } catch {
        judge = nil
        outcome.violations.append("after event \(cut), \(fate), \(trial): \(error)")
      }
    }
    return outcome
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(60)), arguments: ["durable", "strict", "relaxed"])
  func `After a power cut under three processes a store has the first of their commits`(
    durability: String
  ) throws {
    let seed = Seed.announce()
    let start = ContinuousClock.now
    let scratch = try Scratch()
    var (images, partial) = (0, 0)
    for round in 0..<(Sweep.isFull ? 10 : 4) {
      let trial = seed.derived(UInt64(round))
      let company = try RecordedCompany.record(
        trial, durability: durability, in: scratch, hasSlowNames: round % 2 == 1)
      let outcome = try Self.cut(
        company, durability, count: Sweep.isFull ? 200 : 50, seed: trial, in: scratch)
      #expect(outcome.violations == [], "\(outcome.violations.count) of \(outcome.images)")
      (images, partial) = (images + outcome.images, partial + outcome.partial)
    }
    #expect(partial > images / 4)
    Sweep.report(
      "\(durability): \(images) power cuts under three processes, \(partial) in the middle, \(start.age)"
    )
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(60)), arguments: ["logUnsynced", "durableAhead", "logUnchained"],
    ["durable", "relaxed"])
  func `A broken rule of the log is noticed after a power cut under three processes`(
    mutant: String, durability: String
  ) throws {
    let seed = Seed.announce()
    let scratch = try Scratch()
    var (images, found) = (0, 0)
    for round in 0..<24 where found == 0 {
      let trial = seed.derived(UInt64(round))
      let company = try RecordedCompany.record(
        trial, durability: durability, in: scratch, mutant: mutant)
      let outcome = try Self.cut(company, durability, count: 80, seed: trial, in: scratch)
      (images, found) = (images + outcome.images, found + outcome.violations.count)
    }
    #expect(found > 0, "None of \(images) images showed it.")
    Sweep.report(
      "\(durability), \(mutant) under three processes: \(found) of \(images) were found out")
  }
}
