// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderRecovery
import LarderTestSupport
import LarderTesting
import Testing

/// A repair of damaged files whose checkpoint and log are whole.
@Suite(.timeLimit(.minutes(60))) struct RepairCheckpointTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var original: String { directory.path + "/original" }
  var path: String { directory.path + "/store" }

  @Test func `A durable store that was truncated is repaired from its checkpoint and log`() throws {
    // The last pages of this one are not of the checkpoint. Of others they may be, and salvage is what is left.
    let ground = try RepairGround(at: original, seed: Seed(1), rounds: 60)
    func truncated(by pages: Int) throws -> StoreFiles {
      let files = try ground.copy(to: path)
      try TestFiles.truncate(files.data, to: try TestFiles.size(files.data) - pages * 4096)
      return files
    }
    // The last pages of the file may be free ones, without which it is sound.
    let least = try #require(
      try (1..<200).first { pages in
        _ = try truncated(by: pages)
        return try SharedStore.repair(at: path, dryRun: true).outcome != .sound
      })
    for pages in [0, 1, 9, 59].map({ least + $0 }) {
      let files = try truncated(by: pages)
      let cut = try TestFiles.contents(of: files.data)
      let error = #expect(throws: StoreError.self) {
        try SharedStore(at: path, .init(durability: .durable))
      }
      #expect(error?.code == .damaged, "\(pages) pages")
      let plan = try SharedStore.repair(at: path, dryRun: true)
      #expect(plan.outcome == .repairable && plan.isComplete, "\(pages) pages: \(plan)")
      #expect(plan.kept == ground.newest.count && plan.lost == 0, "\(pages) pages")
      #expect(plan.findings.contains { $0.place == "data.mdb" && $0.severity == .error })
      #expect(try TestFiles.contents(of: files.data) == cut)
      #expect(TestFiles.names(in: path).filter { $0.contains("g-") } == ["g-1"])
      let report = try SharedStore.repair(at: path)
      #expect(report.outcome == .repaired && report.isComplete, "\(pages) pages: \(report)")
      #expect(
        report.kept == ground.newest.count && !report.namespaces.contains(where: \.isRecovered))
      // The damaged files are as they were.
      let kept = try #require(report.damagedFiles)
      #expect(try TestFiles.contents(of: kept + "/data.mdb") == cut)
      #expect(TestFiles.names(in: path).filter { $0.hasSuffix(".tmp") } == [])
      let found = try ground.check(path, mayMissCommits: false, "\(pages) pages")
      #expect(found.count == ground.newest.count)
      #expect(try SharedStore.repair(at: path).outcome == .sound)
    }
  }

  @Test func `Damaged meta pages are repaired from the checkpoint and the log`() throws {
    let ground = try RepairGround(at: original, seed: Seed.announce(), rounds: 20)
    let files = try ground.copy(to: path)
    try TestFiles.overwrite([UInt8](repeating: 0x5A, count: 8192), at: 0, in: files.data)
    let report = try SharedStore.repair(at: path)
    #expect(report.outcome == .repaired && report.kept == ground.newest.count && report.lost == 0)
    // There may have been a commit that the log does not have.
    #expect(report.mayMissCommits)
    #expect(try ground.check(path, mayMissCommits: false, "").count == ground.newest.count)
  }

  @Test(
    .enabled(if: hasTools, needsTools),
    .enabled(if: hasFaults, needsFaults),
    arguments: ["restoreWritten", "logReplayed", "openGenerationBuilt", "openCurrentWritten"])
  func `A repair from the checkpoint that is killed leaves the old store or the new one`(
    point: String
  ) throws {
    let ground = try RepairGround(at: original, seed: Seed(1), rounds: 60)
    let files = try ground.copy(to: path)
    try TestFiles.truncate(files.data, to: try TestFiles.size(files.data) - 8 * 4096)
    // The tool restores for its plan first.
    let occurrence = point.hasPrefix("open") ? 1 : 2
    let outcome = try ChildProcess.run(
      TestExecutable.tool.path, ["repair", path, "--yes"],
      environment: ["LARDER_FAULTS": "\(point):kill@\(occurrence)"])
    #expect(outcome.status == .signalled(9), "\(outcome)")
    let report = try SharedStore.repair(at: path)
    #expect(report.isComplete, "\(report)")
    #expect(try ground.check(path, mayMissCommits: false, "").count == ground.newest.count)
    #expect(TestFiles.names(in: path).filter { $0.hasSuffix(".tmp") } == [])
  }

  /// A damaged durable store, whose check restores a copy.
  private func damaged() throws -> RepairGround {
    let ground = try RepairGround(at: original, seed: Seed(1), rounds: 60)
    let files = try ground.copy(to: path)
    try TestFiles.truncate(files.data, to: try TestFiles.size(files.data) - 8 * 4096)
    return ground
  }

  @Test(.enabled(if: hasFaults, needsFaults))
  func `A check removes its temporary files, and those of a killed check`()
    throws
  {
    let ground = try damaged()
    let place = directory.appending("temporary")
    try TestFiles.makeDirectory(place)
    try TestFiles.makeDirectory(place + "/larder-verify-0")
    try TestFiles.write([1], to: place + "/other")
    func check(_ faults: [String: String] = [:]) throws -> ChildProcess.Outcome {
      try ChildProcess.run(
        TestExecutable.tool.path, ["verify", path],
        environment: ["TMPDIR": place].merging(faults) { $1 })
    }
    let killed = try check(["LARDER_FAULTS": "logReplayed:kill@1"])
    #expect(killed.status == .signalled(9), "\(killed)")
    let left = TestFiles.names(in: place).filter { $0.hasPrefix("larder-verify-") }
    #expect(left.count == 1, "\(left)")
    let outcome = try check()
    #expect(outcome.status == .exited(1), "\(outcome)")
    #expect(outcome.output.contains("restored from the last checkpoint"), "\(outcome)")
    #expect(TestFiles.names(in: place) == ["other"])
    #expect(try SharedStore.repair(at: path).kept == ground.newest.count)
  }

  @Test func `A check without room for its copy is an error with the size and the place`() throws {
    _ = try damaged()
    let before = try TestFiles.contents(of: path + "/g-1/data.mdb")
    try directory.withSmallDisk(kilobytes: 64) { disk in
      let outcome = try ChildProcess.run(
        TestExecutable.tool.path, ["verify", path], environment: ["TMPDIR": disk])
      #expect(!outcome.status.isSuccess)
      let text = outcome.output + outcome.standardError
      #expect(text.contains("Name a directory with that much room in TMPDIR."), "\(text)")
      #expect(TestFiles.names(in: disk) == [])
    }
    let file = directory.appending("file")
    try TestFiles.write([1], to: file)
    let outcome = try ChildProcess.run(
      TestExecutable.tool.path, ["verify", path], environment: ["TMPDIR": file])
    let text = outcome.output + outcome.standardError
    #expect(text.contains("Name another one in TMPDIR."), "\(text)")
    #expect(try TestFiles.contents(of: path + "/g-1/data.mdb") == before)
  }
}
