// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
package import LarderLMDB
internal import LarderSystem

/// The changes of postings that a transaction collects before it merges them into the blocks
/// (`PostingBlock.swift`).
package struct PostingBuffer {
  private struct Index {
    var words: [[UInt8]: [Posting]] = [:]
    var added = TextTotals()
    var removed = TextTotals()
  }

  /// The number of changes after which they are merged before the end of the transaction.
  private static let limit = 1 << 18

  private var indexes: [UInt32: Index] = [:]
  private var count = 0

  package init() {}

  package var isEmpty: Bool { indexes.isEmpty }
  package var isFull: Bool { count >= Self.limit }

  /// Adds the words of an object, or removes them. Of several changes of an object the last counts.
  package mutating func change(_ key: ObjectIndexKey, of sequence: UInt64, isRemoval: Bool) {
    guard let vector = TextVector(key.bytes) else { return }
    if isRemoval {
      indexes[key.index, default: Index()].removed.count(vector.length)
    } else {
      indexes[key.index, default: Index()].added.count(vector.length)
    }
    for word in vector.words {
      indexes[key.index]!.words[word.bytes, default: []].append(
        Posting(
          sequence: sequence, occurrences: isRemoval ? 0 : word.occurrences, length: vector.length))
    }
    count += vector.words.count
  }

  /// Removes an object from the postings of words that were found in the index itself.
  mutating func remove(_ postings: [(word: [UInt8], posting: Posting)], from index: UInt32) {
    guard let length = postings.first?.posting.length else { return }
    indexes[index, default: Index()].removed.count(length)
    for (word, posting) in postings {
      var removal = posting
      removal.occurrences = 0
      indexes[index]!.words[word, default: []].append(removal)
    }
    count += postings.count
  }

  /// Forgets the changes of an index, which was dropped.
  mutating func forget(_ index: UInt32) { indexes[index] = nil }

  /// Merges all changes into the blocks, in the order of the keys.
  package mutating func merge(
    into transaction: inout WriteTransaction, _ table: TableHandle
  ) throws {
    for (number, index) in indexes.sorted(by: { $0.key < $1.key }) {
      try changeTotals(of: number, index, in: &transaction, table)
      for word in SortKey.sorted(Array(index.words.keys)) {
        let changes = Self.ordered(index.words[word]!)
        var merge = PostingMerge(word: word, index: number, table: table)
        try merge.merge(changes, into: &transaction)
      }
    }
    indexes.removeAll(keepingCapacity: true)
    count = 0
  }

  private func changeTotals(
    of number: UInt32, _ index: Index, in transaction: inout WriteTransaction,
    _ table: TableHandle
  ) throws {
    let key = PostingBlock.key([], in: number, from: 0)
    var totals = TextTotals()
    if let bytes = try transaction.value(forKey: key, in: table) {
      guard let stored = TextTotals(bytes) else {
        throw LMDBError(.corrupted, during: "a full-text index")
      }
      totals = stored
    } else if index.added.objects == 0 {
      // The index was dropped, and the objects were saved before that.
      return
    }
    totals.objects += index.added.objects
    totals.words += index.added.words
    totals.objects -= min(totals.objects, index.removed.objects)
    totals.words -= min(totals.words, index.removed.words)
    try transaction.put(totals.bytes, forKey: key, in: table)
  }

  /// Returns the changes in the order of the sequences, only the last one of each.
  private static func ordered(_ changes: [Posting]) -> [Posting] {
    if changes.count == 1 { return changes }
    var places = changes.enumerated().map { ($0.element.sequence, $0.offset) }
    places.sort { $0 < $1 }
    var ordered: [Posting] = []
    ordered.reserveCapacity(changes.count)
    for (sequence, position) in places {
      if ordered.last?.sequence == sequence { ordered.removeLast() }
      ordered.append(changes[position])
    }
    return ordered
  }
}

/// The merge of changes into the blocks of one word.
private struct PostingMerge {
  let word: [UInt8]
  let index: UInt32
  let table: TableHandle

  private struct Block {
    /// The sequence in the key, or `nil` if there is no block yet.
    var start: UInt64?
    var postings: [Posting] = []
    /// The sequence at which the next block of the word begins.
    var end: UInt64?
  }

  /// - Parameter changes: The changes in the order of the sequences.
  mutating func merge(_ changes: [Posting], into transaction: inout WriteTransaction) throws {
    var next = 0
    while next < changes.count {
      let block = try block(of: changes[next].sequence, in: transaction)
      var merged: [Posting] = []
      merged.reserveCapacity(block.postings.count + changes.count - next)
      var position = 0
      while next < changes.count, block.end.map({ changes[next].sequence < $0 }) ?? true {
        let change = changes[next]
        next += 1
        while position < block.postings.count,
          block.postings[position].sequence < change.sequence
        {
          merged.append(block.postings[position])
          position += 1
        }
        if position < block.postings.count, block.postings[position].sequence == change.sequence {
          position += 1
        }
        if change.occurrences > 0 { merged.append(change) }
      }
      merged += block.postings[position...]
      try replace(block, with: merged, in: &transaction)
    }
  }

  private func replace(
    _ block: Block, with postings: [Posting], in transaction: inout WriteTransaction
  ) throws {
    if let start = block.start, postings.isEmpty {
      try transaction.remove(key: PostingBlock.key(word, in: index, from: start), in: table)
    }
    for (start, bytes) in PostingBlock.blocks(postings, from: block.start ?? 0) {
      try transaction.put(bytes, forKey: PostingBlock.key(word, in: index, from: start), in: table)
    }
  }

  /// Returns the block whose postings include a sequence.
  private func block(of sequence: UInt64, in transaction: borrowing WriteTransaction) throws
    -> Block
  {
    let prefix = ObjectFormat.indexPrefix(index, word)
    var block = Block()
    var cursor = try Cursor(over: table, in: transaction)
    var isFound = try cursor.move(
      atLeast: PostingBlock.key(word, in: index, from: sequence))
    if isFound, let start = Self.start(cursor.currentKey, prefix), start != sequence {
      block.end = start
    }
    if !isFound || Self.start(cursor.currentKey, prefix) != sequence {
      isFound = isFound ? try cursor.moveToPrevious() : try cursor.moveToLast()
    }
    guard isFound, let start = Self.start(cursor.currentKey, prefix) else { return block }
    block.start = start
    guard PostingBlock.append(cursor.currentValue, from: start, to: &block.postings) else {
      throw LMDBError(.corrupted, during: "a full-text index")
    }
    if block.end == nil, start == sequence, try cursor.moveToNext() {
      block.end = Self.start(cursor.currentKey, prefix)
    }
    return block
  }

  /// Returns the sequence in a key, or `nil` if it is of another word.
  private static func start(_ key: RawSpan, _ prefix: [UInt8]) -> UInt64? {
    guard let parts = PackedKey(key), parts.bytes.upperBound == prefix.count,
      key.slice(0..<prefix.count)!.equals(prefix)
    else { return nil }
    return parts.sequence
  }
}
