// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Power cuts after a process was killed between the creation or renaming of a file and the sync of its directory: the
/// next process finds the name, and its commits must not depend on one that is not on the disk.
extension PowerCuts {
  /// The commands of a process that passes a point: a file of the log is created, or `CURRENT` renamed. The building of
  /// the store passes each point once.
  private static func commands(_ point: FaultPoint) -> [String] {
    point == .logFileCreated ? (0..<12).map { "large \($0) 6000" } : ["set 1 a", "compact"]
  }

  private static func life(
    _ point: FaultPoint, _ durability: Durability, mutant: String = "", in scratch: Scratch
  ) throws -> RecordedLife {
    let root = scratch.appending("recorded")
    TestFiles.removeAll(root)
    try TestFiles.makeDirectory(root)
    let open = "open \(root)/store" + Scenario.option(durability)
    let commits = (0..<20).map { "set \($0 % 9) b\($0)" }
    let sync = durability == .relaxed ? ["sync"] : []
    return try RecordedLife(
      sessions: [
        ([open] + commands(point), (point, 2)), ([open] + commits + sync + commits + sync, nil),
        ([open, "set 10 c", "close", open, "set 11 d", "set 12 d"], nil),
      ], root: root, log: scratch.appending("log"), environment: ["LARDER_MUTANT": mutant])
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(15)), arguments: [FaultPoint.logFileCreated, .currentRenamed],
    [Durability.durable, .durableStrict, .relaxed])
  func `Commits after a writer that was killed before the sync of a name outlive a power cut`(
    point: FaultPoint, durability: Durability
  ) throws {
    // A relaxed store syncs the names of its log with the log.
    if point == .logFileCreated, durability == .relaxed { return }
    let seed = Seed.announce()
    let scratch = try Scratch()
    let life = try Self.life(point, durability, in: scratch)
    #expect(life.cutOff.count == 1)
    let findings = try PowerCut(life, durability).cut(
      Sweep.isFull ? 1000 : 60, lies: false, seed: seed, in: scratch)
    #expect(findings.lines == [], "\(findings.lines.count) of \(findings.images)")
    #expect(findings.complete > findings.images / 4, "\(findings)")
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(15)),
    arguments: zip(
      ["logNamedLate", "namesUnconfirmed"], [FaultPoint.logFileCreated, .currentRenamed]))
  func `A name that is not synced is noticed after a power cut`(
    mutant: String, point: FaultPoint
  ) throws {
    let seed = Seed.announce()
    let scratch = try Scratch()
    let life = try Self.life(point, .durableStrict, mutant: mutant, in: scratch)
    #expect(life.cutOff.count == 1)
    let (found, images) = try PowerCut.count(upTo: 1, seed) {
      try PowerCut(life, .durableStrict).cut(60, lies: false, seed: $0, in: scratch)
    }
    #expect(found >= 1, "\(found) of \(images), \(seed)")
    Sweep.report("\(mutant): \(found) of \(images) were found out")
  }
}

/// A process whose syncs the disk refuses, once at the place that a test names.
private struct RefusedSyncs {
  let scratch: Scratch
  // Not in memory: such a directory may refuse to run code.
  private let shims: TemporaryDirectory
  private let boot: SystemBoot
  private let shim: PreloadShim
  private var order: String { scratch.appending("order") }
  var path: String { scratch.appending("store") }

  init() throws {
    scratch = try Scratch()
    shims = try TemporaryDirectory()
    boot = try SystemBoot()
    shim = try PreloadShim("sync_fate", in: shims.path)
  }

  func peer() throws -> ChildProcess {
    var environment = boot.environment
    environment["LD_PRELOAD"]! += ":" + shim.path
    environment["SYNC_FATE"] = order
    return try TestExecutable.peer.start(environment: environment)
  }

  /// Lets the disk refuse the n-th sync from now on of a path that ends like this.
  func refuse(_ number: Int, _ suffix: String) throws {
    try TestFiles.write(Array("refuse \(number) \(suffix)\n".utf8), to: order)
  }

  /// Whether the sync was refused.
  var isDone: Bool { !TestFiles.exists(order) }

  /// The number of the current generation.
  func generation() throws -> String {
    String(try StorePaths(path).generation.split(separator: "/").last!)
  }
}

extension Crashes {
  @Test(
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(15)),
    arguments: [Durability.durable, .durableStrict])
  func `A refused sync of a new name of the log is a failed sync`(durability: Durability) throws {
    let disk = try RefusedSyncs()
    let (writer, other) = (try disk.peer(), try disk.peer())
    for peer in [writer, other] {
      let open = "open \(disk.path)" + Scenario.option(durability)
      #expect(try peer.ask(open, deadline: CrashHarness.deadline).hasPrefix("opened"))
    }
    #expect(try writer.ask("set 20 a", deadline: CrashHarness.deadline) == "ok")
    try disk.refuse(1, "/g-1")
    var answers: [String] = []
    while !disk.isDone {
      answers.append(
        try writer.ask("large \(answers.count) 6000", deadline: CrashHarness.deadline))
    }
    #expect(answers.last?.hasPrefix("error system") == true, "\(answers)")
    #expect(try disk.generation() == "g-1")
    // What the disk has refused once it may lose, though it does not refuse again.
    #expect(try other.ask("set 21 b", deadline: CrashHarness.deadline) == "ok")
    #expect(try disk.generation() == "g-2")
    #expect(try writer.ask("get 21", deadline: CrashHarness.deadline) == "value b")
    #expect(try writer.ask("get 20", deadline: CrashHarness.deadline) == "value a")
    #expect(try writer.ask("verify", deadline: CrashHarness.deadline) == "sound")
  }

  @Test(
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(15)),
    arguments: [Durability.durable, .relaxed])
  func `A refused sync of the name of new files is a failed sync`(durability: Durability) throws {
    let disk = try RefusedSyncs()
    let (writer, other) = (try disk.peer(), try disk.peer())
    for peer in [writer, other] {
      let open = "open \(disk.path)" + Scenario.option(durability)
      #expect(try peer.ask(open, deadline: CrashHarness.deadline).hasPrefix("opened"))
    }
    #expect(try writer.ask("set 20 a", deadline: CrashHarness.deadline) == "ok")
    // The directory is synced before and after the renaming of the files, and after that of CURRENT.
    try disk.refuse(3, "/store")
    #expect(
      try writer.ask("compact", deadline: CrashHarness.deadline).hasPrefix("error system"))
    #expect(disk.isDone)
    #expect(try disk.generation() == "g-2")
    // Until the data has other files, a loss of power may lead back to the older ones.
    #expect(try other.ask("get 20", deadline: CrashHarness.deadline) == "value a")
    #expect(TestFiles.exists(disk.path + "/g-1/data.mdb"))
    #expect(try other.ask("set 21 b", deadline: CrashHarness.deadline) == "ok")
    #expect(try disk.generation() == "g-3")
    #expect(try writer.ask("get 21", deadline: CrashHarness.deadline) == "value b")
    #expect(!TestFiles.exists(disk.path + "/g-1"))
    #expect(try writer.ask("verify", deadline: CrashHarness.deadline) == "sound")
  }
}
