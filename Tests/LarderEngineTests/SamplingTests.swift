// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// The samples of uses in `shared.table`. Those of other processes are in the tests of
/// `larder advise`.
@Suite(.timeLimit(.minutes(60))) struct SamplingTests {
  private static let half = UInt32.max / 2
  let directory: TemporaryDirectory
  let store: SharedStore
  let table: SharedTable

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(
      at: directory.path + "/store", StoreOptions(budget: .megabytes(4)))
    table = try store.core.generation().table
  }

  /// The sampled hashes of keys.
  private func sampled(_ keys: Range<Int>, below threshold: UInt32) throws -> Set<UInt64> {
    let space = try store.namespace("").space
    let generation = try store.core.generation()
    let hashes = keys.map { space.hash(of: EncodedKey($0), in: generation) }
    return Set(
      hashes.filter { hashPrefix($0) < threshold }.map { Sample(hash: $0, kind: .put).hash })
  }

  private static var now: UInt64 { Clocks.monotonicNanoseconds() / 1_000_000 }
  /// A minute from now, so that the ticks of the store's thread do not end the sampling.
  private static var end: UInt64 { now + 60_000 }

  private func take() -> (samples: [Sample], isLost: Bool) {
    var samples: [Sample] = []
    let isLost = table.takeSamples(into: &samples)
    return (samples, isLost)
  }

  @Test func `Every use of a key below the threshold is recorded, and of no other key`() throws {
    for key in 0..<200 { try store.setBytes([1], forKey: key) }
    let cache = PersistentCache<Int, Int>(storage: store, namespace: "cache")
    for key in 0..<200 { try cache.setValue(key, forKey: key) }
    #expect(table.claimSampling(milliseconds: 1000, until: Self.end))
    table.renewSampling(threshold: Self.half, until: Self.end)
    let expected = try sampled(0..<200, below: Self.half)
    #expect((60...140).contains(expected.count), "\(expected.count)")

    for key in 0..<200 { #expect(try store.bytes(forKey: key) == [1]) }
    var taken = take().samples
    #expect(taken.count == expected.count && taken.allSatisfy { $0.kind == .storeHit })
    #expect(Set(taken.map(\.hash)) == expected)

    for key in 0..<200 { #expect(try cache.value(forKey: key) == key) }
    taken = take().samples
    // A few keys share a stamp slot with one that was written later: they are read from the store.
    #expect(taken.count { $0.kind == .memoryHit } > taken.count * 9 / 10)
    #expect((60...140).contains(taken.count))

    for key in 500..<600 { #expect(try store.bytes(forKey: key) == nil) }
    taken = take().samples
    #expect(try Set(taken.map(\.hash)) == sampled(500..<600, below: Self.half))
    #expect(taken.allSatisfy { $0.kind == .miss })

    for key in 0..<200 { try store.setBytes([2], forKey: key) }
    for key in 0..<200 { try store.remove(forKey: key) }
    taken = take().samples
    #expect(taken.prefix(expected.count).allSatisfy { $0.kind == .put })
    #expect(taken.dropFirst(expected.count).allSatisfy { $0.kind == .remove })
    #expect(taken.count == 2 * expected.count)
    table.endSampling()
  }

  @Test func `Without a threshold nothing is recorded`() throws {
    try store.setBytes([1], forKey: 1)
    #expect(table.sampleThreshold == 0)
    for _ in 0..<100 { #expect(try store.bytes(forKey: 1) == [1]) }
    #expect(take().samples.isEmpty)
    #expect(table.claimSampling(milliseconds: 1000, until: 2000))
    for _ in 0..<100 { #expect(try store.bytes(forKey: 1) == [1]) }
    #expect(take().samples.isEmpty)
  }

  @Test func `Sampling ends at the first tick after its end, or with an end far ahead`() throws {
    let end = Self.end
    #expect(table.claimSampling(milliseconds: end - 1000, until: end))
    table.renewSampling(threshold: .max, until: end)
    #expect(!table.claimSampling(milliseconds: end - 1, until: end + 1000), "another process's")
    table.endStaleSampling(milliseconds: end - 1)
    #expect(table.sampleThreshold == .max)
    table.endStaleSampling(milliseconds: end)
    #expect(table.sampleThreshold == 0)
    #expect(table.claimSampling(milliseconds: end, until: end + 1000))
    table.renewSampling(threshold: .max, until: end + 10_000_000)
    table.endStaleSampling(milliseconds: end + 1)
    #expect(table.sampleThreshold == 0)
  }

  @Test func `A full ring ends sampling until the collector has emptied it`() throws {
    try store.setBytes([1], forKey: 1)
    #expect(table.claimSampling(milliseconds: 1000, until: Self.end))
    table.renewSampling(threshold: .max, until: Self.end)
    let slots = table.shape.sampleSlots
    for _ in 0..<slots { _ = try store.bytes(forKey: 1) }
    #expect(table.sampleThreshold == .max)
    for _ in 0..<3 { _ = try store.bytes(forKey: 1) }
    #expect(table.sampleThreshold == 0)
    let (samples, isLost) = take()
    #expect(samples.count == slots && isLost)
    table.renewSampling(threshold: .max, until: Self.end)
    _ = try store.bytes(forKey: 1)
    #expect(take().samples.count == 1 && !take().isLost)
  }

  @Test func `Garbage in the region for samples changes no value and traps nowhere`() throws {
    var random = Seed.announce().generator()
    for key in 0..<50 { try store.setBytes([UInt8(key)], forKey: key) }
    let words = SharedTableLayout.sampleWords / 8 + table.shape.sampleSlots
    for _ in 0..<200 {
      table.renewSampling(threshold: .max, until: random.next())
      for _ in 0..<20 {
        let word = random.chance(50) ? [0, 8, 9].randomElement(using: &random)! : nil
        table.setSampleRegionWord(
          8 * (word ?? Int.random(in: 0..<words, using: &random)),
          random.chance(30) ? UInt64.max - random.next() % 4 : random.next())
      }
      for key in 0..<50 { #expect(try store.bytes(forKey: key) == [UInt8(key)]) }
      let samples = take().samples
      #expect(samples.count < 2 * table.shape.sampleSlots)
      table.endStaleSampling(milliseconds: random.next())
    }
    table.endSampling()
    let end = Self.end
    #expect(table.claimSampling(milliseconds: Self.now, until: end))
    table.renewSampling(threshold: .max, until: end)
    _ = try store.bytes(forKey: 1)
    #expect(try Set(take().samples.map(\.hash)) == sampled(1..<2, below: .max))
    #expect(try store.verify() == [])
  }

  @Test func `An entry just above the limit of a page counts its unused bytes`() {
    var fit = PageFit()
    fit.add(entryOf: 2000, pageSize: 4096)
    #expect(fit == PageFit())
    fit.add(entryOf: 2100, pageSize: 4096)
    #expect(fit.entries == 1 && fit.unusedBytes == 4096 - 16 - 2100 && fit.slightlyTooLong == 1)
    fit.add(entryOf: 4080, pageSize: 4096)
    #expect(fit.entries == 2 && fit.slightlyTooLong == 1)
    #expect(fit.unusedBytes == 4096 - 16 - 2100)
    fit.add(entryOf: 4081, pageSize: 4096)
    #expect(fit.entries == 3 && fit.slightlyTooLong == 2)
    fit.add(entryOf: EntryHeader.size + 2 * EntryHeader.chunkDataSize + 10, pageSize: 4096)
    #expect(fit.entries == 3, "the last chunk is small")
  }

  @Test func `A sampler of a shared table that is cut short has no uses, and ends without a crash`()
    throws
  {
    let path = directory.path + "/other"
    let other = try SharedStore(at: path, StoreOptions(budget: .megabytes(4)))
    let generation = try other.core.generation().path
    other.close()
    let sampler = try #require(try UseSampler(path: path, interval: .seconds(1)))
    try TestFiles.truncate(generation + "/shared.table", to: 0)
    #expect(sampler.collect(next: .seconds(1)).samples.isEmpty)
  }

  @Test func `An observer of a data file with an impossible number of pages reads no content`()
    throws
  {
    let path = directory.path + "/other"
    let other = try SharedStore(at: path)
    try other.setBytes([1], forKey: "a")
    let data = try other.core.generation().path + "/data.mdb"
    other.close()
    #expect(try StoreObserver(path: path).observe()?.content?.totals.entries == 1)
    var bytes = try TestFiles.contents(of: data)
    // The number of the last page in both meta pages.
    for page in 0..<2 {
      for offset in 0..<8 { bytes[page * 4096 + 136 + offset] = offset == 7 ? 0x7F : 0xFF }
    }
    try TestFiles.write(bytes, to: data)
    #expect(try StoreObserver(path: path).observe()?.content == nil)
  }
}
