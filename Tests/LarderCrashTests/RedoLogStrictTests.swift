// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// A store of two processes, and a copy of its files that is opened as after a crash of the system.
private struct CrashableStore {
  private let scratch: Scratch
  private let path: String
  private let durability: String
  private let before: SystemBoot
  private let after: SystemBoot

  init(_ durability: String) throws {
    scratch = try Scratch()
    path = scratch.appending("store")
    self.durability = durability
    before = try SystemBoot()
    after = try SystemBoot("22222222-2222-4333-8444-555555555555")
  }

  /// Starts a process that has the store open.
  func peer(_ faults: String? = nil) throws -> ChildProcess {
    var environment = before.environment
    environment["LARDER_FAULTS"] = faults
    let peer = try TestExecutable.peer.start(environment: environment)
    #expect(
      try peer.ask("open \(path) \(durability)").hasPrefix("opened"))
    return peer
  }

  private func size(_ isLarge: Bool) -> Int { isLarge ? 6_000_000 : 10 }

  func commit(_ name: String, _ peer: ChildProcess, isLarge: Bool = false) throws -> String {
    try peer.ask("commit \(name) \(size(isLarge))")
  }

  /// Sends commands to a process that is killed in the first one.
  func die(_ name: String, _ peer: ChildProcess, isLarge: Bool = false) throws {
    peer.sendAll(["commit \(name) \(size(isLarge))", "checkpoint"])
    _ = try peer.remainingLines()
    _ = try peer.wait()
  }

  /// The commits that a process finds after a crash of the system now, if the disk has what was written.
  ///
  /// Whether it was synced is tested where the power is cut, as in `ConcurrentPowerCutTests.swift`.
  func recovered() throws -> [String] {
    let copy = scratch.appending("copy")
    TestFiles.removeAll(copy)
    #expect(try ChildProcess.run("/bin/cp", ["-a", path, copy]).status.isSuccess)
    let judge = try TestExecutable.peer.start(environment: after.environment)
    #expect(
      try judge.ask("open \(copy) \(durability)").hasPrefix("opened"))
    #expect(try judge.ask("verify") == "sound")
    let answer = try judge.ask("history")
    return answer.split(separator: " ").dropFirst().map(String.init)
  }
}

private let needsFaultsAndShims: Comment = "needs fault points and preload shims"

extension PowerCuts {
  @Test(
    .enabled(if: hasFaults && PreloadShim.isAvailable, needsFaultsAndShims),
    .timeLimit(.minutes(60)), arguments: ["durable", "strict"],
    ["afterCommit:kill@1", "logCommitted:kill@1"])
  func `A commit after a large one of a killed process is in the log when it returns`(
    durability: String, fault: String
  ) throws {
    let store = try CrashableStore(durability)
    let other = try store.peer()
    #expect(try store.commit("b 0", other) == "ack b 0")
    try store.die("a 0", store.peer(fault), isLarge: true)
    #expect(try store.commit("b 1", other) == "ack b 1")
    #expect(try store.recovered() == ["b.0", "a.0", "b.1"])
    #expect(try other.ask("verify") == "sound")
  }

  @Test(
    .enabled(if: hasFaults && PreloadShim.isAvailable, needsFaultsAndShims),
    .timeLimit(.minutes(60)), arguments: ["durable", "strict"])
  func `A first commit that is killed before its checkpoint leaves the log to the next`(
    durability: String
  ) throws {
    for point in ["syncBegun", "beforeRecord", "afterRecord", "logWritten", "logSynced"] {
      let store = try CrashableStore(durability)
      let other = try store.peer()
      try store.die("a 0", store.peer("\(point):kill@1"))
      for index in 0..<2 {
        #expect(try store.commit("b \(index)", other) == "ack b \(index)")
      }
      #expect(try store.recovered().suffix(2) == ["b.0", "b.1"], "\(point)")
      #expect(try other.ask("verify") == "sound", "\(point)")
    }
  }

  @Test(
    .enabled(if: hasFaults && PreloadShim.isAvailable, needsFaultsAndShims),
    .timeLimit(.minutes(60)))
  func `A first commit whose checkpoint fails leaves the log to the next`() throws {
    let store = try CrashableStore("strict")
    let peer = try store.peer("beforeRecord:error=28@1")
    #expect(try store.commit("a 0", peer).hasPrefix("error"))
    #expect(try store.commit("a 1", peer) == "ack a 1")
    #expect(try store.commit("a 2", peer) == "ack a 2")
    #expect(try store.recovered() == ["a.1", "a.2"])
  }

  @Test(
    .enabled(if: hasFaults && PreloadShim.isAvailable, needsFaultsAndShims),
    .timeLimit(.minutes(60)), arguments: [true, false])
  func `A record of a killed process makes no other commit durable`(isLarge: Bool) throws {
    let store = try CrashableStore("strict")
    let other = try store.peer()
    #expect(try store.commit("b 0", other) == "ack b 0")
    try store.die("a 0", store.peer("logSynced:kill@1"))
    #expect(try other.ask("verify") == "sound")
    #expect(try store.commit("b 1", other, isLarge: isLarge) == "ack b 1")
    #expect(try store.recovered() == ["b.0", "b.1"])
    #expect(try other.ask("verify") == "sound")
  }
}
