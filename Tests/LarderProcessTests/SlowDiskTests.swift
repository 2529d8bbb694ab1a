// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// A store on a disk whose syncs a test holds up, in the processes that it names.
private struct SlowDisk {
  let directory: TemporaryDirectory
  private let shim: PreloadShim
  private var order: String { directory.appending("order") }
  var path: String { directory.appending("store") }

  init() throws {
    directory = try TemporaryDirectory()
    shim = try PreloadShim("sync_fate", in: directory.path)
  }

  /// Starts a process whose syncs can be held up, or another one.
  func peer(_ options: String, isSlow: Bool = true) throws -> ChildProcess {
    let environment = shim.environment.merging(["SYNC_FATE": order]) { $1 }
    let peer = try TestExecutable.peer.start(environment: isSlow ? environment : [:])
    let answer = try peer.ask("open \(path) \(options)")
    try #require(answer.hasPrefix("opened "), "\(answer)")
    return peer
  }

  /// Holds up the syncs of files whose paths end like this.
  func hold(_ suffix: String) throws {
    try TestFiles.write(Array("hold \(suffix)\n".utf8), to: order)
  }

  func release() { TestFiles.removeAll(order) }

  /// Sends a line until the answer is `ok`: on a busy machine the disk may be slower than a short limit.
  func order(_ line: String, of peer: ChildProcess) throws {
    try eventually("\(line) succeeds") {
      let answer = try peer.ask(line)
      let isLate = ["error writerStalled ", "error outcomeUnknown "].contains {
        answer.hasPrefix($0)
      }
      try #require(answer == "ok" || isLate, "\(answer)")
      return answer == "ok"
    }
  }
}

extension Processes {
  @Test(
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(60)))
  func `The error of a write that waits for a sync of another process contains the sync`() throws {
    let disk = try SlowDisk()
    let slow = try disk.peer("strict timeout=600000")
    let other = try disk.peer("strict timeout=500", isSlow: false)
    try slow.order("set 1 a")
    try disk.hold("/log-0")
    try slow.send("set 2 b")
    var answer = ""
    // It may have come first, or the other process has executed the write, and synced it, for the slow one.
    repeat {
      answer = try other.ask("set 3 c")
      if answer == "ok", let line = try? slow.nextLine(deadline: .milliseconds(1)) {
        try #require(line == "ok", "\(line)")
        try slow.send("set 2 b")
      }
      // The slow process had claimed this one, and its error does not name the sync. The next one waits for the turn.
    } while answer == "ok" || answer.hasPrefix("error outcomeUnknown \(slow.processIdentifier) ")
    let pid = slow.processIdentifier
    #expect(answer.hasPrefix("error writerStalled \(pid) "), "\(answer)")
    #expect(answer.contains("a sync of the store had not ended"), "\(answer)")
    #expect(!answer.contains("kill") && !answer.contains("erminate"), "\(answer)")
    disk.release()
    try slow.expect("ok")
    try disk.order("set 3 d", of: other)
    #expect(try slow.ask("get 3") == "value d")
    for peer in [slow, other] { try peer.dismiss() }
  }

  @Test(
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(60)))
  func `The error of a write that waits for its own sync has no second process`() throws {
    let disk = try SlowDisk()
    let slow = try disk.peer("durable timeout=500")
    let other = try disk.peer("durable timeout=600000", isSlow: false)
    try disk.order("set 1 a", of: slow)
    // The other process writes all the time, and syncs for itself.
    var (answer, count) = ("ok", 0)
    for _ in 0..<50 where answer == "ok" {
      try disk.hold("/log-0")
      // The thread of the store commits it, and waits for the disk.
      try slow.order("behind 2 b")
      try slow.send("set 3 c")
      answer = ""
      let late = ContinuousClock.now + .seconds(3)
      while answer == "" {
        try other.order("set \(10 + count % 5) x")
        count += 1
        // The thread of the call may be the first to sync: it returns with the disk then, and not at its limit.
        if ContinuousClock.now > late { disk.release() }
        do { answer = try slow.nextLine(deadline: .milliseconds(1)) } catch {
          if error.code != .timedOut { throw error }
        }
      }
    }
    let pid = slow.processIdentifier
    // It was committed before the thread waited, and waits itself, or the thread was first.
    // Or each sync of the other process contained the commit: then there is no error.
    #expect(
      answer.hasPrefix("error writerStalled \(pid) ") || answer.hasPrefix("error outcomeUnknown ")
        || answer == "ok", "\(answer)")
    let numbers = answer.split { !$0.isNumber }
    #expect(!numbers.contains("\(other.processIdentifier)"), "\(answer)")
    if answer != "ok" { #expect(answer.contains("disk"), "\(answer)") }
    disk.release()
    #expect(try other.ask("get 2") == "value b")
    for peer in [slow, other] { try peer.dismiss() }
  }

  @Test(
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(60)))
  func `Closing waits for a slow sync, and loses no queued write`() throws {
    let disk = try SlowDisk()
    let slow = try disk.peer("durable timeout=200")
    let other = try disk.peer("durable timeout=600000", isSlow: false)
    try disk.order("set 1 a", of: slow)
    try disk.hold("/log-0")
    try slow.order("behind 2 b")
    try eventually("it is committed") { try other.ask("get 2") == "value b" }
    for key in 10..<60 { try slow.order("behind \(key) later") }
    try slow.send("close")
    // Many times its limit.
    let end = ContinuousClock.now + .seconds(3)
    repeat { try other.order("set 3 x") } while ContinuousClock.now < end
    disk.release()
    try slow.expect("ok")
    for key in 10..<60 { #expect(try other.ask("get \(key)") == "value later") }
    for peer in [slow, other] { try peer.dismiss() }
  }

  @Test(
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(60)))
  func `A file that grows because checkpoints are slow is not copied`() throws {
    let disk = try SlowDisk()
    let slow = try disk.peer("relaxed timeout=600000")
    try slow.order("set 1 a")
    try slow.order("sync")
    // That of the copy would be held up as well.
    try disk.hold("/data.mdb")
    // A copy would be made from 8 times 17 MB on, at one of the checks after each growth by a quarter.
    var count = 0
    while try TestFiles.size(disk.path + "/g-1/data.mdb") < 190 << 20 {
      for _ in 0..<20 { try slow.order("large \(count % 3) 100000") }
      count += 20
      try #require(count < 20_000, "The file does not grow.")
    }
    let current = try TestFiles.contents(of: disk.path + "/CURRENT")
    #expect(String(decoding: current, as: UTF8.self).contains(" g-1 "))
    disk.release()
    try slow.order("sync")
    try slow.order("checkpoint")
    #expect(try slow.ask("verify") == "sound")
    try slow.dismiss()
  }
}
