// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderRecovery
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// A store that is idle is on the disk: an orderly reboot keeps it, though nothing closed it.
@Suite(.timeLimit(.minutes(60))) struct IdleTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// Idle after 1,000 seconds: only times that a test gives count, not those of the store's thread.
  static func options(_ durability: Durability = .cache) -> StoreOptions {
    var options = StoreOptions(
      durability: durability, syncInterval: durability == .relaxed ? .seconds(3600) : nil)
    options.idleSyncDelay = .seconds(1000)
    return options
  }

  static func now() -> UInt64 { Clocks.monotonicNanoseconds() / 1_000_000 }

  /// A copy of the store as the next boot finds it: no table of its boot, and all pages on the disk.
  func rebooted(_ name: String) throws -> String {
    let copy = directory.appending(name)
    try run("/bin/cp", "-a", path, copy)
    let files = try StoreFiles(of: copy)
    var state = try #require(try StoreState.read(from: files.state))
    state.bootID = state.bootID &+ 1
    try state.write(to: files.state)
    TestFiles.removeAll(files.table)
    return copy
  }

  func isDirty() throws -> Bool {
    try #require(try StoreState.read(from: StoreFiles(of: path).state)).isDirty
  }

  /// The mark is written by the thread that leads the writes of the store.
  func waitUntilClean() throws {
    let deadline = Self.now() + 300_000
    while try isDirty(), Self.now() < deadline {}
    #expect(try !isDirty())
  }

  @Test func `An idle cache outlives a reboot that closes nothing, a busy one starts empty`()
    throws
  {
    let store = try SharedStore(at: path, Self.options())
    try store.setBytes([1], forKey: 1)
    let log = EventLog()
    let busy = try SharedStore(at: rebooted("busy"), log.options())
    #expect(try busy.bytes(forKey: 1) == nil)
    #expect(log.resetToEmpty)

    let now = Self.now()
    store.core.checkpointIfIdle(now: now)
    #expect(!store.core.checkpointIfIdle(now: now + 400_000))
    #expect(try isDirty())
    #expect(store.core.checkpointIfIdle(now: now + 1_100_000))
    try waitUntilClean()
    // Once is enough.
    #expect(!store.core.checkpointIfIdle(now: now + 3_000_000))
    let quiet = EventLog()
    let idle = try SharedStore(at: rebooted("idle"), quiet.options())
    #expect(try idle.bytes(forKey: 1) == [1])
    #expect(!quiet.resetToEmpty)
    #expect(try idle.verify() == [])
  }

  @Test func `The first commit after an idle time takes the mark back on the disk`() throws {
    let store = try SharedStore(at: path, Self.options())
    try store.setBytes([1], forKey: 1)
    let now = Self.now()
    store.core.checkpointIfIdle(now: now)
    store.core.checkpointIfIdle(now: now + 1_100_000)
    try waitUntilClean()
    try store.setBytes([2], forKey: 1)
    #expect(try isDirty())
    // Not idle: the newest commit is another one.
    #expect(!store.core.checkpointIfIdle(now: now + 500_000))
    let log = EventLog()
    let busy = try SharedStore(at: rebooted("busy"), log.options())
    #expect(try busy.bytes(forKey: 1) == nil)
    #expect(log.resetToEmpty)
    store.close()
    #expect(try SharedStore(at: path).bytes(forKey: 1) == [2])
  }

  @Test func `An idle relaxed store is recorded before its interval ends`() throws {
    let store = try SharedStore(at: path, Self.options(.relaxed))
    // The checkpoint thread syncs the first commit, with which the log begins, at once.
    try store.setBytes([0], forKey: 1)
    try store.sync()
    try store.setBytes([1], forKey: 1)
    let now = Self.now()
    store.core.checkpointIfIdle(now: now)
    #expect(store.core.checkpointIfIdle(now: now + 1_100_000))
    let again = try SharedStore(at: rebooted("idle"), StoreOptions(durability: .relaxed))
    #expect(try again.bytes(forKey: 1) == [1])
  }

  @Test(arguments: ["", "relaxed"])
  func `A process that was idle and is killed leaves a store that the next boot keeps`(
    kind: String
  ) throws {
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(path) \(kind) idle=1").hasPrefix("opened "))
    #expect(try peer.ask("set 1 value") == "ok")
    if kind.isEmpty { try waitUntilClean() }
    if !kind.isEmpty { #expect(try peer.ask("sync") == "ok") }
    peer.kill()
    _ = try peer.wait()
    let log = EventLog()
    let store = try SharedStore(
      at: rebooted("next"), log.options(kind.isEmpty ? .cache : .relaxed))
    #expect(try store.statistics().entries == 1)
    #expect(!log.resetToEmpty)
  }
}
