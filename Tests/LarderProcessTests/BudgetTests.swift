// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  /// Returns the value of a key, a `PeerText` for the peers.
  private func text(of key: Int, version: Int) -> String {
    String(repeating: "\(key).\(version);", count: 20 + version % 30)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Four processes fill one budget and no process ever sees more than it`() throws {
    let budget = 200_000
    let ground = try StoreFixture(StoreOptions(budget: .bytes(budget)))
    let peers = try (0..<4).map { _ in try ground.peer() }
    for (index, peer) in peers.enumerated() {
      try peer.send("fill \(index * 10_000) \(index * 10_000 + 1000) 1000")
    }
    // The fifth process reads until all four have reported.
    let waiting = JoinableThread {
      Result { try peers.map { try $0.nextLine() } }
    }
    let observer = JoinableThread { [store = ground.store] in
      Result {
        var most = 0
        while try store.statistics().evictions < 3000 {
          most = max(most, try store.statistics().bytes)
        }
        most = max(most, try store.statistics().bytes)
        return most
      }
    }
    let answers = try waiting.join().get()
    let seen = try observer.join().get()
    #expect(seen <= budget && seen > budget * 9 / 10)
    for answer in answers {
      let most = try #require(Int(answer.dropFirst("filled ".count)), "\(answer)")
      #expect(most <= budget && most > budget * 9 / 10)
    }
    let statistics = try ground.store.statistics()
    #expect(statistics.evictions == 4000 - statistics.entries)
    #expect(statistics.bytes <= budget)
    for peer in peers { #expect(try peer.ask("bytes") == "\(statistics.bytes)") }
    // The counters agree with the stored data.
    #expect(try ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  // A process may skip reading counters that it wrote itself, and writing unchanged ones.
  @Test(.timeLimit(.minutes(60)))
  func `The counters are right after alternating writes of two processes`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let ground = try StoreFixture(StoreOptions(budget: .bytes(8_000)))
    let peer = try ground.peer()
    let others = PersistentCache<Int, String>(storage: ground.store, namespace: "others")
    for step in 1...400 {
      let key = Int.random(in: 0..<40, using: &random)
      // Of the same length as what it replaces as often as not.
      let text = String(repeating: "x", count: [1, 1, 1, 100, 300].randomElement(using: &random)!)
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<4: try ground.numbers.setValue(text, forKey: key)
      case 4..<7: try peer.order("set \(key) \(text)")
      case 7: try others.setValue(text, forKey: key)
      case 8: _ = try peer.ask("remove \(key)")
      default: try ground.numbers.removeValue(forKey: key)
      }
      if step % 8 == 0 {
        let statistics = try ground.store.statistics()
        #expect(statistics.bytes <= 8_000)
        #expect(statistics.namespaces.reduce(0) { $0 + $1.bytes } == statistics.bytes)
        #expect(try ground.store.verify() == [], "after step \(step)")
      }
    }
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `Readers read on through eviction and never see a wrong value`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let ground = try StoreFixture(StoreOptions(budget: .bytes(50_000)))
    let readers = try (0..<3).map { _ in try ground.peer() }
    let writer = try ground.peer()
    for reader in readers { try reader.send("read 0 300 1000") }
    try writer.send("churn 300 300")
    for version in 0..<5000 {
      // Half of the writes come while all readers are known to be at work.
      if version == 2500 {
        for reader in readers { try reader.expect("reading") }
      }
      let key = Int.random(in: 0..<300, using: &random)
      try ground.numbers.setValue(text(of: key, version: version), forKey: key)
    }
    let evictions = try ground.store.statistics().evictions
    #expect(evictions > 1000, "\(evictions)")
    for reader in readers {
      let read = try reader.numbers("stop", "read")
      #expect(read[0] >= 1000 && read[1] == 0, "\(read), \(seed)")
    }
    _ = try writer.ask("stop")
    #expect(try ground.store.verify() == [])
    for peer in readers + [writer] { try peer.dismiss() }
  }
}
