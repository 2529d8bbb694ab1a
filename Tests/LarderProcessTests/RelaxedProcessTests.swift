// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderSystem
import LarderTesting
import Testing

extension Processes {
  /// The options of a store that is synced in an hour, and by no pause of the test.
  private static var hourly: StoreOptions {
    var options = StoreOptions(durability: .relaxed, syncInterval: .seconds(3600))
    options.idleSyncDelay = nil
    return options
  }

  @Test(.timeLimit(.minutes(60)))
  func `What a killed process committed is synced by another one when its time has come`() throws {
    let hour = 3_600_000 as UInt64
    let ground = try StoreFixture(Self.hourly)
    let writer = try ground.peer("relaxed interval=\(hour)")
    try writer.order("set 0 first")
    // The log begins after the first commit.
    try ground.store.sync()
    try writer.order("set 1 one")
    try writer.order("set 2 two")
    writer.kill()
    _ = try writer.wait()
    let core = ground.store.core
    let table = try core.generation().table
    #expect(try ground.store.statistics().unsyncedCommits ?? 0 >= 2)
    #expect(core.syncIfDue(now: table.logSyncedAt + hour - 1) != nil)
    #expect(try ground.store.statistics().unsyncedCommits ?? 0 >= 2)
    core.syncIfDue(now: table.logSyncedAt + hour)
    #expect(try ground.store.statistics().unsyncedCommits == 0)
    #expect(ground.numbers[1] == "one" && ground.numbers[2] == "two")
  }

  @Test(.timeLimit(.minutes(60)))
  func `A process that only reads syncs the commits of a killed one`() throws {
    let ground = try StoreFixture(
      StoreOptions(durability: .relaxed, syncInterval: .milliseconds(20)))
    let reader = try ground.peer("relaxed")
    let writer = try ground.peer("relaxed")
    try writer.order("set 1 one")
    writer.kill()
    _ = try writer.wait()
    let table = try ground.store.core.generation().table
    let commitVersion = table.lastStamped
    try eventually("the commit is synced") {
      table.durableVersion >= commitVersion
    }
    try reader.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A process that is stopped in the middle of a sync delays no other sync`() throws {
    let ground = try StoreFixture(Self.hourly)
    try ground.numbers.setValue("first", forKey: 0)
    try ground.store.sync()
    let presence = try OwnedFile(path: try ground.store.core.generation().path + "/presence")
    // A stopped process may hold the locks of the process that syncs, and a lane.
    try eventually("no sync runs") {
      try presence.tryLock(.exclusive, at: PresenceLocks.syncer)
        && presence.tryLock(.exclusive, at: PresenceLocks.logSyncer)
    }
    #expect(try presence.tryLock(.exclusive, at: 16))
    let core = ground.store.core
    let table = try core.generation().table
    try ground.numbers.setValue("one", forKey: 1)
    let due = table.logSyncedAt + 3_600_000
    #expect(core.syncIfDue(now: due) == 20_000_000)
    #expect(try ground.store.statistics().unsyncedCommits == 1)
    core.syncIfDue(now: due + 3_600_000)
    #expect(try ground.store.statistics().unsyncedCommits == 0)
    try ground.numbers.setValue("two", forKey: 1)
    try ground.store.sync()
    #expect(try ground.store.statistics().unsyncedCommits == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `The pin of an idle writer with a long interval follows the early syncs of others`() throws {
    let ground = try StoreFixture(StoreOptions(durability: .relaxed, syncInterval: .seconds(3600)))
    let idle = try ground.peer("relaxed")
    try idle.order("set 1 one")
    func pinned() throws -> UInt64? {
      try ground.store.core.generation().readers()
        .filter { $0.pid == idle.processIdentifier }.compactMap(\.transaction).min()
    }
    let first = try #require(try pinned())
    // Early checkpoints come with 32 MB of growth.
    let value = [UInt8](repeating: 7, count: 1 << 20)
    let deadline = ContinuousClock.now + .seconds(600)
    var (now, key) = (first, 0)
    while now <= first + 50, ContinuousClock.now < deadline {
      try ground.store.setBytes(value, forKey: key % 30)
      key += 1
      now = try pinned() ?? .max
    }
    #expect(now > first + 50, "\(first), \(now), after \(key) writes")
    try idle.dismiss()
  }
}
