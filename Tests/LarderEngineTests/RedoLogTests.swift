// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// The redo log of durable stores within one process; `RedoLogPowerCutTests.swift` has the power cuts.
@Suite(.timeLimit(.minutes(60))) struct RedoLogTests {
  private let directory: TemporaryDirectory
  private let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store", .init(durability: .durable))
  }

  /// Returns a copy of the store as it is after a crash of the system: the last checkpoint and the log count.
  private func crashed(_ path: String? = nil, _ name: String = "crashed") throws -> String {
    let copy = directory.path + "/" + name
    try run("/bin/cp", "-a", path ?? store.path, copy)
    let file = try StoreFiles(of: copy).state
    var state = try #require(try StoreState.read(from: file))
    (state.bootID, state.isDirty) = (state.bootID &+ 1, true)
    try state.write(to: file)
    return copy
  }

  private func open(_ path: String) throws -> SharedStore {
    try SharedStore(at: path, .init(durability: .durable))
  }

  private func log(_ number: Int, _ path: String) throws -> String {
    try StoreFiles(of: path).generation + "/log-\(number)"
  }

  @Test func `After a crash of the system a durable store has every commit`() throws {
    for key in 0..<400 { try store.setBytes(.init(repeating: 1, count: key * 20), forKey: key) }
    for key in stride(from: 0, to: 400, by: 3) { try store.remove(forKey: key) }
    try store.removeAll(tagged: "none")
    try store.write { transaction in
      for key in 400..<420 { try transaction.setBytes([UInt8(key % 250)], forKey: key) }
    }
    let newest = try store.core.generation().table.lastStamped
    let again = try open(crashed())
    for key in 0..<400 {
      let expected = key % 3 == 0 ? nil : [UInt8](repeating: 1, count: key * 20)
      #expect(try again.bytes(forKey: key) == expected)
    }
    for key in 400..<420 { #expect(try again.bytes(forKey: key) == [UInt8(key % 250)]) }
    #expect(try again.statistics().log?.unsyncedCommits == 0)
    #expect(try again.verify() == [])
    try again.setBytes([7], forKey: 0)
    #expect(try again.core.generation().table.lastStamped > newest)
    #expect(try again.bytes(forKey: 0) == [7])
  }

  @Test func `A crash right after a recovery from the log changes nothing`() throws {
    for key in 0..<50 { try store.setBytes([UInt8(key)], forKey: key) }
    let first = try crashed()
    let again = try open(first)
    for key in 50..<60 { try again.setBytes([UInt8(key)], forKey: key) }
    let second = try open(crashed(first, "second"))
    for key in 0..<60 { #expect(try second.bytes(forKey: key) == [UInt8(key)]) }
    #expect(try second.verify() == [])
  }

  @Test func `Crashes one after the other leave the log small`() throws {
    try store.setBytes([0], forKey: 0)
    var path = try crashed()
    for round in 1...12 {
      let again = try open(path)
      try again.setBytes([UInt8(round)], forKey: round)
      let next = try crashed(path, "crashed-\(round)")
      again.close()
      path = next
    }
    let last = try open(path)
    for round in 0...12 { #expect(try last.bytes(forKey: round) == [UInt8(round)]) }
    let files = TestFiles.names(in: try StoreFiles(of: path).generation)
      .filter { $0.hasPrefix("log-") }
    #expect(files.count <= 2, "\(files)")
  }

  @Test func `A transaction that is too large for the log is in a checkpoint when it returns`()
    throws
  {
    try store.setBytes([1], forKey: "before")
    let value = [UInt8](repeating: 5, count: 1 << 20)
    try store.write { transaction in
      for key in 0..<8 { try transaction.setBytes(value, forKey: key) }
    }
    try store.setBytes([2], forKey: "after")
    let again = try open(crashed())
    for key in 0..<8 { #expect(try again.bytes(forKey: key) == value) }
    #expect(try again.bytes(forKey: "before") == [1])
    #expect(try again.bytes(forKey: "after") == [2])
    #expect(try again.verify() == [])
  }

  @Test func `A damaged record ends the recovery before its commit`() throws {
    for key in 0..<5 { try store.setBytes([UInt8(key)], forKey: key) }
    let end = try #require(
      store.core.generation().table.logEnd(after: store.core.generation().table.lastStamped))
    let copy = try crashed()
    try TestFiles.overwrite([0xFF], at: Int(end.offset) - 9, in: log(0, copy))
    let again = try open(copy)
    for key in 0..<4 { #expect(try again.bytes(forKey: key) == [UInt8(key)]) }
    #expect(try again.bytes(forKey: 4) == nil)
    #expect(try again.verify() == [])
  }

  @Test func `A damaged place of the log in the table counts as missing`() throws {
    let generation = try store.core.generation()
    let table = generation.table
    let file = try OwnedFile(path: store.path + "/g-1/shared.table")
    var end = LogPosition.none
    (end.segment, end.offset, end.chain) = (7, 4096, .max)
    // One for each of the two places. The store is not used afterwards.
    for version: UInt64 in [2, 3] {
      table.setLogEnd(end, after: version)
      #expect(table.logEnd(after: version) == end)
      #expect(table.logEnd(after: version + 2) == nil)
      for word in 0..<4 {
        table.setLogEnd(end, after: version)
        let offset = SharedTableLayout.logEnds + Int(version & 1) * 32 + word * 8
        try file.write([try file.read(count: 1, at: offset)[0] ^ 1], at: offset)
        #expect(table.logEnd(after: version) == nil)
      }
      table.setLogEnd(.none, after: version)
      #expect(table.logEnd(after: version) == nil)
    }
    let start = table.logStart
    table.raiseLogStart(to: start + 3)
    table.raiseLogStart(to: start + 1)
    #expect(table.logStart == start + 3)
    for offset in 0..<8 {
      let offset = SharedTableLayout.logStart + offset
      try file.write([try file.read(count: 1, at: offset)[0] ^ 0x10], at: offset)
      #expect(table.logStart == 0)
      table.raiseLogStart(to: start + 3)
      #expect(table.logStart == start + 3)
    }
  }

  @Test func `A log that a recovery could not read is found until the next checkpoint`() throws {
    for key in 0..<5 { try store.setBytes([UInt8(key)], forKey: key) }
    #expect(try store.verify() == [])
    let generation = try store.core.generation()
    let end = try #require(generation.table.logEnd(after: generation.table.lastStamped))
    try TestFiles.overwrite([0xFF], at: Int(end.offset) - 9, in: log(0, store.path))
    let findings = try store.verify()
    #expect(findings.map(\.place) == ["log"] && findings[0].severity == .error, "\(findings)")
    store.core.syncIfDue(now: .max / 2)
    #expect(try store.verify() == [])
    try store.setBytes([9], forKey: 9)
    #expect(try store.verify() == [])
  }

  @Test func `The statistics of a durable store show its log`() throws {
    // The first one is in a checkpoint: the log begins after it.
    try store.setBytes([1], forKey: 100)
    let before = try #require(store.statistics().log)
    #expect(before.fileBytes > 0 && before.fileBytes <= 64 << 20)
    for key in 0..<5 { try store.setBytes([UInt8(key)], forKey: key) }
    let after = try #require(store.statistics().log)
    #expect(after.syncs == before.syncs + 5)
    #expect(after.commits == before.commits + 5 && after.unsyncedCommits == 0)
    store.core.syncIfDue(now: .max / 2)
    #expect(try store.statistics().log?.commits == 0)
    let cache = try SharedStore(at: directory.path + "/cache")
    #expect(try cache.statistics().log == nil)
  }

  @Test func `Without its log files a durable store is an error after a crash of the system`()
    throws
  {
    try store.setBytes([1], forKey: 1)
    let copy = try crashed()
    TestFiles.removeAll(try log(0, copy))
    let error = #expect(throws: StoreError.self) { try open(copy) }
    #expect(
      error?.code == .damaged && error?.message.contains("log") == true,
      "\(String(describing: error))")
  }

  @Test func `A repair without the log goes on from the checkpoint`() throws {
    try store.setBytes([1], forKey: 1)
    store.core.syncIfDue(now: .max / 2)
    try store.setBytes([2], forKey: 2)
    let copy = try crashed()
    for number in 0..<4 { TestFiles.removeAll(try log(number, copy)) }
    let report = try SharedStore.repair(at: copy)
    #expect(report.mayMissCommits)
    let again = try open(copy)
    #expect(try again.bytes(forKey: 1) == [1])
    #expect(try again.bytes(forKey: 2) == nil)
    #expect(try again.verify() == [])
  }

  @Test func `A writer keeps few files of the log open`() throws {
    let value = [UInt8](repeating: 3, count: 20_000)
    func descriptors() -> Int {
      // Other tests open and close files at the same time.
      TestFiles.names(in: "/proc/self/fd").count { name in
        TestFiles.target(ofLink: "/proc/self/fd/" + name)?.hasPrefix(store.path + "/") == true
      }
    }
    for key in 0..<20 { try store.setBytes(value, forKey: key) }
    let before = descriptors()
    #expect(before > 1)
    for round in 0..<60 {
      for key in 0..<20 { try store.setBytes(value, forKey: key + round % 2) }
      store.core.syncIfDue(now: .max / 2)
    }
    #expect(descriptors() < before + 10)
  }

  @Test func `The files of the log are used again after checkpoints`() throws {
    let value = [UInt8](repeating: 3, count: 20_000)
    for round in 0..<40 {
      for key in 0..<10 { try store.setBytes(value, forKey: key + round % 2) }
      store.core.syncIfDue(now: .max / 2)
    }
    let files = TestFiles.names(in: try StoreFiles(of: store.path).generation)
      .filter { $0.hasPrefix("log-") }
    // 8 MB were logged.
    #expect(files.count <= 4, "\(files)")
    let again = try open(crashed())
    for key in 0..<11 { #expect(try again.bytes(forKey: key) == value) }
  }

  @Test(
    .enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason),
    arguments: [Durability.durable, .durableStrict])
  func `After a crash of the system a store has what was acknowledged on a full disk`(
    durability: Durability
  ) throws {
    var random = Seed.announce().generator()
    try directory.withSmallDisk(kilobytes: 24 << 10) { disk in
      let store = try SharedStore(at: disk + "/store", .init(durability: durability))
      var stored: [Int: [UInt8]] = [:]
      var failures = 0
      for round in 0..<8 {
        // The room is for some of the files that the log begins, of 16 kB to 16 MB, or for none.
        let sizes = [0, 40, 300, 1500, 6000]
        let free = round < 2 ? [6000, 0][round] : sizes.randomElement(using: &random)!
        let ballast = disk + "/ballast"
        _ = try ChildProcess.run("/bin/cp", ["/dev/zero", ballast])
        try run("/usr/bin/truncate", "-s", "-\(free)K", ballast)
        for _ in 0..<60 {
          let key = Int.random(in: 0..<40, using: &random)
          let value = [UInt8](
            repeating: UInt8(round), count: Int.random(in: 10...60_000, using: &random))
          do {
            try store.setBytes(value, forKey: key)
            stored[key] = value
          } catch let error as StoreError {
            #expect(error.code == .storageFull, "\(error)")
            failures += 1
          }
        }
        let again = try SharedStore(
          at: crashed(store.path, "crashed-\(round)"), .init(durability: durability))
        for (key, value) in stored { #expect(try again.bytes(forKey: key) == value) }
        #expect(try again.verify() == [])
        again.close()
        TestFiles.removeAll(ballast)
      }
      #expect(failures > 0 && stored.count > 20)
      store.close()
    }
  }
}
