// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE WORK OF THE DEMO
//
// A word is a run of ASCII letters and of bytes above 127, in lower case as far as ASCII goes.
// Words of ASCII letters are stemmed. A file that is not UTF-8, or contains a zero byte, has no
// words; that is a result and is cached like any other.

/// The cached result of one document.
struct DocumentIndex: Codable, Sendable, Equatable {
  let isText: Bool
  let words: Int
  /// The number of occurrences of each stem.
  let stems: [String: Int]

  /// Indexes the bytes of a document.
  init(of bytes: [UInt8]) {
    guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
      (isText, words, stems) = (false, 0, [:])
      return
    }
    var counts: [String: Int] = [:]
    var total = 0
    var word: [UInt8] = []
    word.reserveCapacity(64)
    for byte in bytes + [0] {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), 128...: word.append(byte)
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): word.append(byte | 0x20)
      default:
        guard !word.isEmpty else { continue }
        counts[String(decoding: PorterStemmer.stem(word), as: UTF8.self), default: 0] += 1
        total += 1
        word.removeAll(keepingCapacity: true)
      }
    }
    (isText, words, stems) = (true, total, counts)
  }
}

/// The index of all documents.
struct FullTextIndex {
  private(set) var stems: [String: Int] = [:]
  private(set) var words = 0
  private(set) var documents = 0
  private(set) var notTexts = 0
  private var sum: UInt64 = 0

  /// Adds a document. The order of documents does not matter.
  mutating func add(_ index: DocumentIndex) {
    documents += 1
    if !index.isText { notTexts += 1 }
    words += index.words
    for (stem, count) in index.stems {
      stems[stem, default: 0] += count
      var hash: UInt64 = 0xcbf2_9ce4_8422_2325
      for byte in stem.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
      sum &+= (hash ^ (hash >> 29)) &* UInt64(count)
    }
  }

  /// A checksum that two processes compare instead of their indexes: FNV-1a of each stem, weighted
  /// by its count, and the totals.
  var digest: UInt64 {
    sum &+ UInt64(words) &* 31 &+ UInt64(documents) &* 1_000_003 &+ UInt64(notTexts)
  }

  /// Returns the most frequent stems of at least five letters.
  func top(_ count: Int) -> [(stem: String, count: Int)] {
    stems.filter { $0.key.count > 4 }
      .sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(count)
      .map { (stem: $0.key, count: $0.value) }
  }
}
