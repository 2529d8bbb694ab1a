// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// A peer's life, recorded: what it did to the disk.
struct RecordedLife {
  let commands: [String]
  let events: [DiskEvent]
  /// `shared.table` and `lock.mdb` in the end.
  let mapped: [String: [UInt8]]
  /// The directory the store was in: all is below it.
  let root: String
  /// Commands during which a process was killed, by the number of answers before.
  private(set) var cutOff: [Int: (command: String, isCommitted: Bool)] = [:]

  /// Runs peers one after the other, of which all but the last are killed by a fault.
  ///
  /// - Parameters:
  ///   - sessions: The commands of each, and the point at which it is killed.
  ///   - disk: A disk with slow syncs. The first process is killed in one of them, right after its point.
  init(
    sessions: [(commands: [String], kill: (point: FaultPoint, number: Int)?)], root: String,
    log: String, environment: [String: String], disk: SlowNames? = nil
  ) throws {
    let boot = try SystemBoot()
    var all: [DiskEvent] = []
    var answered: [String] = []
    for (index, session) in sessions.enumerated() {
      var environment = boot.environment.merging(environment) { $1 }
      if let disk {
        disk.slow(&environment, killing: index == 0)
      } else if let kill = session.kill {
        environment["LARDER_FAULTS"] = "\(kill.point):kill@\(kill.number)"
      }
      let peer = try Strace.shared.start(
        recording: DiskRecording.calls, to: log + "-\(index)", withData: true,
        environment: environment)
      peer.sendAll(session.commands)
      let answers = try peer.remainingLines()
      _ = try withExtendedLifetime(boot) { try peer.wait() }
      guard answers.count == session.commands.count || session.kill != nil,
        !answers.contains(where: { $0.hasPrefix("error") })
      else { throw CrashHarness.UnexpectedOutcome(description: "\(session): \(answers)") }
      answered += session.commands.prefix(answers.count)
      if answers.count < session.commands.count {
        let isCommitted = session.kill.map {
          ![.logWritten, .logEnded, .beforeCommit, .logFileCreated].contains($0.point)
        }
        cutOff[answered.count] = (session.commands[answers.count], isCommitted!)
      }
      let before = all.count
      all += DiskRecording(log: try TestFiles.contents(of: log + "-\(index)"), root: root)
        .events.map { event in
          guard case .sync(let path, let begun) = event, begun != .max else { return event }
          return .sync(path, begun: begun + before)
        }
    }
    (commands, events, self.root) = (answered, all, root)
    let files = try StorePaths(root + "/store")
    mapped = [
      "shared.table": try TestFiles.contents(of: files.table),
      "lock.mdb": try TestFiles.contents(of: files.lock),
    ]
  }

  /// Runs a peer with `commands` for a store at `root`/store.
  ///
  /// - Parameter environment: A rule that the recorded process breaks, perhaps.
  init(
    _ commands: [String], root: String, log: String, environment: [String: String] = [:]
  ) throws {
    self.commands = commands
    self.root = root
    let boot = try SystemBoot()
    let peer = try Strace.shared.start(
      recording: DiskRecording.calls, to: log, withData: true,
      environment: boot.environment.merging(environment) { $1 })
    peer.sendAll(commands)
    let answers = try peer.remainingLines()
    let status = try withExtendedLifetime(boot) { try peer.wait() }
    guard status.isSuccess, answers.count == commands.count,
      !answers.contains(where: { $0.hasPrefix("error") })
    else {
      throw CrashHarness.UnexpectedOutcome(
        description: "The recording failed: \(status), \(answers)")
    }
    events = DiskRecording(log: try TestFiles.contents(of: log), root: root).events
    let files = try StorePaths(root + "/store")
    mapped = [
      "shared.table": try TestFiles.contents(of: files.table),
      "lock.mdb": try TestFiles.contents(of: files.lock),
    ]
  }

  private var outputs: [Int] {
    events.indices.filter { if case .output = events[$0] { true } else { false } }
  }

  /// The event by which the peer has answered that the store is closed.
  var closing: Int {
    outputs[commands.firstIndex { $0 == "close" || $0 == "note close" }!]
  }

  /// Returns the time of a power failure: anywhere, but more often once there is a store, and
  /// around its closing.
  func moment(using random: inout SeededRandom) -> Int {
    let closing = closing
    return switch Int.random(in: 0..<10, using: &random) {
    case 0..<3: Int.random(in: 1...events.count, using: &random)
    case 3..<5: Int.random(in: (closing - 3)...(closing + 3), using: &random)
    default: Int.random(in: outputs[0]...events.count, using: &random)
    }
  }

  /// Returns the number of commands that were answered by then.
  func answered(_ cut: Int) -> Int {
    events[..<cut].count { if case .output = $0 { true } else { false } }
  }

