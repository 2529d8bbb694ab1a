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
  /// A name that is made, and the durability of the store.
  struct Naming: Sendable, CustomTestStringConvertible {
    let point: FaultPoint
    let durability: Durability
    /// Whether the process is killed in the sync of the directory, which takes 40 ms, and not before it.
    var isInSync = false
    /// The rule that is broken.
    var mutant = ""

    var testDescription: String {
      "\(mutant.isEmpty ? "" : mutant + ", ")\(point), \(durability)\(isInSync ? ", in the sync" : "")"
    }

    /// The commands of a process that passes the point: a file of the log is created, or `CURRENT` renamed. The
    /// building of the store passes each point once.
    var commands: [String] {
      point == .logFileCreated ? (0..<12).map { "large \($0) 6000" } : ["set 1 a", "compact"]
    }

    /// The disk whose sync of that name is slow. The building of the store syncs its directory three times, as the
    /// compaction does.
    func disk(in scratch: Scratch) throws -> SlowNames? {
      guard isInSync else { return nil }
      return point == .logFileCreated
        ? try SlowNames("/g-1/", death: 1, in: scratch)
        : try SlowNames("/store/", death: 6, in: scratch)
    }

    func life(in scratch: Scratch) throws -> RecordedLife {
      let root = scratch.appending("recorded")
      TestFiles.removeAll(root)
      try TestFiles.makeDirectory(root)
      let open = "open \(root)/store" + Scenario.option(durability)
      let commits = (0..<20).map { "set \($0 % 9) b\($0)" }
      let sync = durability == .relaxed ? ["sync"] : []
      return try RecordedLife(
        sessions: [
          ([open] + commands, (point, 2)), ([open] + commits + sync + commits + sync, nil),
          ([open, "set 10 c", "close", open, "set 11 d", "set 12 d"], nil),
        ], root: root, log: scratch.appending("log"), environment: ["LARDER_MUTANT": mutant],
        disk: disk(in: scratch))
    }
  }

  // A relaxed store syncs the names of its log with the log.
  private static let namings = [false, true].flatMap { isInSync in
    [Durability.durable, .durableStrict].map {
      Naming(point: .logFileCreated, durability: $0, isInSync: isInSync)
    }
      + [Durability.durable, .durableStrict, .relaxed].map {
        Naming(point: .currentRenamed, durability: $0, isInSync: isInSync)
      }
  }
  private static let brokenNamings = [false, true].flatMap { isInSync in
    [
      Naming(
        point: .logFileCreated, durability: .durableStrict, isInSync: isInSync,
        mutant: "logNamedLate"),
      Naming(
        point: .currentRenamed, durability: .durableStrict, isInSync: isInSync,
        mutant: "namesUnconfirmed"),
    ]
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(60)), arguments: namings)
  func `Commits after a writer that was killed before the sync of a name outlive a power cut`(
    naming: Naming
  ) throws {
    let seed = Seed.announce()
    let scratch = try Scratch()
    let life = try naming.life(in: scratch)
    try #require(life.cutOff.count == 1)
    let findings = try PowerCut(life, naming.durability).cut(
      Sweep.isFull ? 1000 : 60, lies: false, seed: seed, in: scratch)
    #expect(findings.lines == [], "\(findings.lines.count) of \(findings.images)")
    #expect(findings.complete > findings.images / 4, "\(findings)")
  }

  @Test(
    .enabled(if: Strace.isAvailable && hasFaults, "needs strace and fault points"),
    .timeLimit(.minutes(60)), arguments: brokenNamings)
  func `A name that is not synced is noticed after a power cut`(naming: Naming) throws {
    let seed = Seed.announce()
    let scratch = try Scratch()
    let life = try naming.life(in: scratch)
    try #require(life.cutOff.count == 1)
    let (found, images) = try PowerCut.count(upTo: 1, seed) {
      try PowerCut(life, naming.durability).cut(60, lies: false, seed: $0, in: scratch)
    }
    #expect(found >= 1, "\(found) of \(images), \(seed)")
    Sweep.report("\(naming.testDescription): \(found) of \(images) were found out")
  }
}

/// A disk on which the sync of some directories takes 40 ms.
struct SlowNames {
  // Not in memory: such a directory may refuse to run code.
  private let shims: TemporaryDirectory
  private let shim: PreloadShim
  private let order: String
  private let death: Int

  /// - Parameters:
  ///   - suffix: How the paths of the directories end, with a slash; "/" is each of them.
  ///   - death: In which of its syncs of these a process is killed.
  init(_ suffix: String, death: Int, in scratch: Scratch) throws {
    shims = try TemporaryDirectory()
    shim = try PreloadShim("sync_fate", in: shims.path)
    order = scratch.appending("order")
    self.death = death
    try TestFiles.write(Array("delay 40 \(suffix)\n".utf8), to: order)
  }

  /// Changes the environment of a process that uses the disk.
  func slow(_ environment: inout [String: String], killing: Bool) {
    environment["LD_PRELOAD", default: ""] += ":" + shim.path
    environment["SYNC_FATE"] = order
    if killing { environment["SYNC_DEATH"] = "\(death)" }
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
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(60)),
    arguments: [Durability.durable, .durableStrict])
  func `A refused sync of a new name of the log is a failed sync`(durability: Durability) throws {
    let disk = try RefusedSyncs()
    let (writer, other) = (try disk.peer(), try disk.peer())
    for peer in [writer, other] {
      let open = "open \(disk.path)" + Scenario.option(durability)
      #expect(try peer.ask(open).hasPrefix("opened"))
    }
    #expect(try writer.ask("set 20 a") == "ok")
    try disk.refuse(1, "/g-1/")
    var answers: [String] = []
    while !disk.isDone {
      answers.append(
        try writer.ask("large \(answers.count) 6000"))
    }
    #expect(answers.last?.hasPrefix("error system") == true, "\(answers)")
    #expect(try disk.generation() == "g-1")
    // What the disk has refused once it may lose, though it does not refuse again.
    #expect(try other.ask("set 21 b") == "ok")
    #expect(try disk.generation() == "g-2")
    #expect(try writer.ask("get 21") == "value b")
    #expect(try writer.ask("get 20") == "value a")
    #expect(try writer.ask("verify") == "sound")
  }

  @Test(
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(60)),
    arguments: [Durability.durable, .relaxed])
  func `A refused sync of the name of new files is a failed sync`(durability: Durability) throws {
    let disk = try RefusedSyncs()
    let (writer, other) = (try disk.peer(), try disk.peer())
    for peer in [writer, other] {
      let open = "open \(disk.path)" + Scenario.option(durability)
      #expect(try peer.ask(open).hasPrefix("opened"))
    }
    #expect(try writer.ask("set 20 a") == "ok")
    // The directory is synced before and after the renaming of the files, and after that of CURRENT.
    try disk.refuse(3, "/store/")
    #expect(
      try writer.ask("compact").hasPrefix("error system"))
    #expect(disk.isDone)
    #expect(try disk.generation() == "g-2")
    // Until the data has other files, a loss of power may lead back to the older ones.
    #expect(try other.ask("get 20") == "value a")
    #expect(TestFiles.exists(disk.path + "/g-1/data.mdb"))
    #expect(try other.ask("set 21 b") == "ok")
    #expect(try disk.generation() == "g-3")
    #expect(try writer.ask("get 21") == "value b")
    #expect(!TestFiles.exists(disk.path + "/g-1"))
    #expect(try writer.ask("verify") == "sound")
  }
}
