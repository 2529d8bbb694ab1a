// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
import LarderLMDB
import LarderTestSupport
import LarderTesting
import Testing

/// Whether this process may create PID namespaces, and choose the numbers of processes in them.
private let canNumber: Bool = {
  let outcome = try? ChildProcess.run(
    "unshare", ["--pid", "--fork", "sh", "-c", "echo 1000 > /proc/sys/kernel/ns_last_pid"])
  return outcome?.status.isSuccess ?? false
}()

/// LMDB's locks name threads that do not have them.
@Suite(.timeLimit(.minutes(60))) struct DamagedLockTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  var path: String { directory.path }
  var file: LMDBLockFile { LMDBLockFile(path + "/lock.mdb") }
  /// No thread has such a number: it is above the kernel's limit; or no number, and waiters.
  static let words: [UInt32] = [0x0100_0000, 0x3FFF_FFFF, 0x8100_0000, LMDBLockFile.waiters]

  func peer() throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    try #require(try peer.ask("lmdb open \(path) ondemand") == "opened")
    return peer
  }

  @Test(arguments: words)
  func `A writer lock of a thread that does not exist is released`(word: UInt32) throws {
    let (first, second) = (try peer(), try peer())
    #expect(try first.ask("lmdb put a 1") == "ok" && second.ask("lmdb put b 1") == "ok")
    try file.setWord(word, of: .writer)
    #expect(try first.ask("lmdb put a 2") == "ok")
    #expect(try second.ask("lmdb put b 2") == "ok")
    // One that waits inside LMDB.
    try file.setWord(word, of: .writer)
    #expect(try first.ask("lmdb rawput a 3") == "ok")
    #expect(try second.ask("lmdb get a") == "value 3" && first.ask("lmdb get b") == "value 2")
    #expect(try first.ask("lmdb close") == "ok" && second.ask("lmdb close") == "ok")
    #expect(try Environment.verify(at: path).isSound)
  }

  @Test(arguments: words)
  func `A lock of the readers of a thread that does not exist is released`(word: UInt32) throws {
    let (first, second) = (try peer(), try peer())
    #expect(try first.ask("lmdb put a 1") == "ok")
    try file.setWord(word, of: .readers)
    #expect(try second.ask("lmdb get a") == "value 1")
    #expect(try first.ask("lmdb put a 2") == "ok" && second.ask("lmdb get a") == "value 2")
  }

  @Test func `A lock that a living writer has is never released`() throws {
    let (holder, waiter) = (try peer(), try peer())
    #expect(try holder.ask("lmdb put a 1") == "ok" && waiter.ask("lmdb put b 1") == "ok")
    #expect(try holder.ask("lmdb rawhold") == "holding")
    let word = try file.word(of: .writer) & ~LMDBLockFile.waiters
    try holder.stop()
    try waiter.send("lmdb rawput b 2")
    try #require(try file.waitForWaiter(of: .writer, in: waiter))
    // The thread that looks at the locks wakes for each check, and the other threads of the process do not: more checks
    // than make a second, after which the owner of a lock is asked about.
    let looks = waiter.wakeUps
    try eventually("the lock was looked at 60 times") { waiter.wakeUps >= looks + 60 }
    #expect(try file.waitForWaiter(of: .writer, in: waiter))
    #expect(try file.word(of: .writer) & ~LMDBLockFile.waiters == word)
    holder.continue()
    #expect(try holder.ask("go on") == "ok")
    try waiter.expect("ok")
    #expect(try waiter.ask("lmdb get b") == "value 2")
  }

  @Test(
    .enabled(if: canNumber, "PID namespaces cannot be created here (root on Linux can)"))
  func `A lock of a program in another PID namespace is never released`() throws {
    let (first, second) = (try peer(), try peer())
    #expect(try first.ask("lmdb put a 1") == "ok" && second.ask("lmdb put b 1") == "ok")
    // Here no thread has its number.
    var number = 32_000
    while TestFiles.exists("/proc/\(number)") { number -= 1 }
    let foreign = try ChildProcess(
      "unshare",
      [
        "--pid", "--fork", "--kill-child", "sh", "-c",
        "exec 3<&0; echo \(number - 1) > /proc/sys/kernel/ns_last_pid; \"$0\" <&3 & wait",
        TestExecutable.peer.path,
      ])
    #expect(try foreign.ask("lmdb rawlock \(path)") == "holding")
    let word = try file.word(of: .writer) & ~LMDBLockFile.waiters
    #expect(!TestFiles.exists("/proc/\(word)"), "\(word)")
    // The first one calls LMDB, the second one needs its turn.
    try first.send("lmdb rawput a 2")
    try second.send("lmdb put b 2")
    try #require(try file.waitForWaiter(of: .writer, in: first))
    let looks = first.wakeUps
    try eventually("the lock was looked at 60 times") { first.wakeUps >= looks + 60 }
    #expect(try file.waitForWaiter(of: .writer, in: first))
    #expect(try file.word(of: .writer) & ~LMDBLockFile.waiters == word)
    #expect(try foreign.ask("go on") == "ok")
    try first.expect("ok")
    try second.expect("ok")
    #expect(try first.ask("lmdb get b") == "value 2" && second.ask("lmdb get a") == "value 2")
  }
}
#endif
