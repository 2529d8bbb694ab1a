// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderRecovery
import LarderSystem
import LarderTesting
import Testing

/// Entries that expire when they are not used.
@Suite(.timeLimit(.minutes(60))) struct SlidingExpirationTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()
  let store: SharedStore
  let entries: StoreNamespace

  init() throws {
    directory = try TemporaryDirectory()
    var options = StoreOptions(clock: clock.storeClock)
    options.sweepsWhenIdle = false
    store = try SharedStore(at: directory.path + "/store", options)
    entries = try store.namespace("n")
  }

  /// A lifetime, and the longest time after which an entry of it is gone.
  static let lifetime = Duration.seconds(60)
  static let end = Duration.milliseconds(61_024)

  private func set(_ value: [UInt8], _ key: Int) throws {
    try entries.setBytes(value, forKey: key, expires: .afterAccess(Self.lifetime))
  }

  private func sweep() throws {
    store.core.sweepExpired(in: try store.core.generation())
    try eventually("the removal ends") { !store.core.isSweepingExpired }
  }

  @Test(arguments: [0, 10, 32_672, 32_673, 300_000])
  func `An entry stays while it is read within its lifetime, and expires after it`(
    size: Int
  ) throws {
    let value = [UInt8](repeating: 7, count: size)
    try set(value, 1)
    try set(value, 2)
    clock.advance(by: .milliseconds(59_999))
    #expect(try entries.bytes(forKey: 1) == value)
    clock.advance(by: .milliseconds(1_025))
    #expect(try entries.bytes(forKey: 2) == nil)
    let commits = try store.statistics().commits
    for _ in 0..<10 {
      clock.advance(by: .milliseconds(58_974))
      #expect(try entries.bytes(forKey: 1) == value)
      clock.advance(by: .milliseconds(1_025))
    }
    #expect(try store.statistics().commits == commits)
    #expect(try entries.bytes(forKey: 1) == value)
    #expect(try store.verify() == [])
    clock.advance(by: Self.end)
    #expect(try entries.bytes(forKey: 1) == nil)
  }

  @Test func `A hit in memory renews an entry for readers of the store`() throws {
    let cache = PersistentCache<Int, Int>(storage: store)
    try cache.setValue(1, forKey: 1, expires: .afterAccess(Self.lifetime))
    #expect(cache[1] == 1)
    let before = try store.statistics()
    for _ in 0..<10 {
      clock.advance(by: .seconds(50))
      #expect(cache[1] == 1)
    }
    let after = try store.statistics()
    #expect(after.storeHits == before.storeHits && after.commits == before.commits)
    clock.advance(by: .seconds(50))
    let other = PersistentCache<Int, Int>(storage: store)
    #expect(other[1] == 1)
    let item = try #require(other[item: 1])
    #expect(item.expiration!.timeIntervalSince1970 * 1000 >= Double(clock.now + 60_000))
    clock.advance(by: Self.end)
    #expect(cache[1] == nil && other[1] == nil)
    #expect(try !cache.contains(1))
  }

  @Test func `The sweep keeps an entry that was used, and removes it a lifetime later`() throws {
    for key in 0..<300 { try set([UInt8](repeating: 1, count: key), key) }
    clock.advance(by: .seconds(50))
    for key in 0..<100 { #expect(try entries.bytes(forKey: key)?.count == key) }
    clock.advance(by: .seconds(30))
    // Keys that share a word of uses with a used one are rare.
    let expired = try store.statistics().expiredEntries
    #expect((190...200).contains(expired))
    try sweep()
    var statistics = try store.statistics()
    #expect(statistics.entries == 300 - expired && statistics.expirations == expired)
    #expect(statistics.expiredEntries == 0)
    #expect(try store.core.generation().table.earliestExpiry > clock.now)
    #expect(try store.verify() == [])
    for key in 0..<100 { #expect(try entries.bytes(forKey: key)?.count == key) }
    clock.advance(by: Self.end)
    try sweep()
    statistics = try store.statistics()
    #expect(statistics.entries == 0 && statistics.expirations == 300)
    #expect(try store.verify() == [])
  }

  @Test func `An entry whose last use is lost expires by the time of its write`() throws {
    try set([1], 1)
    clock.advance(by: .seconds(50))
    #expect(try entries.bytes(forKey: 1) == [1])
    let generation = try store.core.generation()
    let hash = entries.space.hash(of: EncodedKey(1), in: generation)
    generation.table.forgetUse(hash: hash)
    clock.advance(by: .milliseconds(9_999))
    #expect(try entries.contains(1))
    generation.table.forgetUse(hash: hash)
    clock.advance(by: .milliseconds(1))
    #expect(try entries.bytes(forKey: 1) == nil)
  }

  @Test func `A compaction and a transaction keep a sliding expiration`() throws {
    try set([1], 1)
    clock.advance(by: .seconds(50))
    let inside = try store.write { try $0.bytes(forKey: 1, in: "n") }
    #expect(inside == [1])
    try store.compact()
    clock.advance(by: .seconds(50))
    #expect(try entries.bytes(forKey: 1) == [1])
    #expect(try store.verify() == [])
    clock.advance(by: Self.end)
    #expect(try entries.bytes(forKey: 1) == nil)
  }

  @Test func `A write replaces a sliding expiration by another expiration`() throws {
    try set([1], 1)
    try entries.setBytes([2], forKey: 1, expires: .after(Self.lifetime))
    #expect(try store.verify() == [])
    clock.advance(by: .seconds(59))
    #expect(try entries.bytes(forKey: 1) == [2])
    clock.advance(by: .seconds(1))
    #expect(try entries.bytes(forKey: 1) == nil)
    try entries.setBytes([3], forKey: 1)
    try set([4], 1)
    #expect(try store.verify() == [])
    clock.advance(by: Self.end)
    #expect(try entries.bytes(forKey: 1) == nil)
    try entries.setBytes([5], forKey: 1, expires: .afterAccess(.seconds(Int64.max)))
    #expect(try entries.bytes(forKey: 1) == [5])
  }

  @Test(arguments: 0..<72)
  func `A damaged byte of an entry with a sliding expiration is detected`(byte: Int) throws {
    var header = EntryHeader(
      codec: 1, keyTag: 2, keyLength: 3, payloadLength: 4, commitVersion: 5, created: 6,
      expires: 7, traits: .init(lifetime: 60_000), namespace: 8, epoch: 9)
    let (key, payload): ([UInt8], [UInt8]) = ([1, 2, 3], [4, 5, 6, 7])
    let hash = EntryHeader.contentHash(key: key, payload: payload)
    var record = header.sealed(contentHash: hash) + key + payload
    #expect(record.count == 79 && header.storedLength == 79)
    try record.withRawSpan { span in
      let read = try EntryHeader(in: span, at: 0)
      #expect(read == header && read.lifetime == 60_000 && read.isIntact(contentHash: hash))
    }
    record[byte] ^= 4
    record.withRawSpan { span in
      let read = try? EntryHeader(in: span, at: 0)
      #expect(read?.isIntact(contentHash: hash) != true, "byte \(byte)")
    }
  }
}
