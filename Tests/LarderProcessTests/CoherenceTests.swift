// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Two processes that alternate always read what the other wrote last`() throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    for round in 0..<5000 {
      let key = round % 7
      try peer.order("set \(key) peer \(round)")
      // The second time it comes from this process's memory.
      #expect(try ground.numbers.value(forKey: key) == "peer \(round)")
      #expect(ground.numbers[key] == "peer \(round)")
      try ground.numbers.setValue("ours \(round)", forKey: key)
      #expect(try peer.ask("get \(key)") == "value ours \(round)")
    }
    let statistics = try ground.store.statistics()
    #expect(statistics.sets == 10_000)
    #expect(try ground.store.verify() == [])
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `Any process that writes removes expired entries, and one that reads removes none`() throws {
    let directory = try TemporaryDirectory()
    let shared = directory.appending("clock")
    let clock = try ManualClock(sharedAt: shared)
    var options = StoreOptions(clock: clock.storeClock)
    options.sweepsWhenIdle = false
    let ground = try StoreFixture(options)
    try ground.store.write { transaction in
      for key in 0..<3000 {
        try transaction.setBytes([1], forKey: key, expires: .after(.seconds(10)))
      }
    }
    // Nor does its thread, which would remove some once a second.
    let reader = try ground.peer("shared=\(shared) sweeps=0")
    clock.advance(by: .seconds(10))
    for key in 0..<100 { #expect(try reader.ask("get \(key)") == "none") }
    #expect(try ground.store.statistics().expiredEntries == 3000)
    let writer = try ground.peer("shared=\(shared)")
    try writer.order("set 5000 text")
    #expect(try ground.store.statistics().expiredEntries < 3000)
    // The rest is removed by the thread of the writer, once a second.
    try eventually("the rest is removed") {
      try ground.store.statistics().expiredEntries == 0
    }
    let statistics = try ground.store.statistics()
    #expect(statistics.entries == 1 && statistics.expirations == 3000)
    #expect(try ground.store.verify() == [])
    for peer in [reader, writer] { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A read in any process, from memory too, renews a sliding expiration for all`() throws {
    let directory = try TemporaryDirectory()
    let shared = directory.appending("clock")
    let clock = try ManualClock(sharedAt: shared)
    let ground = try StoreFixture(StoreOptions(clock: clock.storeClock))
    let peers = try (0..<2).map { _ in try ground.peer("shared=\(shared)") }
    try ground.numbers.setValue("text", forKey: 1, expires: .afterAccess(.seconds(60)))
    for peer in peers { #expect(try peer.ask("get 1") == "value text") }
    for round in 0..<12 {
      clock.advance(by: .seconds(50))
      // Each reader depends on the read of another one 50 seconds ago.
      if round % 3 == 2 {
        #expect(ground.numbers[1] == "text")
      } else {
        #expect(try peers[round % 3].ask("get 1") == "value text")
      }
    }
    clock.advance(by: .milliseconds(61_024))
    #expect(ground.numbers[1] == nil)
    for peer in peers { #expect(try peer.ask("get 1") == "none") }
    #expect(try ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Two processes choose different lifetimes with the same jitter`() throws {
    let peers = try (0..<2).map { _ in try TestExecutable.peer.start() }
    let lifetimes = try peers.map { try $0.numbers("jitter 20", "jitter") }
    #expect(lifetimes[0].count == 20 && lifetimes[1].count == 20)
    // The chance of an equal pair at one index is 1 in 86,400,000.
    #expect(zip(lifetimes[0], lifetimes[1]).count { $0 == $1 } < 2)
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `An entry expires for every process at the same millisecond`() throws {
    let clock = ManualClock(milliseconds: 1000)
    let ground = try StoreFixture(StoreOptions(clock: StoreClock { clock.now }))
    let peers = try (0..<3).map { _ in try ground.peer("clock=1000") }
    for round in 1...50 {
      let deadline = 1000 + round * 10
      try peers[round % 3].order("expiring 1 \(deadline) round \(round)")
      for now in [deadline - 10, deadline - 1] {
        clock.set(to: Int64(now))
        for peer in peers {
          try peer.order("clock \(now)")
          // Twice: from the store, then from memory.
          #expect(try peer.ask("get 1") == "value round \(round)")
          #expect(try peer.ask("get 1") == "value round \(round)")
        }
        #expect(ground.numbers[1] == "round \(round)")
      }
      clock.set(to: Int64(deadline))
      for peer in peers {
        try peer.order("clock \(deadline)")
        #expect(try peer.ask("get 1") == "none")
      }
      #expect(ground.numbers[1] == nil)
      #expect(try !ground.numbers.contains(1))
    }
    #expect(try ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Processes whose keys all collide lose nothing`() throws {
    var options = StoreOptions()
    options.hashBits = 4
    let ground = try StoreFixture(options)
    let peers = try (0..<4).map { _ in try ground.peer("bits=4") }
    let keys = 0..<60
    for key in keys {
      // All four write at the same time, each its own keys; numbers and texts collide as well.
      for (index, peer) in peers.enumerated() {
        try peer.send("set \(index * 1000 + key) number \(index) \(key)")
        try peer.send("set k\(index)-\(key) text \(index) \(key)")
      }
      for peer in peers {
        try peer.expect("ok")
        try peer.expect("ok")
      }
    }
    // A third of the numbers is removed, each by another process than its writer.
    for key in keys where key % 3 == 0 {
      for index in 0..<4 {
        #expect(try peers[(index + 1) % 4].ask("remove \(index * 1000 + key)") == "removed")
      }
    }
    for (reader, peer) in peers.enumerated() {
      for key in keys {
        for index in 0..<4 {
          let number = try peer.ask("get \(index * 1000 + key)")
          #expect(number == (key % 3 == 0 ? "none" : "value number \(index) \(key)"), "\(reader)")
          #expect(try peer.ask("get k\(index)-\(key)") == "value text \(index) \(key)")
        }
      }
    }
    #expect(try ground.store.statistics().entries == 4 * 60 + 4 * 40)
    #expect(try ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }
}
