// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// The keys of a record in the table `indexes`: an entry for each key, and postings for each word of a
// full-text index.

extension StoreTransaction {
  /// Adds an object to the index of one of its keys.
  mutating func add(_ key: ObjectIndexKey, of sequence: UInt64) throws {
    guard ObjectFormat.isText(key.index) else {
      return try transaction.put(
        [], forKey: ObjectFormat.indexEntry(key, sequence: sequence), in: generation.indexes)
    }
    objects.postings.change(key, of: sequence, isRemoval: false)
    if objects.postings.isFull { try mergePostings() }
  }

  /// Removes an object from the index of one of its keys.
  mutating func remove(_ key: ObjectIndexKey, of sequence: UInt64) throws {
    guard ObjectFormat.isText(key.index) else {
      return _ = try transaction.remove(
        key: ObjectFormat.indexEntry(key, sequence: sequence), in: generation.indexes)
    }
    objects.postings.change(key, of: sequence, isRemoval: true)
    if objects.postings.isFull { try mergePostings() }
  }

  /// Writes the postings that the transaction has collected. Called before a full-text index is
  /// read, and before the commit.
  package mutating func mergePostings() throws {
    let state = objects
    if state.postings.isEmpty { return }
    var postings = PostingBuffer()
    swap(&postings, &state.postings)
    try postings.merge(into: &transaction, generation.indexes)
  }

  /// Removes an object from a full-text index, whose record does not name its words any more.
  mutating func removePostings(of sequence: UInt64, in index: UInt32) throws {
    try mergePostings()
    var found: [(word: [UInt8], posting: Posting)] = []
    try withSnapshot { snapshot in
      try ObjectReading.forEachPosting(in: index, snapshot) { word, posting in
        if posting.sequence == sequence { found.append((word.copied(), posting)) }
      }
    }
    objects.postings.remove(found, from: index)
  }
}

extension ObjectReading {
  /// Returns the objects that contain a word, in the order of their sequences.
  ///
  /// - Parameter isPrefix: Whether the words that begin with it count as well. Their occurrences
  ///   are summed.
  package static func postings(
    of word: [UInt8], isPrefix: Bool, in index: UInt32, _ snapshot: borrowing Snapshot
  ) throws -> [Posting] {
    var postings: [Posting] = []
    var words = 0
    var last: [UInt8] = []
    // The blocks of a word are before those of longer words, whose next byte is at least 0x20.
    let end = isPrefix ? Self.end(ofPrefix: word) : word + [0x20]
    // The first posting of the word that is read.
    var first = 0
    try forEachBlock(in: index, from: word, below: end, snapshot) { found, start, block in
      if words == 0 || !found.equals(last) {
        words += 1
        last = found.copied()
        first = postings.count
      }
      let before = postings.count
      try read(block, from: start, to: &postings)
      // A block knows its start only; that of the next one is behind its postings.
      if before > first, before < postings.count,
        postings[before].sequence <= postings[before - 1].sequence
      {
        throw corrupted
      }
    }
    return words > 1 ? merged(postings) : postings
  }

  /// Sums the postings of each object.
  private static func merged(_ postings: [Posting]) -> [Posting] {
    var merged: [Posting] = []
    merged.reserveCapacity(postings.count)
    for posting in postings.sorted(by: { $0.sequence < $1.sequence }) {
      if merged.last?.sequence == posting.sequence {
        merged[merged.count - 1].occurrences = UInt32(
          clamping: UInt64(merged[merged.count - 1].occurrences) + UInt64(posting.occurrences))
      } else {
        merged.append(posting)
      }
    }
    return merged
  }

  /// Returns the bytes after all words with a prefix.
  private static func end(ofPrefix prefix: [UInt8]) -> [UInt8] {
    // No byte of UTF-8 is 255.
    prefix + [0xFF]
  }

  /// Returns the totals of a full-text index.
  package static func textTotals(
    of index: UInt32, _ snapshot: borrowing Snapshot
  ) throws -> TextTotals {
    let key = PostingBlock.key([], in: index, from: 0)
    guard let bytes = try snapshot.transaction.value(forKey: key, in: snapshot.generation.indexes)
    else { return TextTotals() }
    guard let totals = TextTotals(bytes) else { throw corrupted }
    return totals
  }

  /// Calls `body` with the key and the value of every entry of an index.
  package static func forEachEntry(
    of index: UInt32, _ snapshot: borrowing Snapshot,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    var cursor = try Cursor(over: snapshot.generation.indexes, in: snapshot.transaction)
    let end = ObjectFormat.indexPrefix(index &+ 1)
    var more = try cursor.move(atLeast: ObjectFormat.indexPrefix(index))
    while more, cursor.currentKey.precedes(end) {
      try body(cursor.currentKey, cursor.currentValue)
      more = try cursor.moveToNext()
    }
  }

  static func forEachPosting(
    in index: UInt32, _ snapshot: borrowing Snapshot,
    _ body: (_ word: RawSpan, Posting) throws -> Void
  ) throws {
    var postings: [Posting] = []
    try forEachBlock(in: index, from: [1], below: nil, snapshot) { word, start, block in
      postings.removeAll(keepingCapacity: true)
      try read(block, from: start, to: &postings)
      for posting in postings { try body(word, posting) }
    }
  }

  private static func forEachBlock(
    in index: UInt32, from lower: [UInt8], below upper: [UInt8]?, _ snapshot: borrowing Snapshot,
    _ body: (_ word: RawSpan, _ start: UInt64, _ block: RawSpan) throws -> Void
  ) throws {
    var cursor = try Cursor(over: snapshot.generation.indexes, in: snapshot.transaction)
    let last =
      upper.map { ObjectFormat.indexPrefix(index, $0) } ?? ObjectFormat.indexPrefix(index &+ 1)
    var more = try cursor.move(atLeast: ObjectFormat.indexPrefix(index, lower))
    while more {
      do {
        let key = cursor.currentKey
        guard key.precedes(last), let parts = PackedKey(key), parts.number == index
        else { return }
        try body(key.slice(parts.bytes)!, parts.sequence, cursor.currentValue)
      }
      more = try cursor.moveToNext()
    }
  }

  private static func read(
    _ block: RawSpan, from start: UInt64, to postings: inout [Posting]
  ) throws {
    guard PostingBlock.append(block, from: start, to: &postings) else { throw corrupted }
  }

  private static var corrupted: LMDBError { LMDBError(.corrupted, during: "a full-text index") }
}
