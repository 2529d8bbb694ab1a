// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// Repairs that are killed, or have to do without something.
@Suite(.timeLimit(.minutes(60))) struct RepairKillTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var original: String { directory.path + "/original" }
  var path: String { directory.path + "/damaged" }

  /// A damaged copy; the bytes of its data.
  func damage(_ ground: RepairGround) throws -> [UInt8] {
    let files = try ground.copyWithoutCheckpoint(to: path)
    let live = LivePages(try TestFiles.contents(of: files.data))
    let leaves = live.pages.filter { $0.value == .init(table: "entries", kind: .leaf) }
    for page in leaves.keys.sorted().prefix(2) {
      try TestFiles.overwrite([UInt8](repeating: 0, count: 4096), at: page * 4096, in: files.data)
    }
    return try TestFiles.contents(of: files.data)
  }

  /// The damaged data is somewhere, unchanged; and the store is the old or the new one.
  func check(_ ground: RepairGround, _ before: [UInt8], _ comment: Comment) throws {
    func data() throws -> [[UInt8]] {
      try TestFiles.names(in: path).filter { $0.hasPrefix("g-") || $0.hasPrefix("damaged-g-") }
        .map { "\(path)/\($0)/data.mdb" }.filter(TestFiles.exists).map {
          try TestFiles.contents(of: $0)
        }
    }
    #expect(try data().contains(before), comment)
    let isNew = (try? SharedStore(at: path, .init(durability: .durable)))?.close() != nil
    #expect(try data().contains(before), comment)
    let report = try SharedStore.repair(at: path)
    #expect(report.outcome == (isNew ? .sound : .repaired), comment)
    let found = try ground.check(path, mayMissCommits: false, comment)
    #expect(found.count > 0 && found.count < ground.newest.count, comment)
    #expect(try data().contains(before), comment)
    let names = TestFiles.names(in: path).filter { $0.hasPrefix("g-") }
    #expect(names.count == 1 && !names[0].hasSuffix(".tmp"), "\(names), \(comment)")
    #expect(TestFiles.names(in: path).filter { $0.hasPrefix("damaged-") }.count == 1, comment)
  }

  @Test(.enabled(if: hasTools, needsTools))
  func `A repair killed at any moment leaves the old store or the new one`() throws {
    let seed = Seed.announce()
    let ground = try RepairGround(at: original, seed: seed, rounds: 60)
    let tool = try TestExecutable.tool
    for trial in seed.trials(20) {
      var random = trial.generator()
      let before = try damage(ground)
      let repair = try tool.start(["repair", path, "--yes", "--json"])
      let moment = Duration.microseconds(Int.random(in: 0..<150_000, using: &random))
      _ = try? repair.nextLine(deadline: moment)
      repair.kill()
      _ = try repair.wait()
      try check(ground, before, "after \(moment), \(trial) of \(seed)")
    }
  }

  @Test(
    .enabled(if: hasTools, needsTools),
    .enabled(
      if: hasFaults, needsFaults),
    arguments: [
      "openGateTaken", "openPresenceTaken", "openGenerationBuilt", "openGenerationRenamed",
      "openCurrentWritten",
    ])
  func `A repair killed at a point leaves the old store or the new one`(point: String) throws {
    let ground = try RepairGround(at: original, seed: Seed.announce(), rounds: 60)
    let before = try damage(ground)
    // The tool analyses first, and then repairs: the first two points are passed twice.
    let occurrence = point.hasPrefix("openG") && point.hasSuffix("Taken") ? 2 : 1
    let outcome = try ChildProcess.run(
      TestExecutable.tool.path, ["repair", path, "--yes"],
      environment: ["LARDER_FAULTS": "\(point):kill@\(occurrence)"])
    #expect(outcome.status == .signalled(9), "\(outcome)")
    try check(ground, before, "\(point)")
  }

  @Test func `A store that is open anywhere is not repaired, and the process is named`() throws {
    for durability in Durability.allCases {
      let path = "\(path)-\(durability)"
      let store = try SharedStore(at: path, .init(durability: durability))
      try store.setBytes([1], forKey: 1)
      let error = #expect(throws: StoreError.self) { try SharedStore.repair(at: path) }
      #expect(error?.code == .inUse)
      let pids = try store.statistics().processes
      #expect(pids.count == 1 && error?.pid == pids[0])
      #expect(try store.bytes(forKey: 1) == [1])
      store.close()
      #expect(try SharedStore.repair(at: path).outcome == .sound)
    }
  }

  @Test func `Of a damaged cache the rest is kept, and its files are not`() throws {
    for keeps in [false, true] {
      TestFiles.removeAll(path)
      let store = try SharedStore(at: path, .init(budget: .megabytes(2)))
      for key in 0..<200 { try store.setBytes([UInt8](repeating: 1, count: 500), forKey: key) }
      store.close()
      let files = try StoreFiles(of: path)
      let live = LivePages(try TestFiles.contents(of: files.data))
      let leaf = live.pages.filter { $0.value == .init(table: "entries", kind: .leaf) }.keys.min()!
      try TestFiles.overwrite([UInt8](repeating: 9, count: 4096), at: leaf * 4096, in: files.data)
      let report = try SharedStore.repair(at: path, keepsDamagedFiles: keeps)
      #expect(report.outcome == .repaired && report.kept > 100 && report.lost > 0)
      #expect(report.kept + report.lost == 200)
      #expect((report.damagedFiles != nil) == keeps)
      let log = EventLog()
      let again = try SharedStore(at: path, log.options())
      #expect(log.events == [])
      #expect(try again.statistics().entries == report.kept)
      #expect(try again.statistics().budget == 2 << 20)
      #expect(try again.verify() == [])
      again.close()
      let kept = TestFiles.names(in: files.root).filter { $0.hasPrefix("damaged-") }
      #expect(kept.count == (keeps ? 1 : 0))
    }
  }

  @Test func `A cache of another boot is not brought back`() throws {
    let store = try SharedStore(at: path)
    for key in 0..<20 { try store.setBytes([1], forKey: key) }
    store.close()
    let file = try StoreFiles(of: path).state
    var state = try #require(try StoreState.read(from: file))
    (state.isDirty, state.bootID) = (true, state.bootID &+ 1)
    try state.write(to: file)
    let report = try SharedStore.repair(at: path)
    #expect(report.isDiscarded && report.kept == 0 && report.lost == 20 && !report.isComplete)
    let log = EventLog()
    #expect(try SharedStore(at: path, log.options()).statistics().entries == 0)
    #expect(log.events == [])
  }

  @Test func `A lost CURRENT is written again`() throws {
    let ground = try RepairGround(at: original, seed: Seed.announce(), rounds: 20)
    let files = try ground.copy(to: path)
    for damage in ["missing", "garbled"] {
      if damage == "missing" {
        TestFiles.removeAll(files.current)
      } else {
        try TestFiles.write([1, 2, 3], to: files.current)
      }
      #expect(try SharedStore.repair(at: path, dryRun: true).outcome == .repairable)
      let report = try SharedStore.repair(at: path)
      #expect(report.outcome == .repaired && report.isComplete && report.damagedFiles == nil)
      #expect(try SharedStore.repair(at: path).outcome == .sound)
    }
    #expect(try ground.check(path, mayMissCommits: false, "").count == ground.newest.count)
  }

  @Test func `Without readable data repair reports it and creates nothing`() throws {
    let ground = try RepairGround(at: original, seed: Seed.announce(), rounds: 10)
    for size in [0, 100, 4096, 8192] {
      let files = try ground.copy(to: path)
      try TestFiles.truncate(files.data, to: size)
      let error = #expect(throws: StoreError.self) { try SharedStore.repair(at: path) }
      #expect(error?.code == .damaged, "\(size)")
      #expect(try TestFiles.size(files.data) == size)
      #expect(TestFiles.names(in: path).filter { $0.contains("g-") } == ["g-1"])
    }
    #expect(throws: StoreError.self) { try SharedStore.repair(at: directory.path + "/nothing") }
    #expect(!TestFiles.exists(directory.path + "/nothing"))
  }
}
