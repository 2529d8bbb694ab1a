// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
public import Synchronization

// THE USE TABLE
//
// A hash table of words in `shared.table`, which readers of all processes write without a lock. A
// word contains what is known of the use of one key:
//
//   bits 63 to 10   tick of the last use: milliseconds since 1970 << 20, then a count of writes
//   bits 9 and 8    uses since the admission to a queue, at most three
//   bits 7 to 0     the tag: bits 24 to 31 of the key's hash prefix
//
// The hash prefix of a key is the upper half of its hash. Its low bits select a bucket of eight
// words (one cache line), and bits 21 to 23 the word at which a search begins. Words are never
// emptied, so a search ends at the first empty word. In a full bucket the word with the oldest use
// is replaced.
//
// All accesses are relaxed. Two processes that write one word at the same time lose one of the two
// uses. Eviction chooses from these words and nothing else depends on them.
//
// A hit stores nothing if the word is as it would be stored. Its tick comes from the use clock: in
// a store that evicts by recency it advances with every write, otherwise about every 16 seconds,
// and whenever eviction has looked at an eighth of the entries. So a key that is read often is stored
// once in that time. A memory tier notes the tick with a value whose word has all bits: until
// the clock advances, its hits do not look at the table.

/// A view of the use table. The table's owner keeps it mapped.
@safe @frozen @usableFromInline
package struct UseTable {
  // Sound: points to the `mask + 1` buckets of the mapping, which lives as long as the owner.
  @usableFromInline let words: UnsafeMutablePointer<Atomic<UInt64>>
  @usableFromInline let mask: Int

  @inlinable @inline(__always) package static var tickMask: UInt64 { ~0x3FF }
  @inlinable @inline(__always) static var usesMask: UInt64 { 0x300 }
  @inlinable @inline(__always) static var oneUse: UInt64 { 0x100 }

  /// Returns the low bits of a tick, for comparison: the same ones come back after about an hour.
  @inlinable @inline(__always)
  package static func mark(of tick: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: tick >> 10) }

  @unsafe @inlinable @inline(__always)
  init(words: UnsafeMutablePointer<Atomic<UInt64>>, mask: Int) {
    unsafe self.words = words
    self.mask = mask
  }

  /// A word of a bucket, as found by a search.
  @frozen @usableFromInline
  struct Found {
    @usableFromInline let index: Int
    @usableFromInline let word: UInt64
    /// Whether the word is that of the key. Otherwise it is the one to store a word of the key in.
    @usableFromInline let isOfKey: Bool

    @inlinable @inline(__always)
    init(index: Int, word: UInt64, isOfKey: Bool) {
      self.index = index
      self.word = word
      self.isOfKey = isOfKey
    }
  }

  /// Searches the bucket of a hash prefix.
  @inlinable @inline(__always)
  func find(_ prefix: UInt32) -> Found {
    let bucket = (Int(prefix) & mask) << 3
    let tag = UInt64(prefix >> 24)
    let index = bucket + Int(prefix >> 21 & 7)
    let word = unsafe words[index].load(ordering: .relaxed)
    if word == 0 || word & 0xFF == tag {
      return Found(index: index, word: word, isOfKey: word != 0)
    }
    return searchRest(of: bucket, after: index, tag: tag)
  }

  @usableFromInline
  func searchRest(of bucket: Int, after first: Int, tag: UInt64) -> Found {
    var oldest = Found(
      index: first, word: unsafe words[first].load(ordering: .relaxed), isOfKey: false)
    for step in 1..<8 {
      let index = bucket + (first + step) & 7
      let word = unsafe words[index].load(ordering: .relaxed)
      if word == 0 || word & 0xFF == tag {
        return Found(index: index, word: word, isOfKey: word != 0)
      }
      if word < oldest.word { oldest = Found(index: index, word: word, isOfKey: false) }
    }
    return oldest
  }

  /// Records a use: at most one relaxed store, and none if the word is as it would be stored.
  ///
  /// - Returns: Whether the word had all bits already: another use at `now` would store nothing.
  @inlinable @inline(__always) @discardableResult
  package func touch(_ prefix: UInt32, now: UInt64) -> Bool {
    // Of a key that is used often, the first word of the search has all bits already.
    let index = (Int(prefix) & mask) << 3 + Int(prefix >> 21 & 7)
    let full = now | UseTable.usesMask | UInt64(prefix >> 24)
    if unsafe words[index].load(ordering: .relaxed) == full { return true }
    return record(prefix, now: now)
  }

  @usableFromInline
  func record(_ prefix: UInt32, now: UInt64) -> Bool {
    let found = find(prefix)
    var next = now | UInt64(prefix >> 24) | UseTable.oneUse
    if found.isOfKey {
      let uses = found.word & UseTable.usesMask
      // A writer may have stored a later tick.
      next =
        max(now, found.word & UseTable.tickMask) | UInt64(prefix >> 24)
        | (uses == UseTable.usesMask ? uses : uses + UseTable.oneUse)
      if next == found.word { return next & UseTable.usesMask == UseTable.usesMask }
    }
    unsafe words[found.index].store(next, ordering: .relaxed)
    return false
  }

  /// Records a write of a key. A new key has no uses; of any other key a write is a use.
  package func recordWrite(_ prefix: UInt32, tick: UInt64, isNew: Bool) {
    let found = find(prefix)
    var uses = found.isOfKey && !isNew ? found.word & UseTable.usesMask : 0
    if !isNew, uses != UseTable.usesMask { uses += UseTable.oneUse }
    // A read may have been recorded with a later tick.
    let last = found.isOfKey ? max(tick, found.word & UseTable.tickMask) : tick
    unsafe words[found.index].store(last | uses | UInt64(prefix >> 24), ordering: .relaxed)
  }

  /// Copies the words of a table of another size. The bucket of a word is known only as far as the smaller
  /// table tells: a larger one gets the word in each bucket that its key may have.
  ///
  /// A word stays at its place in the bucket, or comes to the next free one: a search that finds it
  /// there finds no empty word before it.
  package func inherit(from old: UseTable) {
    for bucket in 0...max(mask, old.mask) {
      for place in 0..<8 {
        let word = unsafe old.words[(bucket & old.mask) << 3 + place].load(ordering: .relaxed)
        if word != 0 { insert(word, bucket: bucket & mask, place: place) }
      }
    }
  }

  private func insert(_ word: UInt64, bucket: Int, place: Int) {
    var oldest: (index: Int, word: UInt64)?
    for step in 0..<8 {
      let index = bucket << 3 + (place + step) & 7
      let found = unsafe words[index].load(ordering: .relaxed)
      if found == 0 || found & 0xFF == word & 0xFF {
        return unsafe words[index].store(max(found, word), ordering: .relaxed)
      }
      if found < oldest?.word ?? .max { oldest = (index, found) }
    }
    if let oldest, oldest.word < word {
      unsafe words[oldest.index].store(word, ordering: .relaxed)
    }
  }

  /// Returns the tick of the last use of a key, or zero.
  @inlinable
  package func lastUse(_ prefix: UInt32) -> UInt64 {
    let found = find(prefix)
    return found.isOfKey ? found.word & UseTable.tickMask : 0
  }

  /// Returns the uses of a key since its admission, at most three.
  func uses(_ prefix: UInt32) -> Int {
    let found = find(prefix)
    return found.isOfKey ? Int(found.word & UseTable.usesMask) >> 8 : 0
  }

  /// Replaces the use count of a key; its last use stays.
  func setUses(_ prefix: UInt32, _ uses: Int) {
    let found = find(prefix)
    guard found.isOfKey else { return }
    let next = found.word & ~UseTable.usesMask | UInt64(uses) << 8
    unsafe words[found.index].store(next, ordering: .relaxed)
  }

  /// Forgets the last use of a key, as happens when its word is replaced. For tests.
  func forget(_ prefix: UInt32) {
    let found = find(prefix)
    guard found.isOfKey else { return }
    unsafe words[found.index].store(found.word & ~UseTable.tickMask, ordering: .relaxed)
  }

  func prefetch(_ prefix: UInt32) {
    unsafe LarderSystem.prefetch(words + (Int(prefix) & mask) << 3)
  }
}

// The pointer never changes, and points to atomics.
extension UseTable: @unchecked Sendable {}

/// Returns the upper half of a key's hash, by which the use table and the queues know the key.
@inlinable @inline(__always)
package func hashPrefix(_ hash: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: hash >> 32) }
