// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

extension Crashes {
  private static let day = Duration.seconds(86_400)

  @Test(.timeLimit(.minutes(60)), arguments: [1, -1])
  func `When the clock jumps by a day, deadlines follow it and nothing else changes`(
    direction: Int
  ) throws {
    let scratch = try Scratch()
    let clock = ManualClock()
    var options = StoreOptions(
      budget: .bytes(40_000), clock: StoreClock { clock.now }, writeTimeout: .seconds(600))
    options.sweepsWhenIdle = false
    let store = try SharedStore(at: scratch.appending("store"), options)
    let cache = PersistentCache<Int, String>(storage: store)
    let hour: Int64 = 3_600_000
    try cache.setValue("for ever", forKey: 1)
    try cache.setValue("an hour", forKey: 2, expires: .at(millisecondsSince1970: clock.now + hour))
    #expect(try cache.value(forKey: 2) == "an hour")

    clock.advance(by: Self.day * direction)
    #expect(try cache.value(forKey: 1) == "for ever")
    // Expired a day later; and a day earlier it has longer to live.
    #expect(try cache.value(forKey: 2) == (direction > 0 ? nil : "an hour"))
    #expect(try store.removeExpired() == (direction > 0 ? 1 : 0))
    try cache.setValue("new", forKey: 3, expires: .at(millisecondsSince1970: clock.now + hour))
    #expect(try cache.value(forKey: 3) == "new")

    // Eviction is by use, and the budget holds, at any clock time.
    var jumps = direction
    for key in 100..<400 {
      if key % 50 == 0 {
        jumps = -jumps
        clock.advance(by: Self.day * jumps)
      }
      try cache.setValue(String(repeating: "x", count: 300), forKey: key)
      #expect(try cache.value(forKey: 1) == "for ever", "used all the time, \(key)")
      #expect(try store.statistics().bytes <= 40_000)
    }
    #expect(try store.statistics().evictions > 100)
    #expect(try cache.value(forKey: 399) != nil && cache.value(forKey: 100) == nil)
    #expect(try store.verify() == [])
    store.close()
  }

  @Test(.timeLimit(.minutes(60)))
  func `Processes whose clocks are a day apart share a store`() throws {
    let scratch = try Scratch()
    let path = scratch.appending("store")
    let now = ManualClock().now
    let day: Int64 = 86_400_000
    let peers = try [now - day, now, now + day].map { time in
      let peer = try TestExecutable.peer.start()
      #expect(try peer.ask("open \(path) budget=30000 clock=\(time) sweeps=0").hasPrefix("opened "))
      return peer
    }
    for round in 0..<40 {
      for (index, peer) in peers.enumerated() {
        #expect(try peer.ask("set \(index) \(round)") == "ok")
        #expect(try peer.ask("large \(10 + round % 10) 400") == "ok")
        for other in peers { #expect(try other.ask("get \(index)") == "value \(round)") }
      }
    }
    #expect(try peers[0].ask("expiring 5 \(now) text") == "ok")
    #expect(try peers[0].ask("get 5") == "value text")
    #expect(try peers[2].ask("get 5") == "none")
    for peer in peers { #expect(try peer.ask("verify") == "sound") }
  }
}
