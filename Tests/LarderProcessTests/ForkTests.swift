// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

#if os(Linux)
extension Processes {
  static let everyUse = "forked" + String(repeating: " usedAfterFork", count: 12)

  @Test(.timeLimit(.minutes(60)))
  func `A forked child gets an error from every use and its parent is not harmed`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    let pid = peer.processIdentifier
    try peer.order("set 1 kept")
    #expect(try peer.ask("get 1") == "value kept")
    #expect(try peer.ask("fork") == Self.everyUse)
    #expect(try ground.store.statistics().processes.contains(pid))
    #expect(ground.numbers[1] == "kept")
    try ground.numbers.setValue("changed", forKey: 1)
    #expect(try ground.store.verify() == [])
    // The parent dies, the child lives on: nothing of the parent is left in the store.
    peer.kill()
    _ = try peer.wait()
    #expect(try !ground.store.statistics().processes.contains(pid))
    let newcomer = try ground.peer()
    #expect(try newcomer.ask("get 1") == "value changed")
    #expect(try ground.store.statistics().processes.count == 2)
    #expect(!TestFiles.exists(ground.path + "-of-the-child"))
    try newcomer.dismiss()
    peer.closeInput()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A forked child that opens another store gets an error with the advice to fork earlier`()
    throws
  {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    let other = ground.directory.appending("other")
    let text = try peer.ask("fork other \(other)")
    #expect(text.contains("not even another"), "\(text)")
    #expect(
      text.contains(
        "Fork before the first store is opened, or start the process with posix_spawn."),
      "\(text)")
    #expect(!TestFiles.exists(other))
    peer.kill()
    _ = try peer.wait()
    // A process that was not forked this way can use the path.
    try SharedStore(at: other).setBytes([1], forKey: "a")
    peer.closeInput()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A child forked while threads hold the store's locks gets errors and never waits`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    #expect(try peer.ask("fork storm 200") == "stormed 200")
    #expect(try ground.store.verify() == [])
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A gate held across a fork is free when its holder dies`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    #expect(try peer.ask("fork gate") == Self.everyUse)
    let waiting = try TestExecutable.peer.start()
    try waiting.send("open \(ground.path)")
    peer.kill()
    _ = try peer.wait()
    #expect(try waiting.nextLine() == "opened 1")
    try waiting.dismiss()
    peer.closeInput()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A lock held across a fork is free when its holder dies`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    #expect(try peer.ask("fork lock a") == Self.everyUse)
    let lock = ground.store.lock("a")
    #expect(throws: StoreError.self) { try lock.withLock(timeout: .zero) { _ in } }
    peer.kill()
    _ = try peer.wait()
    try lock.withLock(timeout: .seconds(600)) { _ in }
    peer.closeInput()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A lease held across a fork is free when its holder dies`() throws {
    let ground = try StoreFixture()
    let log = ground.directory.appending("log")
    try TestFiles.makeDirectory(log)
    let other = try ground.peer()
    let peer = try ground.peer()
    #expect(try peer.ask("fork lease 7") == Self.everyUse)
    try other.send("compute 7 others \(log)")
    #expect(ground.numbers[7] == nil)
    peer.kill()
    _ = try peer.wait()
    #expect(try other.nextLine() == "computed 1 others")
    #expect(ground.numbers[7] == "others")
    try other.dismiss()
    peer.closeInput()
  }
}
#endif
