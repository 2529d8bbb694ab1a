// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The state that the processes of a store share about each other.
extension Processes {
  /// Whatever changes when something is written to the data file.
  private struct DataState: Equatable {
    let changed: UInt64
    let transaction: UInt64
    let commits: Int

    init(_ ground: StoreFixture) throws {
      let data = ground.path + "/v1/g-1/data.mdb"
      changed = try #require(try FileSystem.status(of: data)).changed
      transaction = try ground.store.core.generation().information().lastTransaction
      commits = try ground.store.statistics().commits
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Reads of any process count for eviction, and none writes to the database`() throws {
    // Room for 400 entries of 256 bytes.
    let ground = try StoreFixture(StoreOptions(budget: .bytes(400 * 256)))
    let peer = try ground.peer()
    let text = String(repeating: "x", count: 256 - 64 - 8)
    let fresh = String(repeating: "y", count: 256 - 64 - 8)
    for key in 0..<400 { try ground.numbers.setValue(text, forKey: key) }
    #expect(try ground.store.statistics().entries == 400)
    ground.numbers.clearMemoryCache()
    let before = try DataState(ground)
    // The oldest entries: 15 by the other process, 15 by this one; first from the file, then from
    // memory.
    for round in 0..<35 {
      for key in 0..<15 { #expect(try peer.ask("get \(key)") == "value \(text)", "\(round)") }
      for key in 15..<30 { #expect(ground.numbers[key] == text) }
    }
    #expect(try DataState(ground) == before)
    // Half of the entries are removed, and no process reads during that time.
    for key in 1000..<1200 { try ground.numbers.setValue(fresh, forKey: key) }
    #expect(try ground.store.statistics().evictions == 200)
    ground.numbers.clearMemoryCache()
    for keys in [0..<15, 15..<30] {
      let kept = try keys.filter { try ground.numbers.contains($0) }.count
      #expect(kept >= 13, "of \(keys)")
    }
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `The counters of all processes add up, also of those that are gone`() throws {
    let ground = try StoreFixture()
    let before = try ground.store.statistics()
    let peers = try (0..<3).map { _ in try ground.peer() }
    for (index, peer) in peers.enumerated() {
      for key in 0..<10 { try peer.order("set \(index * 100 + key) v") }
      for key in 0..<20 { _ = try peer.ask("get missing-\(key)") }
      for key in 0..<5 { #expect(try peer.ask("remove \(index * 100 + key)") == "removed") }
    }
    func expectSums(misses: Int) throws {
      let now = try ground.store.statistics()
      #expect(now.sets - before.sets == 30)
      #expect(now.removals - before.removals == 15)
      #expect(now.misses - before.misses == misses)
      #expect(now.entries == 15)
      #expect(now.namespaces.first?.entries == 15)
    }
    try expectSums(misses: 60)
    try peers[0].dismiss()
    peers[1].kill()
    _ = try peers[1].wait()
    try expectSums(misses: 60)
    // A newcomer takes a slot again.
    let newcomer = try ground.peer()
    for key in 0..<7 { _ = try newcomer.ask("get missing-\(key)") }
    try expectSums(misses: 67)
    // Memory hits are recorded in batches of 64.
    let hits = try ground.store.statistics()
    ground.numbers[1_000_000] = "kept"
    try ground.store.sync()
    for _ in 0..<641 { #expect(ground.numbers[1_000_000] == "kept") }
    let added = try ground.store.statistics().memoryHits - hits.memoryHits
    #expect(added >= 576 && added <= 641, "\(added)")
    for peer in [peers[2], newcomer] { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A process killed in a read is not among those present and pins nothing`() throws {
    let ground = try StoreFixture()
    let reader = try ground.peer()
    let pid = reader.processIdentifier
    try ground.numbers.setValue("v", forKey: 1)
    #expect(try reader.ask("pin") == "pinned")
    for key in 0..<10 { try ground.numbers.setValue("v", forKey: key) }
    let found = try #require(try ground.store.statistics().oldestReader)
    #expect(found.pid == pid && found.pinnedBytes > 0 && found.transactionsBehind == 10)
    #expect(try ground.store.statistics().processes.contains(pid))
    reader.kill()
    _ = try reader.wait()
    #expect(try !ground.store.statistics().processes.contains(pid))
    // Its slot becomes free, though no process opens or closes.
    try eventually("no reader is left") {
      try ground.store.statistics().oldestReader == nil
    }
    let readers = try ground.store.core.generation().readers()
    #expect(!readers.contains { $0.pid == pid })
  }

  @Test(.enabled(if: hasTools, needsTools), .timeLimit(.minutes(60)))
  func `The tool names a process that is stopped in a read, and what it pins`() throws {
    let ground = try StoreFixture()
    let reader = try ground.peer()
    try ground.numbers.setValue("v", forKey: 1)
    #expect(try reader.ask("pin") == "pinned")
    for key in 0..<10 { try ground.numbers.setValue("v", forKey: key) }
    try reader.stop()
    let outcome = try ChildProcess.run(
      try TestExecutable.tool.path, ["stat", "--store", ground.path])
    let line = outcome.lines.first { $0.hasPrefix("oldest reader") } ?? ""
    #expect(line.contains("process \(reader.processIdentifier) (stopped), for "), "\(outcome)")
    #expect(line.contains("10 commits behind, keeps ") && line.contains("KiB"), "\(line)")
    let json = try ChildProcess.run(
      try TestExecutable.tool.path, ["stat", "--json", "--store", ground.path])
    #expect(json.output.contains("\"pinnedBytes\""), "\(json.output)")
    reader.kill()
  }

  @Test(.timeLimit(.minutes(60)))
  func `The slot of a killed reader is free again with the next opening`() throws {
    let ground = try StoreFixture()
    let reader = try ground.peer()
    try ground.numbers.setValue("v", forKey: 1)
    #expect(try reader.ask("pin") == "pinned")
    reader.kill()
    _ = try reader.wait()
    let newcomer = try ground.peer()
    let readers = try ground.store.core.generation().readers()
    #expect(!readers.contains { $0.pid == reader.processIdentifier })
    try newcomer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `What one process clears no other serves from memory`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    for round in 0..<50 {
      for key in 0..<5 { try ground.numbers.setValue("v\(round)", forKey: key) }
      for key in 0..<5 {
        for _ in 0..<2 { #expect(try peer.ask("get \(key)") == "value v\(round)") }
      }
      switch round % 3 {
      case 0: try ground.numbers.removeAll()
      case 1: try ground.store.removeAll()
      default: for key in 0..<5 { try ground.numbers.removeValue(forKey: key) }
      }
      for key in 0..<5 { #expect(try peer.ask("get \(key)") == "none", "round \(round)") }
    }
    #expect(try peer.ask("count") == "0")
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A fenced generation is left by every process and nothing of it is served`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<3).map { _ in try ground.peer() }
    for round in 1...10 {
      try ground.numbers.setValue("v\(round)", forKey: 1)
      for peer in peers {
        for _ in 0..<2 { #expect(try peer.ask("get 1") == "value v\(round)") }
      }
      let old = try ground.store.core.generation()
      let data = try TestFiles.contents(of: old.path + "/data.mdb")
      old.table.fence()
      #expect(try peers[round % 3].ask("get 1") == "none")
      // Nothing is repaired in place: the old files are as they were, or gone.
      if TestFiles.exists(old.path + "/data.mdb") {
        #expect(try TestFiles.contents(of: old.path + "/data.mdb") == data)
      }
      #expect(ground.numbers[1] == nil)
      try peers[0].order("set 2 after \(round)")
      for peer in peers {
        #expect(try peer.ask("get 1") == "none")
        #expect(try peer.ask("get 2") == "value after \(round)")
      }
      #expect(ground.numbers[2] == "after \(round)")
      #expect(try ground.store.core.generation().number == UInt64(round) + 1)
    }
    #expect(try ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  #if os(Linux)
  @Test(
    .enabled(if: hasTools, needsTools), .enabled(if: canUnshare, needsNamespaces),
    .timeLimit(.minutes(60)))
  func `Another PID namespace gets a separate store and an event`() throws {
    let ground = try StoreFixture()
    let tool = try TestExecutable.tool.path
    func away(_ arguments: String...) throws -> ChildProcess.Outcome {
      try ChildProcess.run(
        "unshare", ["--pid", "--fork", tool] + arguments + ["--store", ground.path])
    }
    try ground.store.setBytes([1], forKey: "ours")
    let set = try away("set", "k", "theirs")
    #expect(set.status.isSuccess, "\(set)")
    let said = set.standardError.split(separator: "\n").filter {
      $0.contains("another PID namespace")
    }
    #expect(said.count == 1, "\(set.standardError)")
    let separate = TestFiles.names(in: ground.path + "/v1").filter { $0.hasPrefix("ns-") }
    #expect(separate.count == 1)
    #expect(TestFiles.exists("\(ground.path)/v1/\(separate.first ?? "")/g-1/data.mdb"))
    #expect(try ground.store.bytes(forKey: "k") == nil)
    #expect(try ground.store.bytes(forKey: "ours") == [1])
    #expect(try ground.store.verify() == [])
    // Once no process of this namespace has the main store open, the other namespace may use it.
    ground.store.close()
    let get = try away("get", "k")
    #expect(get.status == .exited(1), "\(get)")
    #expect(!get.standardError.contains("another PID namespace"), "\(get)")
  }
  #endif
}
