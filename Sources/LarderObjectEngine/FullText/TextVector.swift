// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderSystem

// THE WORDS OF AN OBJECT
//
// A record owns one key of each full-text index: its bytes are the words of the object's texts. Any
// process that replaces or deletes the record removes the object from the postings of these words.
//
//     varint  number of words, with repetitions
//     varint  number of distinct words
//     then for each distinct word, in the order of the bytes:
//     varint  number of bytes that it shares with the word before
//     varint  number of the other bytes, then these bytes
//     varint  occurrences
//
// The identifier of a full-text index has the highest bit set, so a record says by itself which of
// its keys are words.

extension ObjectFormat {
  /// The bit of the identifiers of full-text indexes.
  package static let textBit: UInt32 = 1 << 31
  /// The maximum number of bytes of a word. The rest of a longer word is ignored.
  package static let wordLimit = 64

  /// Returns whether an identifier is that of a full-text index.
  @inline(__always)
  package static func isText(_ index: UInt32) -> Bool { index & textBit != 0 }
}

extension ObjectTypeRecord.Index {
  /// The beginning of the definition of a full-text index.
  package static let textDefinition = "full text"

  /// The definition of an index of today's rules for words (`TextWords.swift` of LarderObjects), whose
  /// number it ends with.
  package static let currentTextDefinition = textDefinition + " 2"

  /// Whether the index is a full-text index.
  package var isText: Bool { definition.hasPrefix(Self.textDefinition) }
}

extension StoreTransaction {
  /// Assigns an identifier for an index that was never used.
  package mutating func newNumber(for index: ObjectTypeRecord.Index) throws -> UInt32 {
    let number = try newObjectNumber()
    return index.isText ? number | ObjectFormat.textBit : number
  }
}

/// The distinct words of an object's texts.
package struct TextVector: Sendable {
  package struct Word: Sendable, Hashable {
    package let bytes: [UInt8]
    package let occurrences: UInt32
  }

  /// The number of words, with repetitions.
  package let length: UInt32
  /// The distinct words in the order of their bytes.
  package let words: [Word]

  /// Counts words.
  ///
  /// - Parameter words: At most ``ObjectFormat/wordLimit`` bytes each.
  package init(_ words: [[UInt8]]) {
    length = UInt32(clamping: words.count)
    var distinct: [Word] = []
    distinct.reserveCapacity(words.count)
    let words = SortKey.sorted(words)
    var position = 0
    while position < words.count {
      let word = words[position]
      var end = position + 1
      while end < words.count, words[end] == word { end += 1 }
      distinct.append(Word(bytes: word, occurrences: UInt32(clamping: end - position)))
      position = end
    }
    self.words = distinct
  }

  /// Reads the words in a key, or returns `nil` if the bytes are not such a key.
  package init?(_ key: [UInt8]) {
    let found = key.withRawSpan { key -> (UInt32, [Word])? in
      var offset = 0
      guard let length = key.varint(at: &offset), length <= UInt64(UInt32.max),
        let count = key.varint(at: &offset), count <= length, count <= UInt64(key.byteCount / 3)
      else { return nil }
      var words: [Word] = []
      words.reserveCapacity(Int(count))
      var word: [UInt8] = []
      for _ in 0..<count {
        guard let shared = key.varint(at: &offset), shared <= UInt64(word.count),
          let rest = key.varint(at: &offset), rest <= UInt64(ObjectFormat.wordLimit),
          let bytes = key.slice(offset..<(offset + Int(rest)))
        else { return nil }
        offset += Int(rest)
        word.removeLast(word.count - Int(shared))
        word.append(bytes)
        guard !word.isEmpty, word.count <= ObjectFormat.wordLimit,
          let occurrences = key.varint(at: &offset), occurrences > 0, occurrences <= length
        else { return nil }
        words.append(Word(bytes: word, occurrences: UInt32(occurrences)))
      }
      return offset == key.byteCount ? (UInt32(length), words) : nil
    }
    guard let found else { return nil }
    (length, words) = found
  }

  /// The key of a record.
  package var key: [UInt8] {
    var key: [UInt8] = []
    key.append(varint: UInt64(length))
    key.append(varint: UInt64(words.count))
    var last: [UInt8] = []
    for word in words {
      var shared = 0
      while shared < last.count, shared < word.bytes.count, last[shared] == word.bytes[shared] {
        shared += 1
      }
      key.append(varint: UInt64(shared))
      key.append(varint: UInt64(word.bytes.count - shared))
      key += word.bytes[shared...]
      key.append(varint: UInt64(word.occurrences))
      last = word.bytes
    }
    return key
  }
}
