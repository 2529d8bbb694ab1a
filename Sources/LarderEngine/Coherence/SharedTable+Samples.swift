// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
public import Synchronization

// SAMPLES
//
// A process that wants to know which keys are used (`larder advise`) stores a threshold in
// `shared.table`. From then on every process records its uses of the keys whose hash prefix is below
// it: spatial sampling (SHARDS, Waldspurger et al., FAST 2015). All uses of a sampled key are
// recorded and none of any other key, so a cache of a scaled size has about the same hit ratio for the
// sampled uses as the store has for all. The entries of sampled keys are the first ones of the table
// `entries`, which is in the order of hashes.
//
// A sample is a word: the key's hash with its kind in the low three bits, never zero. A recorder
// advances the head of a ring by one and stores the word in that slot. The collector takes words from
// the tail on, leaves zeros, and then advances the tail.
//
// Sampling is bounded. A recorder that finds the ring full stores zero as the threshold, so that no
// process records until the collector has emptied the ring. The collector renews the end of
// sampling. If it was killed, the first tick of any process after that time stores zero.
//
// All accesses are relaxed, and no word is trusted: a recorder takes slots modulo their number, and a
// collector that finds more samples than slots drops them.

/// The kinds of sampled uses.
@usableFromInline
package enum SampleKind: UInt8, Sendable, CaseIterable {
  case memoryHit = 1
  case storeHit, miss, put, remove
}

/// A sampled use of a key.
package struct Sample: Sendable, Hashable {
  /// The bits of a hash that a sample keeps.
  package static let hashMask: UInt64 = ~7

  /// The hash of the key without its low three bits.
  package let hash: UInt64
  package let kind: SampleKind

  /// Creates a sample.
  package init(hash: UInt64, kind: SampleKind) {
    self.hash = hash & Sample.hashMask
    self.kind = kind
  }

  /// Reads a word of the ring; returns `nil` if it is not a sample.
  init?(word: UInt64) {
    guard let kind = SampleKind(rawValue: UInt8(word & ~Sample.hashMask)) else { return nil }
    self.init(hash: word, kind: kind)
  }
}

/// A view of the ring for samples, in one word. The table's owner keeps it mapped.
///
/// A memory hit loads every field of its view of the table, so the ring has only one.
@safe @frozen @usableFromInline
package struct SampleRing {
  // Sound: zero, or the address of the region in the mapping, which lives as long as the owner. The
  // lowest bit is set if the region is that of a small store.
  @usableFromInline let address: UInt
  private static let slotsOfRegion = SharedTableShape.largest.sampleSlots
  private static let slotsOfSmallRegion = SharedTableShape.small.sampleSlots

  /// A ring that records nothing.
  static var none: SampleRing { SampleRing(address: 0) }

  private init(address: UInt) { self.address = address }

  @unsafe
  init(region: UnsafeMutableRawPointer, slots: Int) {
    self.init(
      address: UInt(bitPattern: region) | (slots == Self.slotsOfSmallRegion ? 1 : 0))
  }

  /// The number of samples for which the ring has room.
  package var slots: Int { address & 1 == 0 ? Self.slotsOfRegion : Self.slotsOfSmallRegion }

  /// Records a use of a sampled key, or ends sampling if the ring is full. Wait-free.
  ///
  /// - Parameter header: The words of the table.
  @unsafe @usableFromInline @inline(never)
  func record(
    _ hash: UInt64, _ kind: SampleKind, _ header: UnsafeMutablePointer<Atomic<UInt64>>
  ) {
    if address == 0 { return }
    let tail = unsafe word(SharedTableLayout.sampleTail).pointee.load(ordering: .relaxed)
    let head = unsafe word(SharedTableLayout.sampleHead)
    guard unsafe head.pointee.load(ordering: .relaxed) &- tail < UInt64(slots) else {
      unsafe (UnsafeMutableRawPointer(header) + SharedTableLayout.sampleThreshold)
        .assumingMemoryBound(to: Atomic<UInt32>.self).pointee.store(0, ordering: .relaxed)
      return
    }
    let position = unsafe head.pointee.wrappingAdd(1, ordering: .relaxed).oldValue
    unsafe slot(position).pointee.store(
      hash & Sample.hashMask | UInt64(kind.rawValue), ordering: .relaxed)
  }

  @unsafe
  func word(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe UnsafeMutablePointer(bitPattern: address & ~1)! + offset / 8
  }

  @unsafe
  func slot(_ position: UInt64) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe word(SharedTableLayout.sampleWords + Int(position % UInt64(slots)) * 8)
  }
}

