// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// POSTINGS
//
// The entries of a full-text index in the table `indexes` have the form of all index entries, and a
// value:
//
//     word, sequence   ->  a block of postings: the objects from this sequence up to the next block
//                          of the word. The first block of a word has sequence 0.
//     no word, 0       ->  the totals of the index: the number of objects and the number of their
//                          words, two varints
//
// A posting consists of three varints: the sequence minus that of the posting before (or of the
// block), the occurrences of the word in the object, and the number of all words of the object. The
// last two are what the ranking needs, so a search reads no object that does not match.
//
// A block has at most 1,300 bytes: three of them fill a page. A transaction collects the changes of
// all its objects and merges them into the blocks word by word, because a block that gets ten
// postings is written as fast as one that gets one.

/// An object that contains a word.
package struct Posting: Sendable, Hashable {
  package let sequence: UInt64
  /// The number of times the object contains the word; zero for a posting to remove.
  package var occurrences: UInt32
  /// The number of words of the object.
  package let length: UInt32

  package init(sequence: UInt64, occurrences: UInt32, length: UInt32) {
    self.sequence = sequence
    self.occurrences = occurrences
    self.length = length
  }
}

/// The totals of a full-text index.
package struct TextTotals: Sendable, Hashable {
  /// The number of objects with words.
  package var objects: UInt64 = 0
  /// The number of their words.
  package var words: UInt64 = 0

  package init() {}

  /// Reads the totals, or returns `nil` if the bytes are no totals.
  package init?(_ bytes: RawSpan) {
    var offset = 0
    guard let objects = bytes.varint(at: &offset), let words = bytes.varint(at: &offset),
      offset == bytes.byteCount
    else { return nil }
    (self.objects, self.words) = (objects, words)
  }

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(varint: objects)
    bytes.append(varint: words)
    return bytes
  }

  /// Adds an object's words, or subtracts them.
  package mutating func count(_ length: UInt32, isRemoval: Bool = false) {
    if isRemoval {
      objects -= min(objects, 1)
      words -= min(words, UInt64(length))
    } else {
      objects += 1
      words += UInt64(length)
    }
  }
}

package enum PostingBlock {
  /// The maximum size of a block.
  static let limit = 1_300

  /// Returns the key of a block.
  static func key(_ word: [UInt8], in index: UInt32, from sequence: UInt64) -> [UInt8] {
    ObjectFormat.indexEntry(word, in: index, sequence: sequence)
  }

  /// Appends the postings of a block.
  ///
  /// - Parameter start: The sequence in the key of the block.
  /// - Returns: Whether the block is intact.
  package static func append(
    _ block: RawSpan, from start: UInt64, to postings: inout [Posting]
  ) -> Bool {
    var offset = 0
    var sequence = start
    var isFirst = true
    while offset < block.byteCount {
      guard let step = block.varint(at: &offset), step > 0 || isFirst,
        let occurrences = block.varint(at: &offset), occurrences > 0,
        let length = block.varint(at: &offset), occurrences <= length,
        length <= UInt64(UInt32.max)
      else { return false }
      let (next, overflow) = sequence.addingReportingOverflow(step)
      guard !overflow else { return false }
      sequence = next
      isFirst = false
      postings.append(
        Posting(
          sequence: sequence, occurrences: UInt32(truncatingIfNeeded: occurrences),
          length: UInt32(truncatingIfNeeded: length)))
    }
    return true
  }

  /// Returns the blocks of some postings, each with the sequence in its key.
  ///
  /// - Parameter start: The sequence in the key of the first block.
  static func blocks(
    _ postings: [Posting], from start: UInt64
  ) -> [(start: UInt64, bytes: [UInt8])] {
    var blocks: [(start: UInt64, bytes: [UInt8])] = []
    var (start, last) = (start, start)
    var block: [UInt8] = []
    for posting in postings {
      let before = block.count
      block.append(varint: posting.sequence - last)
      block.append(varint: UInt64(posting.occurrences))
      block.append(varint: UInt64(posting.length))
      last = posting.sequence
      guard block.count > limit else { continue }
      blocks.append((start, Array(block[..<before])))
      start = posting.sequence
      block = [0]
      block.append(varint: UInt64(posting.occurrences))
      block.append(varint: UInt64(posting.length))
    }
    if !block.isEmpty { blocks.append((start, block)) }
    return blocks
  }
}
