// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
import LarderLMDB
import LarderTestSupport
import LarderTesting
import Testing

/// A process is killed after it is woken and before it acquires LMDB's lock: another sleeps on,
/// though the lock is free or its holder has no record of a waiter. These tests create that state
/// by hand.
@Suite(.timeLimit(.minutes(60))) struct LostWakeupTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  var path: String { directory.path }
  var file: LMDBLockFile { LMDBLockFile(path + "/lock.mdb") }

  func peer() throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    try #require(try peer.ask("lmdb open \(path) ondemand") == "opened")
    return peer
  }

  /// One process inside a write, another asleep until it ends.
  func holderAndWaiter() throws -> (ChildProcess, ChildProcess) {
    let (holder, waiter) = (try peer(), try peer())
    #expect(try holder.ask("lmdb put a 1") == "ok" && waiter.ask("lmdb put b 1") == "ok")
    #expect(try holder.ask("lmdb rawhold") == "holding")
    try waiter.send("lmdb rawput b 2")
    try #require(try file.waitForWaiter(of: .writer, in: waiter))
    return (holder, waiter)
  }

  @Test func `A writer whose wait the lock's holder does not see continues automatically`() throws {
    let (holder, waiter) = try holderAndWaiter()
    try file.forgetWaiters(of: .writer)
    #expect(try holder.ask("go on") == "ok")
    try waiter.expect("ok")
    // And again, held until it is known once more.
    #expect(try holder.ask("lmdb rawhold") == "holding")
    try waiter.send("lmdb rawput b 3")
    try #require(try file.waitForWaiter(of: .writer, in: waiter))
    try file.forgetWaiters(of: .writer)
    #expect(try file.waitForWaiter(of: .writer, in: waiter))
    #expect(try holder.ask("go on") == "ok")
    try waiter.expect("ok")
    #expect(try holder.ask("lmdb get b") == "value 3")
  }

  @Test func `A writer asleep though the lock is free continues automatically`() throws {
    let (holder, waiter) = try holderAndWaiter()
    try file.setWord(0, of: .writer)
    holder.kill()
    #expect(try holder.wait() == .killed)
    try waiter.expect("ok")
    #expect(try waiter.ask("lmdb get b") == "value 2")
    #expect(try waiter.ask("lmdb get held") == "none")
    #expect(try waiter.ask("lmdb close") == "ok")
    #expect(try Environment.verify(at: path).isSound)
  }

  @Test func `The watchdog thread sleeps without writers and is woken by one`()
    throws
  {
    let (holder, waiter) = try holderAndWaiter()
    #expect(try holder.ask("go on") == "ok")
    try waiter.expect("ok")
    #expect(try holder.ask("lmdb rest") == "ok" && waiter.ask("lmdb rest") == "ok")
    // For each of its later writes it is there again.
    for number in 0..<3 {
      #expect(try holder.ask("lmdb rawhold") == "holding")
      try waiter.send("lmdb rawput b \(number)")
      try #require(try file.waitForWaiter(of: .writer, in: waiter))
      try file.forgetWaiters(of: .writer)
      #expect(try holder.ask("go on") == "ok")
      try waiter.expect("ok")
      #expect(try waiter.ask("lmdb rest") == "ok")
    }
  }

  @Test func `A reader asleep though the lock of the readers is free continues automatically`()
    throws
  {
    let (other, waiter) = (try peer(), try peer())
    // The apparent holder is alive.
    try file.setWord(UInt32(other.processIdentifier), of: .readers)
    try waiter.send("lmdb get a")
    try #require(try file.waitForWaiter(of: .readers, in: waiter))
    try file.setWord(0, of: .readers)
    try waiter.expect("none")
  }
}
#endif
