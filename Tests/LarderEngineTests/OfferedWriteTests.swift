// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderCoding
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// The writes that processes offer to the one that writes, in the words of `shared.table`. Those of
/// real processes are in `IncrementStormTests.swift`, `CombinedPutTests.swift` and `ChangeProcessTests.swift`.
@Suite(.timeLimit(.minutes(60))) struct OfferedWriteTests {
  let directory: TemporaryDirectory
  let store: SharedStore
  let table: SharedTable
  let counters: PersistentCache<String, Int8>

  init() throws {
    directory = try TemporaryDirectory()
    // The store's thread commits nothing while commits are counted.
    var options = StoreOptions()
    options.sweepsWhenIdle = false
    options.idleSyncDelay = nil
    store = try SharedStore(at: directory.path + "/store", options)
    table = try store.core.generation().table
    counters = PersistentCache(storage: store, namespace: "counters")
  }

  private func offer(
    _ amount: Int8, of key: String = "n", in space: String = "counters",
    _ expires: Expiration = .never
  ) throws -> OfferedWrite {
    let type = try #require(CounterIncrement.IntegerType(Int8.self))
    return try #require(
      OfferedWrite(
        CounterIncrement(Int128(amount), type, expires, isPinned: false),
        key: EncodedKey(key), space: NamespaceHandle(name: space), now: 0))
  }

  private func put(
    _ value: Int8, for key: String, expires: Int64 = EntryHeader.never
  ) throws -> OfferedWrite {
    let (codec, payload) = try StandardCoding.encode(value, codec: CBORCodec())
    let content = EntryContent(
      key: EncodedKey(key), codec: codec.rawValue, payload: payload, expires: expires)
    return try #require(
      OfferedWrite(content, key: EncodedKey(key), space: NamespaceHandle(name: "counters")))
  }

  private func place(_ offer: OfferedWrite, slot: Int) throws {
    #expect(table.offer(offer, slot: slot))
  }

  private func outcome(_ slot: Int) -> OfferOutcome? {
    guard case .settled = table.offerState(slot) else { return nil }
    return table.offerOutcome(slot)
  }

  /// Runs a closure that offers increments and writes, again while an offer had become too old, after
  /// 10 ms, on a busy machine.
  private func inTime(_ slots: ClosedRange<Int>, _ body: () throws -> Void) throws {
    let end = ContinuousClock.now + .seconds(300)
    repeat {
      try body()
    } while slots.contains { outcome($0) == .refused } && .now < end
  }

  /// Claims an increment of the slot 30 for a version that is this distance from the last one.
  private func claim(distance: UInt64) throws {
    var claims = 0
    let end = ContinuousClock.now + .seconds(300)
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

  @Test func `A writer executes offered puts in its transaction, the last one of a key last`()
    throws
  {
    try inTime(30...33) {
      try counters.setValue(1, forKey: "n")
      try counters.removeValue(forKey: "new")
      try place(put(2, for: "n"), slot: 30)
      try place(put(3, for: "new"), slot: 31)
      try place(put(4, for: "new"), slot: 32)
      try place(put(5, for: "late", expires: 1), slot: 33)
      let before = try store.statistics().commits
      try counters.setValue(100, forKey: "own")
      #expect(try store.statistics().commits == before + 1)
    }
    for slot in 30...33 { #expect(outcome(slot) == .stored(0)) }
    #expect(try counters.value(forKey: "n") == 2 && counters.value(forKey: "new") == 4)
    #expect(try counters.value(forKey: "late") == nil && counters.value(forKey: "own") == 100)
    #expect(try store.verify() == [])
  }

  @Test func `A value that an offered put has replaced is in no memory tier`() throws {
    try inTime(30...30) {
      try place(put(7, for: "n"), slot: 30)
      try counters.setValue(100, forKey: "n")
    }
    #expect(outcome(30) == .stored(0))
    #expect(try counters.value(forKey: "n") == 7)
  }

  @Test func `An offered put that its namespace has no room for is refused`() throws {
    try counters.setValue(1, forKey: "n")
    try store.namespace("counters").setLimits(NamespaceLimits(maximum: .bytes(4096)))
    let blobs = PersistentCache<String, [UInt8]>(storage: store, namespace: "counters")
    try blobs.setValue([UInt8](repeating: 2, count: 3700), forKey: "pinned", pinned: true)
    let content = EntryContent(
      key: EncodedKey("n"), codec: 7, payload: [UInt8](repeating: 1, count: 900),
      expires: EntryHeader.never)
    try place(
      #require(
        OfferedWrite(content, key: EncodedKey("n"), space: NamespaceHandle(name: "counters"))),
      slot: 30)
    try counters.setValue(2, forKey: "own")
    #expect(outcome(30) == .refused)
    #expect(try counters.value(forKey: "n") == 1 && counters.value(forKey: "own") == 2)
  }

  @Test func `Only a put of a small value without attributes is offered`() throws {
    func isOffered(_ count: Int, _ attributes: EntryAttributes) throws -> Bool {
      let key = EncodedKey("key")
      let content = try EntryContent(
        key: key, codec: 7, payload: (0..<count).map { UInt8($0 % 251) }, attributes, now: 1000)
      guard let offer = try OfferedWrite(content, key: key, space: NamespaceHandle(name: "space"))
      else { return false }
      let copy = try #require(offer.content(for: key))
      #expect(copy.payload == content.payload && copy.codec == 7)
      #expect(copy.expires == content.expires)
      #expect(offer.target?.key == key && offer.target?.space.name == "space")
      #expect(offer.increment == nil)
      return true
    }
    for count in [0, 1, 7, 8, 9, 255, 952] {
      #expect(try isOffered(count, EntryAttributes(.never)))
    }
    #expect(try isOffered(10, EntryAttributes(.after(.seconds(5)))))
    #expect(try !isOffered(953, EntryAttributes(.never)))
    #expect(try !isOffered(10, EntryAttributes(.never, isPinned: true)))
    #expect(try !isOffered(10, EntryAttributes(.afterAccess(.seconds(5)))))
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
    let old = OfferedWrite(words: [offer.words[0] - 1_000_000_000] + offer.words.dropFirst())
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

  @Test func `Garbage in the region for offers changes no value`() throws {
    try counters.setValue(5, forKey: "n")
    var random = Seed.announce().generator()
    for _ in 0..<300 {
      for slot in 30..<40 {
        let offer = try random.chance(50) ? offer(1) : put(9, for: "n")
        guard table.offer(offer, slot: slot) else { continue }
        // Its check or one of its words.
        table.setOfferRegionWord(
          256 + 1024 * slot + 8 * Int.random(in: 1..<2 + offer.words.count, using: &random),
          random.next())
      }
      for word in [0, 128] where random.chance(20) {
        table.setOfferRegionWord(word, random.next())
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
      let offer = try OfferedWrite(
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
    #expect(try !isOffered(1000, .never))
    #expect(try !isOffered(1, .afterAccess(.seconds(5))))
    #expect(table.offerSlots == 63)
  }

  @Test func `An increment waits for a transaction of another process`() throws {
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(store.path)").hasPrefix("opened "))
    let numbers = PersistentCache<String, Int>(storage: store, namespace: "counters")
    try store.write { transaction in
      try peer.send("increment n")
      try transaction.setValue(41, forKey: "n", in: numbers)
    }
    // Before the transaction it would have been the first one.
    #expect(try peer.nextLine() == "ack 42")
    peer.kill()
  }
}
