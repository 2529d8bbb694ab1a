// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension Processes {
  /// Returns a directory where each computation leaves a file, so that those of killed processes
  /// count too.
  private func log(_ ground: StoreFixture, _ name: String) throws -> String {
    let path = ground.directory.appending(name)
    try TestFiles.makeDirectory(path)
    return path
  }

  @Test(.timeLimit(.minutes(60)))
  func `Eight processes of four tasks each compute a key once`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<8).map { _ in try ground.peer() }
    for key in 0..<50 {
      let log = try log(ground, "log-\(key)")
      for (index, peer) in peers.enumerated() { try peer.send("compute \(key) by-\(index) \(log)") }
      let answers = try peers.map { try $0.nextLine() }
      let winner = try #require(answers.firstIndex { $0.hasPrefix("computed 1 ") }, "\(answers)")
      for (index, answer) in answers.enumerated() {
        #expect(answer == "computed \(index == winner ? 1 : 0) by-\(winner)", "\(answers)")
      }
      #expect(TestFiles.names(in: log).count == 1)
      #expect(ground.numbers[key] == "by-\(winner)")
    }
    #expect(try ground.store.statistics().computations == 50)
    #expect(try ground.store.statistics().rejectedFills == 0)
    #expect(try ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A computation waits for a writer without a file descriptor`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    let answer = try ground.store.write { transaction in
      try transaction.setBytes([1], forKey: "of the writer")
      return try peer.ask("starve 1 computed")
    }
    #expect(answer == "value computed")
    #expect(try ground.store.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `When the process that computes is killed another takes over at once`() throws {
    let ground = try StoreFixture()
    let others = try (0..<3).map { _ in try ground.peer("compute=3600000") }
    for key in 0..<10 {
      let log = try log(ground, "log-\(key)")
      let holder = try ground.peer()
      #expect(try holder.ask("compute \(key) never \(log) held") == "computing")
      for (index, peer) in others.enumerated() {
        try peer.send("compute \(key) by-\(index) \(log)")
      }
      // They only wait; a read by this process finds nothing during that time.
      #expect(ground.numbers[key] == nil)
      holder.kill()
      // Their own time limit is an hour.
      let answers = try others.map { try $0.nextLine() }
      #expect(try holder.wait() == .signalled(SIGKILL))
      let value = try #require(ground.numbers[key])
      #expect(answers.filter { $0 == "computed 1 \(value)" }.count == 1, "\(answers)")
      #expect(answers.filter { $0 == "computed 0 \(value)" }.count == 2, "\(answers)")
      #expect(TestFiles.names(in: log).count == 2)
    }
    #expect(try ground.store.verify() == [])
    for peer in others { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A computation keeps its result during ten thousand writes to other keys`() throws {
    let ground = try StoreFixture()
    let flood = try ground.peer()
    let peers = try (0..<2).map { _ in try ground.peer("compute=3600000") }
    var written = 0
    for key in 0..<5 {
      let log = try log(ground, "log-\(key)")
      try flood.send("churn 1000000 5000 behind")
      #expect(try peers[0].ask("compute \(key) by-0 \(log) held") == "computing")
      try peers[1].send("compute \(key) by-1 \(log)")
      // It ends when ten thousand writes have been committed since it began.
      let before = try ground.store.statistics().sets
      try eventually("ten thousand writes") {
        try ground.store.statistics().sets >= before + 10_000
      }
      try peers[0].send("go")
      #expect(try peers[0].nextLine() == "computed 1 by-0")
      #expect(try peers[1].nextLine() == "computed 0 by-0")
      #expect(TestFiles.names(in: log).count == 1)
      #expect(ground.numbers[key] == "by-0")
      let churned = try flood.numbers("stop", "churned")
      #expect(churned[1] == 0)
      written += churned[0]
      print("flood: \(churned[0]) writes in \(churned[2]) ms")
    }
    let statistics = try ground.store.statistics()
    #expect(statistics.rejectedFills == 0 && statistics.computations == 5)
    #expect(statistics.sets <= written + 5)
    #expect(try ground.store.verify() == [])
    for peer in peers + [flood] { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A computation is seen elsewhere after the file of leases was deleted`() async throws {
    let ground = try StoreFixture()
    let log = try log(ground, "log")
    // This process has the file open from here on.
    _ = try await ground.numbers.value(forKey: 1) { "mine" }
    TestFiles.removeAll(ground.store.core.directory.leases)
    let peer = try ground.peer()
    #expect(try peer.ask("compute 2 theirs \(log) held") == "computing")
    let space = try ground.store.namespace("").space
    #expect(try ground.store.core.isLeaseHeldElsewhere(EncodedKey(2), in: space))
    try peer.send("go")
    #expect(try peer.nextLine() == "computed 1 theirs")
    // The value may be there a moment before the computation has ended.
    try await awaitEventually("the lease is free") {
      try !ground.store.core.isLeaseHeldElsewhere(EncodedKey(2), in: space)
    }
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A caller of a stopped computation gets an error that names process and key`() async throws {
    let ground = try StoreFixture()
    let cache = PersistentCache<Int, String>(
      storage: ground.store, options: CacheOptions(computeTimeout: .milliseconds(300)))
    let log = try log(ground, "log")
    let holder = try ground.peer()
    #expect(try holder.ask("compute 7 theirs \(log) held") == "computing")
    try holder.stop()
    let misses = try ground.store.statistics().misses
    for _ in 0..<2 {
      let error = await #expect(throws: StoreError.self) {
        try await cache.value(forKey: 7) { "mine" }
      }
      #expect(error?.code == .computationStalled && error?.pid == holder.processIdentifier)
      #expect(error?.message.contains("key 7") == true, "\(error?.message ?? "")")
    }
    // A caller that is cancelled does not wait for its time.
    let patient = PersistentCache<Int, String>(
      storage: ground.store, options: CacheOptions(computeTimeout: .seconds(3600)))
    let task = Task { try await patient.value(forKey: 7) { "mine" } }
    try await awaitEventually("the task reads") {
      try ground.store.statistics().misses == misses + 3
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    // One of each call, however often it has looked for the result.
    #expect(try ground.store.statistics().misses == misses + 3)
    holder.continue()
    try holder.send("go")
    #expect(try holder.nextLine() == "computed 1 theirs")
    #expect(try await patient.value(forKey: 7) { "mine" } == "theirs")
    try holder.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `Computations of two processes that wait for each other end with the time limit`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<2).map { _ in try ground.peer("compute=500") }
    #expect(try peers[0].ask("cross 1 2") == "computing")
    #expect(try peers[1].ask("cross 2 1") == "computing")
    for peer in peers { try peer.send("go") }
    let answers = try peers.map { try $0.nextLine() }
    // The first whose time is up fails, and the other one gets what it waits for, or fails as well.
    let failed = answers.filter { $0.hasPrefix("error computationStalled ") }
    #expect(!failed.isEmpty, "\(answers)")
    for answer in failed {
      let pids = peers.map { "\($0.processIdentifier)" }
      #expect(pids.contains(String(answer.split(separator: " ")[2])), "\(answer)")
    }
    for peer in peers { try peer.dismiss() }
  }
}