  /// The disk after `cut` events, one of whose syncs of the data or the log lost a write.
  func lyingDisk(upTo cut: Int, _ trial: Seed) -> DiskModel {
    var random = trial.generator(stream: 2)
    let syncs = events[..<cut].indices.filter { index in
      if case .sync(let path, _) = events[index] {
        path.hasSuffix("/data.mdb") || path.contains("/log-")
      } else {
        false
      }
    }
    let lie = syncs.suffix(3).randomElement(using: &random)
    var disk = DiskModel(root: root)
    for index in 0..<cut {
      var losing: Int?
      if index == lie, case .sync(let path, _) = events[index] {
        let count = disk.unsyncedWrites(path)
        if count > 0 { losing = Int.random(in: 0..<count, using: &random) }
      }
      disk.apply(events[index], losing: losing)
    }
    return disk
  }
}

/// The possible images of the disk after a power failure during a peer's run.
struct PowerCut {
  let durability: Durability
  let life: RecordedLife
  /// The options that open the store.
  private let options: String
  private var commands: [String] { life.commands }
  private var events: [DiskEvent] { life.events }
  private var root: String { life.root }
  private typealias Manner = DiskFate.Manner

  /// Creates a store, fills it, closes it, opens it again, compacts it, continues, and never closes
  /// it.
  static func script(_ path: String, _ open: String) -> [String] {
    let first =
      (0..<6).map { "set \($0) first\($0)" } + ["large 6 12000", "pair first", "remove 2"]
    let second =
      ["set 1 second1", "compact", "large 6 14000", "pair second"]
      + (7..<12).map { "set \($0) second\($0)" }
      + ["removeall", "pair third", "set 1 third1", "large 8 11000", "set 2 third2"]
    return ["open \(path) \(open)"] + first + ["close", "open \(path) \(open)"] + second
  }

  /// - Parameter interval: The interval of a relaxed store in milliseconds; usually the run ends
  ///   earlier.
  init(
    _ durability: Durability, interval: Int = 3_600_000, environment: [String: String] = [:],
    in scratch: Scratch
  ) throws {
    self.durability = durability
    options =
      switch durability {
      case .cache: "unmapped"
      case .durable: "durable"
      case .durableStrict: "strict"
      case .relaxed: "relaxed interval=\(interval)"
      }
    let root = scratch.appending("recorded-\(durability)")
    try TestFiles.makeDirectory(root)
    // A record of system calls does not contain stores through a map.
    life = try RecordedLife(
      durability == .relaxed
        ? Self.relaxedScript(root + "/store", options) : Self.script(root + "/store", options),
      root: root, log: scratch.appending("log-\(durability)"), environment: environment)
  }

  /// - Parameter life: A recorded one, of a durable or relaxed store.
  init(_ life: RecordedLife, _ durability: Durability = .durable) {
    (self.durability, self.life) = (durability, life)
    options = Scenario.option(durability)
  }

  /// The results of many images.
  struct Findings {
    var images = 0
    var empty = 0
    var complete = 0
    /// Relaxed stores that rolled back acknowledged commits.
    var older = 0
    var lines: [String] = []
  }

  /// Counts the images that `cut` finds fault with, over several seeds until there are `wanted`: which bytes a
  /// disk loses is random.
  static func count(
    upTo wanted: Int, _ seed: Seed, _ cut: (Seed) throws -> Findings
  ) throws -> (found: Int, images: Int) {
    var (found, images) = (0, 0)
    for round in 0..<6 as Range<UInt64> where found < wanted {
      let findings = try cut(seed.derived(round))
      (found, images) = (found + findings.lines.count, images + findings.images)
    }
    return (found, images)
  }

  /// Cuts the power `count` times and checks the remaining images.
  ///
  /// - Parameter lies: Whether the disk loses, once in each image, a write that was synced.
  func cut(_ count: Int, lies: Bool, seed: Seed, in scratch: Scratch) throws -> Findings {
    var random = seed.generator()
    var cuts = (0..<count).map { _ in (moment: life.moment(using: &random), manner: Manner?.none) }
    // A cache is rarely complete, but always after a clean end of which nothing was lost.
    cuts.append((life.closing + 1, .everything))
    // Before anything was stored.
    cuts.append((1, nil))
    cuts.sort { $0.moment < $1.moment }
    var findings = Findings()
    var judge: ChildProcess?
    var disk = DiskModel(root: root)
    var done = 0
    for (number, (cut, manner)) in cuts.enumerated() {
      let trial = seed.derived(UInt64(number + 1))
      var image: DiskModel
      if lies {
        image = life.lyingDisk(upTo: cut, trial)
      } else {
        while done < cut {
          disk.apply(events[done])
          done += 1
        }
        image = disk
      }
      let path = scratch.appending("image")
      defer { TestFiles.removeAll(path) }
      var fate = DiskFate(
        mapped: life.mapped, random: trial.generator(stream: 1), manner: manner)
      try image.write(&fate, to: path)
      findings.images += 1
      do {
        let peer = try judge ?? TestExecutable.peer.start()
        judge = peer
        try examine(path + "/store", cut, fate, peer, &findings)
      } catch {
        judge = nil
        findings.lines.append("\(durability), cut after event \(cut), \(fate), \(trial): \(error)")
      }
    }
    return findings
  }

