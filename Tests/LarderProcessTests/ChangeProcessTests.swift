// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Killed processes lose no increment that they acknowledged, and count none twice`() throws {
    let ground = try StoreFixture()
    let counters = PersistentCache<String, Int>(storage: ground.store, namespace: "counters")
    for round in 1...8 {
      let before = try counters.value(forKey: "n") ?? 0
      let peers = try (0..<3).map { _ in try ground.peer() }
      for peer in peers { try peer.send("increment n") }
      var seen: Set<Int> = []
      for peer in peers {
        for _ in 0..<(20 * round) {
          let line = try peer.nextLine()
          let number = try #require(line.split(separator: " ").last.flatMap { Int($0) })
          #expect(seen.insert(number).inserted, "\(number) was returned twice")
        }
      }
      let own = try counters.increment(forKey: "n")
      #expect(!seen.contains(own))
      for peer in peers { peer.kill() }
      let after = try counters.increment(forKey: "n")
      #expect(after >= before + seen.count + 2)
      let unseen = Set(before + 1...after).subtracting(seen)
      #expect(unseen.count == after - before - seen.count)
    }
    #expect(try ground.store.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)), arguments: [Durability.cache, .durable])
  func `Histories of changes by killed and restarted processes are linearizable`(
    durability: Durability
  ) throws {
    // Those of a durable store execute puts for each other.
    let seed = Seed.announce()
    let ground = try StoreFixture(StoreOptions(durability: durability))
    let histories = ground.directory.appending("histories")
    try TestFiles.makeDirectory(histories)
    let cache = PersistentCache<Int, UInt64>(storage: ground.store, namespace: "registers")
    for round in 0..<6 {
      let peers = try (0..<3).map { _ in try ground.peer("\(durability)") }
      for (index, peer) in peers.enumerated() {
        let part = seed.derived(UInt64(3 * round + index))
        try peer.send("exchange \(histories) \(part.value >> 2)")
      }
      try eventually("the processes have changed something") {
        try HistoryLog.operations(in: histories).count > 600 * (round + 1)
      }
      for peer in peers { peer.kill() }
      // Pending operations of the killed processes have taken effect or not.
      for key in 0..<6 { _ = try cache.value(forKey: key) }
    }
    let operations = try HistoryLog.operations(in: histories)
    #expect(operations.contains { $0.kind == .replacement && $0.old != 0 })
    #expect(operations.contains { $0.kind == .increment && $0.old != 0 })
    #expect(Linearizability.violations(searching: operations) == [], "\(seed)")
    #expect(try ground.store.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Of several processes that take a value one receives it`() throws {
    let ground = try StoreFixture()
    let tokens = PersistentCache<Int, Int>(storage: ground.store, namespace: "tokens")
    try tokens.setValues((0..<2000).map { (key: $0, value: $0) })
    let peers = try (0..<3).map { _ in try ground.peer() }
    for peer in peers { try peer.send("claim 0 2000") }
    var taken: [Int] = []
    for peer in peers {
      let words = try peer.nextLine().split(separator: " ")
      #expect(words.first == "claimed")
      taken += words.dropFirst().compactMap { Int($0) }
    }
    #expect(taken.count == 2000 && Set(taken) == Set(0..<2000))
    for peer in peers { try peer.dismiss() }
    #expect(try tokens.keys() == [])
  }
}
