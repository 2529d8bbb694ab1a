// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// The content of the table of indexes, stored or expected for some objects: a fingerprint of all entries
/// and postings, and the totals of the full-text indexes.
struct IndexContent: Hashable {
  private var entries = SetFingerprint()
  private var totals: [UInt32: TextTotals] = [:]

  /// The number of entries and postings.
  var count: Int { entries.count }

  /// Adds what belongs into the table for a key of an object.
  mutating func add(_ key: ObjectIndexKey, of sequence: UInt64) {
    guard ObjectFormat.isText(key.index) else {
      return entries.add(ObjectFormat.indexEntry(key, sequence: sequence))
    }
    guard let vector = TextVector(key.bytes) else { return }
    totals[key.index, default: TextTotals()].count(vector.length)
    for word in vector.words {
      add(
        word.bytes, key.index,
        Posting(sequence: sequence, occurrences: word.occurrences, length: vector.length))
    }
  }

  /// Adds an entry of the table.
  mutating func add(entry key: RawSpan, _ value: RawSpan) {
    guard let parts = PackedKey(key), ObjectFormat.isText(parts.number) else {
      return entries.add(key.copied())
    }
    let (index, start) = (parts.number, parts.sequence)
    let word = key.slice(parts.bytes)!.copied()
    if word.isEmpty {
      guard let found = TextTotals(value) else { return entries.add(key.copied()) }
      // An index without objects has no totals, or zero.
      if found != TextTotals() { totals[index] = found }
      return
    }
    var postings: [Posting] = []
    let isIntact = PostingBlock.append(value, from: start, to: &postings)
    // A damaged or empty block is in no index of intact objects.
    if !isIntact || postings.isEmpty { entries.add(key.copied()) }
    for posting in postings { add(word, index, posting) }
  }

  private mutating func add(_ word: [UInt8], _ index: UInt32, _ posting: Posting) {
    var item: [UInt8] = []
    item.append(littleEndian: index)
    item += word
    item.append(littleEndian: posting.sequence)
    item.append(littleEndian: posting.occurrences)
    item.append(littleEndian: posting.length)
    entries.add(item)
  }
}