extension SharedTable {
  /// The longest time for which the end of sampling may be ahead, in milliseconds. A later one is
  /// damage.
  private static let longestSampling: UInt64 = 60_000

  /// Uses of keys with a hash prefix below this are sampled; zero means none.
  package var sampleThreshold: UInt32 {
    unsafe half(SharedTableLayout.sampleThreshold).pointee.load(ordering: .relaxed)
  }

  /// Records a use if the key is sampled.
  @inline(__always)
  package func sample(_ hash: UInt64, _ kind: SampleKind) {
    if hashPrefix(hash) < sampleThreshold {
      unsafe samples.record(hash, kind, word(0))
    }
  }

  /// Whether a process samples, at a time of the monotonic clock in milliseconds.
  package func isSampling(milliseconds now: UInt64) -> Bool {
    let end = unsafe samples.word(SharedTableLayout.sampleEnd).pointee.load(ordering: .relaxed)
    return end > now && end - now <= Self.longestSampling
  }

  /// Ends sampling whose collector has not renewed it.
  package func endStaleSampling(milliseconds now: UInt64) {
    if sampleThreshold != 0, !isSampling(milliseconds: now) { setSampleThreshold(0) }
  }

  // MARK: The collector

  /// Claims the ring for this process, and empties it.
  ///
  /// - Parameters:
  ///   - now: The time of the monotonic clock in milliseconds.
  ///   - end: The time after which another process may claim it.
  /// - Returns: `false` if another process samples.
  package func claimSampling(milliseconds now: UInt64, until end: UInt64) -> Bool {
    let address = unsafe samples.word(SharedTableLayout.sampleEnd)
    let last = unsafe address.pointee.load(ordering: .relaxed)
    guard !isSampling(milliseconds: now),
      unsafe address.pointee.compareExchange(
        expected: last, desired: end, ordering: .acquiringAndReleasing
      ).exchanged
    else { return false }
    setSampleThreshold(0)
    for slot in 0..<samples.slots {
      unsafe samples.slot(UInt64(slot)).pointee.store(0, ordering: .relaxed)
    }
    dropSamples()
    return true
  }

  /// Lets the processes sample, until the collector has not renewed it for some time. Only the process
  /// that has claimed the ring calls this.
  package func renewSampling(threshold: UInt32, until end: UInt64) {
    unsafe samples.word(SharedTableLayout.sampleEnd).pointee.store(end, ordering: .relaxed)
    setSampleThreshold(threshold)
  }

  /// Ends sampling, and releases the ring.
  package func endSampling() {
    setSampleThreshold(0)
    unsafe samples.word(SharedTableLayout.sampleEnd).pointee.store(0, ordering: .relaxed)
  }

  /// Takes the recorded samples out of the ring, in their order.
  ///
  /// - Parameter result: The array to which they are appended.
  /// - Returns: Whether samples may have been lost, because the ring was full or is damaged.
  package func takeSamples(into result: inout [Sample]) -> Bool {
    let start = unsafe samples.word(SharedTableLayout.sampleTail).pointee.load(ordering: .relaxed)
    let end = unsafe samples.word(SharedTableLayout.sampleHead).pointee.load(ordering: .relaxed)
    let slots = UInt64(samples.slots)
    // Recorders that checked the head at the same time may exceed the ring by one each.
    guard end &- start < 2 * slots else {
      dropSamples()
      return true
    }
    var position = start
    while position != end {
      // A slot without a sample belongs to a recorder that has not stored it yet; it is lost.
      let word = unsafe samples.slot(position).pointee.exchange(0, ordering: .relaxed)
      if let sample = Sample(word: word) { result.append(sample) }
      position &+= 1
    }
    unsafe samples.word(SharedTableLayout.sampleTail).pointee.store(end, ordering: .relaxed)
    return end &- start >= slots
  }

  private func dropSamples() {
    let head = unsafe samples.word(SharedTableLayout.sampleHead).pointee.load(ordering: .relaxed)
    unsafe samples.word(SharedTableLayout.sampleTail).pointee.store(head, ordering: .relaxed)
  }

  private func setSampleThreshold(_ threshold: UInt32) {
    unsafe half(SharedTableLayout.sampleThreshold).pointee.store(threshold, ordering: .relaxed)
  }

  /// Stores any word in the region for samples. For tests.
  package func setSampleRegionWord(_ offset: Int, _ value: UInt64) {
    unsafe samples.word(offset).pointee.store(value, ordering: .relaxed)
  }
}
