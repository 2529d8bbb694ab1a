// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// Random damage to the files of closed stores, opened by a separate process each time.
@Suite(.timeLimit(.minutes(60))) struct RandomDamageTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  static let texts: [String: String] = [
    "small": "a small value", "medium": String(repeating: "medium ", count: 500),
    "large": String(repeating: "large ", count: 20_000),
  ]

  /// One change to a file that may be in any part of it.
  static func damage(_ file: String, with random: inout SeededRandom) throws -> String {
    let size = try TestFiles.size(file)
    let place = size > 0 ? Int.random(in: 0..<size, using: &random) : 0
    switch Int.random(in: 0..<5, using: &random) {
    case 0:
      try TestFiles.truncate(file, to: place)
      return "cut to \(place)"
    case 1:
      let bytes = (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
      try TestFiles.overwrite(bytes, at: place, in: file)
      return "64 random bytes at \(place)"
    case 2:
      let page = place & ~4095
      try TestFiles.overwrite([UInt8](repeating: 0, count: 4096), at: page, in: file)
      return "a page of zeros at \(page)"
    case 3:
      // The first pages: headers, LMDB's meta pages.
      let near = Int.random(in: 0..<min(max(size, 1), 8192), using: &random)
      try TestFiles.overwrite([UInt8.random(in: 0...255, using: &random)], at: near, in: file)
      return "one byte at \(near)"
    default:
      try TestFiles.truncate(file, to: size + place + 1)
      return "lengthened by \(place + 1)"
    }
  }

  @Test(.enabled(if: hasTools, needsTools))
  func `Opening damaged files never crashes and never gives a wrong value`() throws {
    let tool = try TestExecutable.tool.path
    let seed = Seed.announce()
    var kept = 0
    for durability in Durability.allCases {
      let original = directory.path + "/original-\(durability)"
      for (key, text) in Self.texts {
        let outcome = try ChildProcess.run(
          tool, ["set", key, "--store", original, "--durability", "\(durability)"] + ["--", text])
        #expect(outcome.status.isSuccess, "\(outcome.standardError)")
      }
      for trial in seed.trials(54) {
        var random = trial.generator()
        let path = directory.path + "/damaged"
        TestFiles.removeAll(path)
        try run("/bin/cp", "-a", "--sparse=always", original, path)
        let files = try StoreFiles(of: path)
        let names = [files.current, files.state, files.table, files.lock, files.data, files.data]
        let file = names.randomElement(using: &random)!
        let what = "\(trial), \(durability), \(file): " + (try Self.damage(file, with: &random))
        // Every page of the data is checked only if there is a reason to.
        if file == files.data { TestFiles.removeAll(files.state) }
        let before = try TestFiles.contents(of: files.data)
        let key = Self.texts.keys.sorted().randomElement(using: &random)!
        let get = try ChildProcess.run(tool, ["get", key, "--store", path])
        guard case .exited(let code) = get.status else {
          Issue.record("\(what): \(get.status), \(get.standardError)")
          continue
        }
        if code == 0 {
          #expect(get.lines == [Self.texts[key]!], "\(what)")
          kept += 1
        } else if durability != .cache {
          #expect(try TestFiles.contents(of: files.data) == before, "\(what)")
          #expect(!get.standardError.contains("started empty"), "\(what)")
        } else {
          // A command that reads leaves it to a program that writes to start the cache again.
          #expect(try TestFiles.contents(of: files.data) == before, "\(what)")
          let set = try ChildProcess.run(tool, ["set", "written", "1", "--store", path])
          #expect(set.status.isSuccess, "\(what): \(set.standardError)")
          let again = try ChildProcess.run(tool, ["get", key, "--store", path])
          let isKept = again.status.isSuccess && again.lines == [Self.texts[key]!]
          let isLost = again.status == .exited(1) && again.lines == []
          let mayLose = file == files.data || file == files.state
          #expect(isKept || isLost && mayLose, "\(what): \(again)")
        }
        let stat = try ChildProcess.run(tool, ["stat", "--store", path])
        guard case .exited = stat.status else {
          Issue.record("\(what): stat, \(stat.status), \(stat.standardError)")
          continue
        }
        if durability == .cache {
          #expect(stat.status.isSuccess, "\(what): \(stat.standardError)")
        }
      }
    }
    // Most damage is not to the data, and must not cost any.
    #expect(kept >= 70, "of 216 trials, \(seed)")
  }
}
