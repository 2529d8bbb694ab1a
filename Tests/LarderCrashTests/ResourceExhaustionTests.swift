// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// A store on which peers run short of something.
struct HungryStore {
  let scratch: Scratch
  let path: String

  init() throws {
    scratch = try Scratch()
    path = scratch.appending("store")
  }

  /// The command that starts the peer as a user that owns nothing.
  static let unprivileged = "exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\""

  /// Whether a peer can be run as another user here.
  static let canBeUnprivileged: Bool = {
    guard geteuid() == 0, let store = try? HungryStore() else { return false }
    return (try? store.run(unprivileged, ["exit"]).lines.count == 1) ?? false
  }()

  /// Runs commands in a peer that a shell starts after `preparation`.
  func run(_ preparation: String, _ commands: [String]) throws -> ChildProcess.Outcome {
    try ChildProcess.run(
      "/bin/bash", ["-c", "\(preparation)\nexec \"$0\"", TestExecutable.peer.path],
      input: ["open \(path)"] + commands)
  }

  func peer(_ options: String = "") throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    let answer = try peer.ask("open \(path) \(options)")
    if !answer.hasPrefix("opened ") { throw CrashHarness.UnexpectedOutcome(description: answer) }
    return peer
  }

  /// Returns the error in a starving peer's answers, or nil if every failure was a typed error and
  /// every value was right.
  static func complaint(
    _ outcome: ChildProcess.Outcome, values: Set<String>
  ) -> String? {
    if case .signalled = outcome.status { return "It \(outcome.status)." }
    for line in outcome.lines {
      let words = line.split(separator: " ").map(String.init)
      switch words.first {
      case "ok", "opened", "none": continue
      case "value" where values.contains(words[1]): continue
      case "error" where words.count > 3 && (Int(words[2]) != nil || words[1] == "open"): continue
      default: return "It said \"\(line)\"."
      }
    }
    return nil
  }
}