  /// The state the store has to be in, as far as it had answered by then.
  private func model(_ cut: Int) -> StoreModel {
    var model = StoreModel()
    let answered = life.answered(cut)
    for (index, command) in commands.prefix(answered).enumerated() {
      // Committed by a process that was killed before its call returned.
      if let lost = life.cutOff[index], lost.isCommitted, index + 1 < answered {
        model.acknowledge(lost.command)
      }
      model.acknowledge(command)
    }
    // The command of a killed process: done or not, until the next process has written.
    var other = model
    for index in [answered, answered - 1] {
      guard let lost = life.cutOff[index] else { continue }
      other.acknowledge(lost.command)
      if lost.isCommitted, answered < commands.count {
        let base = other
        other.attempt(commands[answered])
        other.join(base)
      }
    }
    if answered < commands.count { model.attempt(commands[answered]) }
    model.join(other)
    return model
  }

  private func examine(
    _ path: String, _ cut: Int, _ fate: DiskFate, _ peer: ChildProcess,
    _ findings: inout Findings
  ) throws {
    let model = model(cut)
    let isClean = (try? StoreState.read(from: StorePaths(path).state))??.isDirty == false
    let opened = try peer.ask(
      "open \(path) \(options)")
    guard opened.hasPrefix("opened ") else {
      throw CrashHarness.UnexpectedOutcome(description: opened)
    }
    let dump = try peer.ask("dump 0 20")
    let verdict = try peer.ask("verify")
    let probe = try peer.ask("set 19 probe")
    try peer.send("close")
    try peer.expect("ok")
    guard verdict == "sound", probe == "ok" else {
      throw CrashHarness.UnexpectedOutcome(
        description: "\(dump), verify: \(verdict), set: \(probe)")
    }
    guard let state = StoreModel.state(of: dump) else {
      throw CrashHarness.UnexpectedOutcome(description: dump)
    }
    if durability == .relaxed { return try examineRelaxed(state, cut, model, &findings) }
    let isComplete = model.admits(state, mayForget: false)
    // A cache that was closed in order and lost nothing keeps everything.
    let mustBeComplete = durability != .cache || (isClean && fate.manner == .everything)
    guard isComplete || (state.isEmpty && !mustBeComplete) else {
      throw CrashHarness.UnexpectedOutcome(
        description: "It holds \(state), and not one of \(model.states).")
    }
    if state.isEmpty { findings.empty += 1 } else { findings.complete += 1 }
  }
}

extension PowerCuts {
  @Test(
    .enabled(if: Strace.isAvailable, needsStrace), .timeLimit(.minutes(60)),
    arguments: [Durability.cache, .durable, .durableStrict])
  func `After a power cut a durable store has all that was acknowledged, a cache all or nothing`(
    durability: Durability
  ) throws {
    let seed = Seed.announce()
    let start = ContinuousClock.now
    let scratch = try Scratch()
    let cut = try PowerCut(durability, in: scratch)
    // A cache usually starts empty, which takes longer.
    let count = Sweep.isFull ? 5000 : durability == .cache ? 100 : 250
    let findings = try cut.cut(count, lies: false, seed: seed, in: scratch)
    #expect(findings.lines == [], "\(findings.lines.count) of \(findings.images)")
    #expect(findings.complete > 0 && findings.empty > 0, "\(findings)")
    Sweep.report(
      "\(durability): \(findings.images) power cuts in \(cut.life.events.count) events, "
        + "\(findings.empty) found empty, \(findings.complete) complete, \(start.age)")
  }

  @Test(.enabled(if: Strace.isAvailable, needsStrace), .timeLimit(.minutes(60)))
  func `A disk that loses a synced write is found out`() throws {
    let seed = Seed.announce()
    let scratch = try Scratch()
    let cut = try PowerCut(.durable, in: scratch)
    let (found, images) = try PowerCut.count(upTo: 5, seed) {
      try cut.cut(60, lies: true, seed: $0, in: scratch)
    }
    #expect(found >= 5, "\(found) of \(images), \(seed)")
    Sweep.report("\(found) of \(images) lies were found out")
  }
}
