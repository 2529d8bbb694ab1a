// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Power cuts of a durable store whose writers are killed: each image has the contents after the acknowledged
/// commands, and perhaps one more.
extension PowerCuts {
  private static let points: [FaultPoint] = [
    .logWritten, .beforeCommit, .afterCommit, .logCommitted, .logSyncing, .logFileCreated,
    .currentRenamed,
  ]

  /// Returns the passage of a point at which a process is killed. Files are created and renamed rarely.
  private static func passage(of point: FaultPoint, _ random: inout SeededRandom) -> Int {
    [.logFileCreated, .currentRenamed].contains(point) ? 1 : Int.random(in: 3...30, using: &random)
  }

  /// Returns the commands of a process: records of several sizes that fill segments, and checkpoints.
  private static func commands(
    _ path: String, _ name: String, _ random: inout SeededRandom
  ) -> [String] {
    var commands = ["open \(path) durable"]
    for index in 0..<36 {
      let command =
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<8: "large \(12 + index % 3) \(Int.random(in: 100...6000, using: &random))"
        case 8..<10: "pair \(name)\(index)"
        case 10..<12: "remove \(index % 5)"
        case 12: "checkpoint"
        case 13: "compact"
        default: "set \(index % 9) \(name)\(index)"
        }
      commands.append(command)
    }
    return commands
  }

  private static func life(
    _ seed: Seed, in scratch: Scratch, killing: Bool, mutant: String? = nil
  ) throws -> RecordedLife {
    var random = seed.generator()
    let root = scratch.appending("recorded")
    TestFiles.removeAll(root)
    try TestFiles.makeDirectory(root)
    let path = root + "/store"
    var sessions: [(commands: [String], kill: (point: FaultPoint, number: Int)?)] = []
    for name in ["a", "b", "c", "d", "e"] {
      let point = points.randomElement(using: &random)!
      let number = passage(of: point, &random)
      let commands = commands(path, name, &random) + (name == "d" ? ["close"] : [])
      sessions.append((commands, killing && name < "d" ? (point, number) : nil))
    }
    return try RecordedLife(
      sessions: sessions, root: root, log: scratch.appending("log"),
      environment: mutant.map { ["LARDER_MUTANT": $0] } ?? [:])
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(60)))
  func `After a power cut a durable store is as after a commit, though its writers were killed`()
    throws
  {
    let seed = Seed.announce()
    let start = ContinuousClock.now
    let scratch = try Scratch()
    var (images, complete) = (0, 0)
    for round in 0..<(Sweep.isFull ? 10 : 3) {
      let life = try Self.life(seed.derived(UInt64(round)), in: scratch, killing: true)
      #expect(!life.cutOff.isEmpty)
      let findings = try PowerCut(life).cut(
        Sweep.isFull ? 300 : 60, lies: false, seed: seed, in: scratch)
      #expect(findings.lines == [], "\(findings.lines.count) of \(findings.images)")
      (images, complete) = (images + findings.images, complete + findings.complete)
    }
    #expect(complete > images / 4)
    Sweep.report("redo log: \(images) power cuts under kills, \(complete) complete, \(start.age)")
  }

  @Test(
    .enabled(if: hasFaults && PreloadShim.isAvailable, "needs fault points and preload shims"),
    .timeLimit(.minutes(60)),
    arguments: [FaultPoint.restoreWritten, .restoreSynced, .restoreRecorded, .logReplayed])
  func `A process killed in a recovery from the log leaves every commit to the next`(
    point: FaultPoint
  ) throws {
    let scratch = try Scratch()
    let path = scratch.appending("store")
    let boots = [try SystemBoot(), try SystemBoot("21111111-2222-4333-8444-555555555555")]
    let writer = try TestExecutable.peer.start(environment: boots[0].environment)
    #expect(try writer.ask("open \(path) durable").hasPrefix("opened"))
    for key in 0..<20 {
      #expect(try writer.ask("set \(key) v\(key)") == "ok")
    }
    writer.kill()
    for number in 1...2 {
      let faults = ["LARDER_FAULTS": "\(point):kill@1"]
      let killed = try TestExecutable.peer.start(
        environment: boots[1].environment.merging(faults) { $1 })
      killed.sendAll(["open \(path) durable"])
      #expect(try killed.remainingLines() == [], "The opener \(number) was not killed.")
    }
    let last = try TestExecutable.peer.start(environment: boots[1].environment)
    #expect(try last.ask("open \(path) durable").hasPrefix("opened"))
    for key in 0..<20 {
      #expect(try last.ask("get \(key)") == "value v\(key)")
    }
    #expect(try last.ask("verify") == "sound")
    withExtendedLifetime(boots) {}
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `A stopped process that syncs the log holds up no writer`() throws {
    let scratch = try Scratch()
    let path = scratch.appending("store")
    let stopped = try TestExecutable.peer.start(
      environment: ["LARDER_FAULTS": "logSyncing:stop@4"])
    let other = try TestExecutable.peer.start()
    for peer in [stopped, other] {
      #expect(try peer.ask("open \(path) durable").hasPrefix("opened"))
    }
    // Some of its commits are synced by the other process; four syncs are its own among so many.
    stopped.sendAll((0..<400).map { "set \($0 % 10) stopped\($0 % 10)" })
    while true {
      let answer = try other.ask("set 20 other")
      #expect(answer == "ok")
      if ProcessIdentity.isStopped(stopped.processIdentifier) == true { break }
    }
    for key in 21..<40 {
      #expect(try other.ask("set \(key) other") == "ok")
    }
    stopped.continue()
    for _ in 0..<400 { #expect(try stopped.nextLine() == "ok") }
    #expect(try other.ask("get 9") == "value stopped9")
    #expect(try other.ask("verify") == "sound")
  }

  /// The record of a killed writer is at the end of a segment; that of its successor needs the next one.
  @Test(
    .enabled(if: hasFaults && PreloadShim.isAvailable, "needs fault points and preload shims"),
    .timeLimit(.minutes(60)), arguments: ["", "logOrphanKept"])
  func `A record that a killed writer left at the end of a segment ends no recovery`(mutant: String)
    throws
  {
    let scratch = try Scratch()
    let path = scratch.appending("store")
    let (before, after) = (
      try SystemBoot(), try SystemBoot("22222222-2222-4333-8444-555555555555")
    )
    func peer(_ boot: SystemBoot, _ fault: String? = nil) throws -> ChildProcess {
      var environment = boot.environment
      if !mutant.isEmpty { environment["LARDER_MUTANT"] = mutant }
      environment["LARDER_FAULTS"] = fault
      return try TestExecutable.peer.start(environment: environment)
    }
    let first = try peer(before)
    _ = try first.ask("open \(path) durable")
    let log = try StorePaths(path).generation + "/log-0"
    var count = 0
    repeat {
      #expect(try first.ask("commit a \(count) 600") == "ack a \(count)")
      count += 1
    } while try TestFiles.contents(of: log).lastIndex { $0 != 0 } ?? 0 < 15_000
    let killed = try peer(before, "logWritten:kill@1")
    killed.sendAll(["open \(path) durable", "commit b 0 10"])
    _ = try killed.remainingLines()
    #expect(try killed.wait() == .signalled(9))
    for index in 0..<3 {
      #expect(try first.ask("commit c \(index) 3000") == "ack c \(index)")
    }
    let crashed = scratch.appending("crashed")
    #expect(try ChildProcess.run("/bin/cp", ["-a", path, crashed]).status.isSuccess)
    let judge = try peer(after)
    #expect(try judge.ask("open \(crashed) durable").hasPrefix("opened"))
    let history = try judge.ask("history")
    #expect(history.hasSuffix(" c.0 c.1 c.2") == mutant.isEmpty, "\(history)")
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)),
    arguments: ["durable", "strict"])
  func `Only a strict store shows nothing before it is on the disk`(durability: String) throws {
    let scratch = try Scratch()
    let path = scratch.appending("store")
    let stopped = try TestExecutable.peer.start(
      environment: ["LARDER_FAULTS": "logSyncing:stop@4"])
    let other = try TestExecutable.peer.start()
    for peer in [stopped, other] {
      #expect(
        try peer.ask("open \(path) \(durability)").hasPrefix("opened"))
    }
    func visible() throws -> Int {
      try (0..<10).count {
        try other.ask("get \($0)") == "value stopped\($0)"
      }
    }
    stopped.sendAll((0..<10).map { "set \($0) stopped\($0)" })
    while ProcessIdentity.isStopped(stopped.processIdentifier) == false { _ = try visible() }
    var returned = 0
    while (try? stopped.nextLine(deadline: .milliseconds(1))) == "ok" { returned += 1 }
    #expect(try visible() == (durability == "strict" ? returned : returned + 1))
    stopped.continue()
    for _ in returned..<10 { #expect(try stopped.nextLine() == "ok") }
    #expect(try visible() == 10)
    #expect(try other.ask("verify") == "sound")
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(60)),
    arguments: ["logUnsynced", "durableAhead", "logUnchained", "logRecycledEarly"])
  func `A rule of the redo log that is broken is noticed after a power cut`(mutant: String) throws {
    let seed = Seed.announce()
    let scratch = try Scratch()
    var (images, found) = (0, 0)
    for round in 0..<6 where found == 0 {
      let life = try Self.life(
        seed.derived(UInt64(round)), in: scratch, killing: true, mutant: mutant)
      let findings = try PowerCut(life).cut(150, lies: false, seed: seed, in: scratch)
      (images, found) = (images + findings.images, found + findings.lines.count)
    }
    #expect(found > 0, "None of \(images) images showed it.")
    Sweep.report("\(mutant): \(found) of \(images) were found out")
  }
}