extension Crashes {
  @Test(.timeLimit(.minutes(60)))
  func `Without descriptors every failure is a typed error, and others continue`() throws {
    let store = try HungryStore()
    let witness = try store.peer()
    #expect(try witness.ask("set 1 one") == "ok")
    var (failures, successes) = (0, 0)
    for limit in 4...40 {
      let outcome = try store.run("ulimit -n \(limit)", ["get 1", "set 2 two", "get 1", "close"])
      if outcome.lines.isEmpty, case .exited = outcome.status { continue }  // Not even started.
      #expect(
        HungryStore.complaint(outcome, values: ["one"]) == nil,
        "\(limit) descriptors: \(outcome.lines)")
      if outcome.output.contains("error") { failures += 1 } else { successes += 1 }
      #expect(try witness.ask("get 1") == "value one")
      #expect(try witness.ask("set 3 \(limit)") == "ok")
    }
    #expect(failures > 2 && successes > 2)
    #expect(try witness.ask("verify") == "sound")
  }

  @Test(.timeLimit(.minutes(60)))
  func `Opened without descriptors, and alone, a durable store keeps what it has`() throws {
    let store = try HungryStore()
    let options = "open \(store.path) durable"
    let maker = try ChildProcess.run(
      TestExecutable.peer.path, [], input: [options, "set 1 one", "compact", "set 2 two", "close"])
    #expect(!maker.output.contains("error"), "\(maker.lines)")
    // The second generation: a process that takes it for missing would create the first again.
    let generation = try StorePaths(store.path).generation
    #expect(generation.hasSuffix("/g-2"), "\(maker.lines)")
    var (failures, successes) = (0, 0)
    for limit in 4...40 {
      let outcome = try ChildProcess.run(
        "/bin/bash", ["-c", "ulimit -n \(limit)\nexec \"$0\"", TestExecutable.peer.path],
        input: [options, "get 1", "set 3 three", "close"])
      if outcome.lines.isEmpty, case .exited = outcome.status { continue }  // Not even started.
      #expect(
        HungryStore.complaint(outcome, values: ["one"]) == nil,
        "\(limit) descriptors: \(outcome.lines)")
      if outcome.output.contains("error") { failures += 1 } else { successes += 1 }
      let judge = try store.peer("durable")
      #expect(try judge.ask("get 1") == "value one", "\(limit) descriptors")
      #expect(try judge.ask("get 2") == "value two", "\(limit) descriptors")
      #expect(try judge.ask("verify") == "sound", "\(limit) descriptors")
      #expect(try judge.ask("close") == "ok")
    }
    #expect(failures > 2 && successes > 2)
  }

  @Test(.timeLimit(.minutes(60)), arguments: [false, true])
  func `A limit on the size of files gives typed errors, wherever it is met`(
    isThere: Bool
  ) throws {
    var failures = 0
    for kilobytes in [0, 1, 4, 8, 32, 64, 256, 260, 1000, 1380, 1384, 1500, 2000, 3000] {
      let store = try HungryStore()
      let witness = try isThere ? store.peer() : nil
      _ = try witness?.ask("set 1 one")
      let outcome = try store.run(
        "ulimit -f \(kilobytes)", ["set 1 one", "large 2 400000", "large 3 400000", "get 1"])
      #expect(
        HungryStore.complaint(outcome, values: ["one"]) == nil,
        "\(kilobytes) kB: \(outcome.lines)")
      if outcome.output.contains("error") { failures += 1 }
      let judge = try witness ?? store.peer()
      #expect(try judge.ask("set 4 four") == "ok")
      #expect(try judge.ask("verify") == "sound")
      #expect(try judge.ask("get 4") == "value four")
    }
    #expect(failures > 5)
  }

  /// LMDB's reader table (format: ReaderSlots.swift): takes every free slot in the name of `pid`.
  private func takeAllSlots(_ lockFile: String, pid: Int32) throws {
    var bytes = try TestFiles.contents(of: lockFile)
    let (header, slot) = (128, 64)
    for offset in stride(from: header, to: bytes.count, by: slot)
    where bytes[(offset + 8)..<(offset + 12)].allSatisfy({ $0 == 0 }) {
      for index in 0..<8 { bytes[offset + index] = 0xff }
      for index in 0..<4 {
        bytes[offset + 8 + index] = UInt8(truncatingIfNeeded: pid >> (8 * index))
      }
      bytes[offset + 16] = 1
      try TestFiles.overwrite(Array(bytes[offset..<(offset + 24)]), at: offset, in: lockFile)
    }
    let count = UInt32((bytes.count - header) / slot)
    let number = (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * UInt32($0))) }
    try TestFiles.overwrite(number, at: 56, in: lockFile)
  }

  @Test(.timeLimit(.minutes(60)))
  func `With every reader slot taken newcomers are refused, and when the holder dies they are not`()
    throws
  {
    let store = try HungryStore()
    let witness = try store.peer()
    #expect(try witness.ask("set 1 one") == "ok")
    #expect(try witness.ask("dump 0 5") == "dump 1=one")
    let hog = try store.peer()
    try takeAllSlots(StorePaths(store.path).lock, pid: hog.processIdentifier)
    let outcome = try store.run("true", ["get 1", "set 2 two"])
    #expect(HungryStore.complaint(outcome, values: ["one"]) == nil, "\(outcome.lines)")
    #expect(outcome.lines.first?.hasPrefix("error system ") == true, "\(outcome.lines)")
    // A process with a slot continues.
    #expect(try witness.ask("set 1 two") == "ok")
    #expect(try witness.ask("dump 0 5") == "dump 1=two")
    hog.kill()
    try hog.wait()
    let newcomer = try store.peer()
    #expect(try newcomer.ask("get 1") == "value two")
    #expect(try newcomer.ask("set 1 three") == "ok")
    #expect(try witness.ask("get 1") == "value three")
    #expect(try newcomer.ask("verify") == "sound")
  }

  @Test(
    .enabled(
      if: SmallFileSystem.isAvailable, "file systems cannot be mounted here (root on Linux can)"),
    .timeLimit(.minutes(60)))
  func `On a read-only file system the error is typed and others continue`()
    throws
  {
    let store = try HungryStore()
    let witness = try store.peer()
    #expect(try witness.ask("set 1 one") == "ok")
    let view = store.scratch.appending("view")
    try TestFiles.makeDirectory(view)
    let mounted = try ChildProcess.run("/bin/mount", ["--bind", store.path, view])
    try #require(mounted.status.isSuccess, "\(mounted.standardError)")
    defer { _ = try? ChildProcess.run("/bin/umount", ["-l", view]) }
    let remounted = try ChildProcess.run("/bin/mount", ["-o", "remount,bind,ro", view])
    try #require(remounted.status.isSuccess)
    let before = try TestFiles.names(in: StorePaths(store.path).generation)
    for options in ["", "durable"] {
      let peer = try TestExecutable.peer.start()
      let answer = try peer.ask("open \(view) \(options)")
      #expect(answer.hasPrefix("error "), "\(answer)")
      if answer.hasPrefix("error durability") {
        #expect(options == "durable")
      } else {
        #expect(answer.contains("The file system is read-only"), "\(answer)")
        #expect(!answer.contains("mode 0700"), "\(answer)")
      }
    }
    #expect(try TestFiles.names(in: StorePaths(store.path).generation) == before)
    #expect(try witness.ask("set 1 two") == "ok")
    #expect(try witness.ask("verify") == "sound")
  }

  @Test(
    .enabled(
      if: HungryStore.canBeUnprivileged,
      "peers cannot be run as another user here (root with setpriv can)"), .timeLimit(.minutes(60)))
  func `Files that may not be written give typed errors, and a store again once they may`()
    throws
  {
    let store = try HungryStore()
    let unprivileged = HungryStore.unprivileged
    try TestFiles.makeDirectory(store.path)
    let give = try ChildProcess.run("/bin/chown", ["-R", "65534", store.scratch.path])
    try #require(give.status.isSuccess)
    TestFiles.removeAll(store.path + "/v1")
    let script = ["set 1 one", "get 1", "close"]
    #expect(try store.run(unprivileged, script).lines == ["opened 1", "ok", "value one", "ok"])
    let files = try StorePaths(store.path)
    let names =
      TestFiles.names(in: files.generation).map { files.generation + "/" + $0 }
      + [files.root + "/gate", files.root + "/CURRENT", files.root, files.generation]
    for name in names {
      // A cache that could not access its file may have started empty, in another directory.
      for mode in [0o400, 0o500, 0o000] where TestFiles.exists(name) {
        let before = try TestFiles.mode(name)
        try TestFiles.setMode(mode, of: name)
        let outcome = try store.run(unprivileged, script)
        #expect(HungryStore.complaint(outcome, values: ["one"]) == nil, "\(name): \(outcome.lines)")
        if TestFiles.exists(name) { try TestFiles.setMode(before, of: name) }
      }
    }
    #expect(try store.run(unprivileged, script).lines.dropFirst() == ["ok", "value one", "ok"])
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(60)))
  func `A process behind a stopped opener times out, and opens once that is killed`()
    throws
  {
    let store = try HungryStore()
    let witness = try store.peer()
    let environment = ["LARDER_FAULTS": "openGateTaken:stop@1"]
    let stopped = try TestExecutable.peer.start(environment: environment)
    try stopped.send("open \(store.path)")
    try stopped.waitUntilStopped()
    let newcomer = try TestExecutable.peer.start()
    let answer = try newcomer.ask("open \(store.path) wait=300")
    #expect(answer.hasPrefix("error openTimeout "), "\(answer)")
    #expect(try witness.ask("set 1 one") == "ok")
    try newcomer.send("open \(store.path) wait=600000")
    stopped.kill()
    #expect(try newcomer.nextLine().hasPrefix("opened "))
    #expect(try newcomer.ask("get 1") == "value one")
    #expect(try newcomer.ask("verify") == "sound")
  }
}
