// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderLMDB
import LarderSystem
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

/// Waiting for the write of another process or thread: it ends in time, and names the process.
@Suite(.timeLimit(.minutes(60))) struct WriterTurnTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  var path: String { directory.path }

  /// Opens the environment, and stops a process inside a write of it.
  func openBehindStopped(
    _ writeTimeout: Duration
  ) throws -> (Environment, Table, ChildProcess) {
    let environment = try Environment(at: path, .init(mapSize: 1 << 26, writeTimeout: writeTimeout))
    let table = try environment.table("words")
    let peer = try TestExecutable.peer.start()
    try #require(try peer.ask("lmdb open \(path)") == "opened")
    try #require(try peer.ask("lmdb hold") == "holding")
    try peer.stop()
    return (environment, table, peer)
  }

  @Test func `A write that waits for a stopped process times out and names it`() throws {
    let (environment, table, peer) = try openBehindStopped(.milliseconds(200))
    let pid = peer.processIdentifier
    func expectStalled(_ body: () throws -> Void) {
      let error = #expect(throws: LMDBError.self) { try body() }
      #expect(error?.code == .writerStalled && error?.pid == pid, "\(String(describing: error))")
      #expect(error.map { "\($0)".contains("process \(pid) ") } == true)
    }
    expectStalled {
      try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
    }
    expectStalled { _ = try environment.table("others") }
    expectStalled { _ = try environment.verify() }
    // Reads do not wait, and nothing was written.
    #expect(try environment.withReadTransaction { try $0.bytes(forKey: "a", in: table) } == nil)
    try peer.send("go on")
    peer.continue()
    #expect(try peer.nextLine() == "ok")
    try environment.withWriteTransaction { try $0.put("2", forKey: "a", in: table) }
    #expect(try peer.ask("lmdb get a") == "value 2")
    try environment.close()
    try peer.send("exit")
    #expect(try peer.wait().isSuccess)
  }

  @Test func `A write that waits for a stopped process continues when that is killed`() throws {
    let (environment, table, peer) = try openBehindStopped(.seconds(600))
    let writer = JoinableThread {
      Result { try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) } }
    }
    peer.kill()
    try writer.join().get()
    #expect(
      try environment.withReadTransaction { try $0.bytes(forKey: "held", in: table) } == nil)
    #expect(try environment.verify().isSound)
  }

  @Test func `A cancelled task stops waiting for its turn and writes nothing`() async throws {
    let (environment, table, peer) = try openBehindStopped(.seconds(600))
    let write = Task {
      try await environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
    }
    write.cancel()
    await #expect(throws: CancellationError.self) { try await write.value }
    peer.kill()
    try await environment.withWriteTransaction { try $0.put("2", forKey: "b", in: table) }
    #expect(try environment.withReadTransaction { try $0.bytes(forKey: "a", in: table) } == nil)
  }

  @Test func `Closing during a transaction that does not end times out`() throws {
    let environment = try Environment(
      at: path, .init(mapSize: 1 << 26, writeTimeout: .milliseconds(100)))
    let table = try environment.table("words")
    for isWrite in [true, false] {
      let (begun, end) = (Event(), Event())
      let thread = JoinableThread {
        Result {
          func hold() {
            begun.set()
            end.wait()
          }
          if isWrite {
            try environment.withWriteTransaction { _ in hold() }
          } else {
            try environment.withReadTransaction { _ in hold() }
          }
        }
      }
      begun.wait()
      let error = #expect(throws: LMDBError.self) { try environment.close() }
      #expect(error?.code == .writerStalled && error?.pid == ProcessIdentity.pid)
      if isWrite {
        let error = #expect(throws: LMDBError.self) {
          try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
        }
        #expect(error?.code == .writerStalled && error?.pid == ProcessIdentity.pid)
      }
      end.set()
      try thread.join().get()
      // It is open as before.
      try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
    }
    try environment.close()
  }

  @Test func `Opening and closing at a held gate name its process`() throws {
    let environment = try Environment(
      at: path, .init(mapSize: 1 << 26, openTimeout: .milliseconds(50)))
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("lmdb gate \(path)") == "gated")
    let error = #expect(throws: LMDBError.self) { try environment.close() }
    #expect(error?.code == .openTimeout && error?.pid == peer.processIdentifier)
    peer.kill()
    _ = try peer.wait()
    try environment.close()
  }
}
