// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  /// The size of a cache's file while readers keep freed pages.
  @Suite(.timeLimit(.minutes(60))) struct GrowthTests {
    private static let budget = 8 << 20
    private static let long: UInt64 = 300_000_000_000
    let ground: StoreFixture
    let wait: GrowthWait

    init() throws {
      // The limit of a write bounds the wait: no test reaches it.
      ground = try StoreFixture(
        StoreOptions(budget: .bytes(Self.budget), writeTimeout: .seconds(100_000)))
      wait = try ground.store.core.generation().growth.wait
    }

    private var fileBytes: Int { get throws { try ground.store.statistics().fileBytes } }

    /// Replaces values of a few hundred bytes, in transactions of ten.
    private func replace(_ transactions: Int, _ random: inout SeededRandom) throws {
      for _ in 0..<transactions {
        let writes = (0..<10).map { _ in
          (
            key: Int.random(in: 0..<64_000, using: &random),
            size: Int.random(in: 100...500, using: &random)
          )
        }
        try ground.store.write { transaction in
          for write in writes {
            try transaction.setBytes([UInt8](repeating: 7, count: write.size), forKey: write.key)
          }
        }
      }
    }

    @Test func `A writer waits for a reader before the file of a cache grows beyond its bound`()
      throws
    {
      let seed = Seed.announce()
      wait.setPatience(nanoseconds: Self.long)
      var random = seed.generator()
      try replace(6000, &random)
      let peer = try ground.peer()
      #expect(try peer.ask("pin") == "pinned")
      let waits = wait.count
      // Without the wait they would add a hundred megabytes and more.
      let writer = JoinableThread { [self] in
        Result {
          var random = seed.derived(1).generator()
          try replace(3000, &random)
        }
      }
      try eventually("the writer waits") { wait.count > waits }
      #expect(try fileBytes <= 3 * Self.budget)
      try peer.order("go on")
      try writer.join().get()
      let size = try fileBytes
      #expect(size <= 3 * Self.budget, "\(size)")
      #expect(try ground.store.verify() == [])
      try peer.dismiss()
    }

    @Test func `A reader that lasts longer is waited for once, and its writers go on`() throws {
      let seed = Seed.announce()
      wait.setPatience(nanoseconds: 1_000_000)
      var random = seed.generator()
      try replace(6000, &random)
      let peer = try ground.peer()
      for round in 1...2 {
        let waits = wait.count
        #expect(try peer.ask("pin") == "pinned")
        // The file has free pages first.
        while wait.count == waits { try replace(50, &random) }
        try replace(300, &random)
        // A background read that was suspended for several commits before may have been another one.
        #expect(wait.count <= waits + 2, "round \(round)")
        try peer.order("go on")
      }
      // The snapshot of a killed reader ends with the first check.
      wait.setPatience(nanoseconds: .max / 2)
      #expect(try peer.ask("pin") == "pinned")
      peer.kill()
      _ = try peer.wait()
      let waits = wait.count
      while wait.count == waits { try replace(50, &random) }
      #expect(try ground.store.verify() == [])
    }

    @Test
    func `Four writing processes and old readers keep the file below three budgets`()
      throws
    {
      wait.setPatience(nanoseconds: Self.long)
      let writers = try (0..<4).map { _ in try ground.peer("timeout=100000000") }
      let reader = try ground.peer()
      for (index, writer) in writers.enumerated() {
        try writer.order("patience \(Self.long)")
        try writer.send("churn \(index * 100_000) 20000")
      }
      let table = try ground.store.core.generation().table
      try eventually("they evict") { try ground.store.statistics().evictions > 20_000 }
      var largest = 0
      for _ in 0..<10 {
        #expect(try reader.ask("pin") == "pinned")
        // Enough for a hundred megabytes. Writers that wait do not get there.
        let goal = table.lastStamped + 3000
        let end = ContinuousClock.now + .milliseconds(500)
        while table.lastStamped < goal, ContinuousClock.now < end {
          largest = max(largest, try fileBytes)
        }
        try reader.order("go on")
      }
      for writer in writers { #expect(try writer.ask("stop").hasPrefix("churned ")) }
      largest = max(largest, try fileBytes)
      print("four processes: a file of \(largest) for \(Self.budget)")
      #expect(largest <= 3 * Self.budget)
      #expect(try ground.store.verify() == [])
      for peer in writers + [reader] { try peer.dismiss() }
    }
  }
}
