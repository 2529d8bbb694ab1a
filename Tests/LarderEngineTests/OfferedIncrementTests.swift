// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// The increments that processes offer to the one that writes, in the words of `shared.table`. Those of
/// real processes are in `IncrementStormTests.swift` and `ChangeProcessTests.swift`.
@Suite(.timeLimit(.minutes(15))) struct OfferedIncrementTests {
  let directory: TemporaryDirectory
  let store: SharedStore
  let table: SharedTable
  let counters: PersistentCache<String, Int8>

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store")
    table = try store.core.generation().table
    counters = PersistentCache(storage: store, namespace: "counters")
  }

  private func offer(
    _ amount: Int8, of key: String = "n", in space: String = "counters",
    _ expires: Expiration = .never
  ) throws -> OfferedIncrement {
    let type = try #require(CounterIncrement.IntegerType(Int8.self))
    return try #require(
      OfferedIncrement(
        CounterIncrement(Int128(amount), type, expires, isPinned: false),
        key: EncodedKey(key), space: NamespaceHandle(name: space), now: 0))
  }

  private func place(_ offer: OfferedIncrement, slot: Int) throws {
    #expect(table.offer(offer, slot: slot))
  }

  private func outcome(_ slot: Int) -> OfferOutcome? {
    guard case .settled = table.offerState(slot) else { return nil }
    return table.offerOutcome(slot)
  }

  /// Runs a closure that offers increments and writes, again while an offer had become too old, after
  /// 10 ms, on a busy machine.
  private func inTime(_ slots: ClosedRange<Int>, _ body: () throws -> Void) throws {
    let end = ContinuousClock.now + .seconds(60)
    repeat {
      try body()
    } while slots.contains { outcome($0) == .refused } && .now < end
  }

  /// Claims an increment of the slot 30 for a version that is this distance from the last one.
  private func claim(distance: UInt64) throws {
    var claims = 0
    let end = ContinuousClock.now + .seconds(60)
    while true {
      try place(offer(1), slot: 30)
      claims = table.claimOffers(commitVersion: table.lastStamped + distance).count
      if claims == 1 || .now > end { break }
      // It had become too old.
      try counters.setValue(0, forKey: "own")
    }
    #expect(claims == 1)
  }

  @Test func `A writer executes offered increments in its transaction, each with its outcome`()
    throws
  {
    let other = PersistentCache<String, Int8>(storage: store, namespace: "other")
    try inTime(30...33) {
      try counters.setValue(120, forKey: "n")
      try other.removeValue(forKey: "new")
      for (slot, amount) in [(30, 5), (31, 5), (32, 1)] as [(Int, Int8)] {
        try place(offer(amount), slot: slot)
      }
      try place(offer(7, of: "new", in: "other"), slot: 33)
      let before = try store.statistics().commits
      try counters.setValue(1, forKey: "own")
      #expect(try store.statistics().commits == before + 1)
    }
    #expect(outcome(30) == .stored(125) && outcome(31) == .overflow(125))
    #expect(outcome(32) == .stored(126) && outcome(33) == .stored(7))
    #expect(try counters.value(forKey: "n") == 126 && counters.value(forKey: "own") == 1)
    #expect(try other.value(forKey: "new") == 7)
  }

  @Test func `An own increment and the offers for its counter are one change`() throws {
    try inTime(30...32) {
      try counters.setValue(120, forKey: "n")
      try counters.removeValue(forKey: "other")
      try place(offer(5), slot: 30)
      try place(offer(5), slot: 31)
      try place(offer(1, of: "other"), slot: 32)
      let before = try store.statistics().commits
      #expect(try counters.increment(forKey: "n") == 121)
      #expect(try store.statistics().commits == before + 1)
    }
    #expect(outcome(30) == .stored(126) && outcome(31) == .overflow(126))
    #expect(outcome(32) == .stored(1))
    #expect(try counters.value(forKey: "n") == 126)
    // The own one may fail where the offer does not.
    try inTime(30...30) {
      try place(offer(-10), slot: 30)
      #expect(throws: StoreError.self) { try counters.increment(forKey: "n", by: 2) }
    }
    #expect(outcome(30) == .stored(116))
    #expect(try counters.value(forKey: "n") == 116)
    let texts = PersistentCache<String, String>(storage: store, namespace: "counters")
    try texts.setValue("text", forKey: "n")
    try place(offer(1), slot: 30)
    #expect(throws: StoreError.self) { try counters.increment(forKey: "n") }
    #expect(outcome(30) == .refused)
    #expect(try texts.value(forKey: "n") == "text")
  }

  @Test func `A value that an offered increment has changed is in no memory tier`() throws {
    try inTime(30...30) {
      try place(offer(5), slot: 30)
      try counters.setValue(100, forKey: "n")
    }
    #expect(outcome(30) == .stored(105))
    #expect(try counters.value(forKey: "n") == 105)
    try inTime(30...30) {
      try place(offer(5), slot: 30)
      counters["n"] = 50
      try counters.sync()
    }
    #expect(outcome(30) == .stored(55) && counters["n"] == 55)
  }

  @Test func `Offered increments of values that are not integers are refused`() throws {
    let texts = PersistentCache<String, String>(storage: store, namespace: "counters")
    try texts.setValue("text", forKey: "n")
    try place(offer(1), slot: 30)
    try counters.setValue(1, forKey: "own")
    #expect(outcome(30) == .refused)
    #expect(try texts.value(forKey: "n") == "text")
  }

  @Test func `An offer of a process that was stopped or killed is not executed later`() throws {
    let offer = try offer(1)
    let old = OfferedIncrement(words: [offer.words[0] - 1_000_000_000] + offer.words.dropFirst())
    #expect(table.offer(old, slot: 30))
    try counters.setValue(1, forKey: "own")
    #expect(outcome(30) == .refused)
    #expect(try counters.value(forKey: "n") == nil)
    // The next process in the slot finds no offer.
    #expect(table.offer(offer, slot: 30))
    table.leave(process: 30)
    #expect(table.offerState(30) == .free)
    try counters.setValue(2, forKey: "own")
    #expect(try counters.value(forKey: "n") == nil)
  }

  @Test func `The commit version shows whether claims of a killed writer were committed`() throws {
    try counters.setValue(1, forKey: "own")
    try claim(distance: 1)
    #expect(try !table.offer(offer(1), slot: 30), "the claimed offer stays")
    try counters.setValue(2, forKey: "own")
    #expect(outcome(30) == .refused)

    for (distance, expected) in [(1, OfferOutcome.refused), (0, .stored(9)), (7, .refused)] {
      try claim(distance: UInt64(distance))
      table.setOutcome(.stored(9), slot: 30)
      try counters.setValue(3, forKey: "own")
      #expect(outcome(30) == expected)
    }
  }

  @Test func `A compaction settles the claims of a killed writer`() throws {
    try counters.setValue(1, forKey: "own")
    try claim(distance: 1)
    try store.compact()
    #expect(outcome(30) == .refused)
  }

  @Test func `Garbage in the region for increments changes no value`() throws {
    try counters.setValue(5, forKey: "n")
    var random = Seed.announce().generator()
    for _ in 0..<300 {
      for slot in 30..<40 {
        let offer = try offer(1)
        guard table.offer(offer, slot: slot) else { continue }
        // Its check or one of its words.
        table.setIncrementRegionWord(
          256 + 256 * slot + 8 * Int.random(in: 1..<2 + offer.words.count, using: &random),
          random.next())
      }
      for word in [0, 128] where random.chance(20) {
        table.setIncrementRegionWord(word, random.next())
      }
      try counters.setValue(1, forKey: "own")
      #expect(try counters.value(forKey: "n") == 5)
      #expect(try counters.increment(forKey: "m", by: 0) == 0)
    }
    #expect(try store.verify() == [])
  }

  @Test func `Only an increment with a short key and a fixed expiration is offered`() throws {
    let type = try #require(CounterIncrement.IntegerType(UInt64.self))
    func isOffered(_ keyLength: Int, _ expires: Expiration) throws -> Bool {
      let increment = CounterIncrement(Int128(UInt64.max), type, expires, isPinned: true)
      let offer = try OfferedIncrement(
        increment, key: EncodedKey(String(repeating: "k", count: keyLength)),
        space: NamespaceHandle(name: "space"), now: 1000)
      guard let offer else { return false }
      let copy = try #require(offer.increment)
      #expect(copy.type == type && copy.amount == increment.amount && copy.isPinned)
      #expect(try copy.expiration.deadline(now: 0) == expires.deadline(now: 1000))
      #expect(offer.target?.key == EncodedKey(String(repeating: "k", count: keyLength)))
      #expect(offer.target?.space.name == "space")
      return true
    }
    #expect(try isOffered(1, .never) && isOffered(100, .after(.seconds(5))))
    #expect(try !isOffered(200, .never))
    #expect(try !isOffered(1, .afterAccess(.seconds(5))))
    #expect(table.offerSlots == 64)
  }

  @Test func `An increment waits for a transaction of another process`() throws {
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(store.path)").hasPrefix("opened "))
    try store.write { transaction in
      try peer.send("increment n")
    }
    #expect(try peer.nextLine().hasPrefix("ack "))
    peer.kill()
  }
}
