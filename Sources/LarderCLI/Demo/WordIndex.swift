// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE WORK OF THE DEMO
//
// A word is a run of ASCII letters and of bytes above 127, in lower case as far as ASCII goes; a
// file that is not UTF-8, or has a zero byte, is no text and has no words. That a file is no text
// is a result like any other: it is cached, so that it is found out once.

import Foundation

/// What is cached for one file.
struct FileIndex: Codable, Sendable, Equatable {
  let isText: Bool
  let lines: Int
  /// How often each word occurs.
  let words: [String: Int]

  /// Counts the words of a file's bytes.
  init(of bytes: [UInt8]) {
    guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
      (isText, lines, words) = (false, 0, [:])
      return
    }
    var counts: [String: Int] = [:]
    var lineCount = 0
    var word: [UInt8] = []
    word.reserveCapacity(64)
    for byte in bytes {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), 128...: word.append(byte)
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): word.append(byte | 0x20)
      default:
        if byte == UInt8(ascii: "\n") { lineCount += 1 }
        guard !word.isEmpty else { continue }
        counts[String(decoding: word, as: UTF8.self), default: 0] += 1
        word.removeAll(keepingCapacity: true)
      }
    }
    if !word.isEmpty { counts[String(decoding: word, as: UTF8.self), default: 0] += 1 }
    (isText, lines, words) = (true, lineCount, counts)
  }
}

/// The index of all files together.
struct WordIndex: Equatable {
  private(set) var words: [String: Int] = [:]
  private(set) var lines = 0
  private(set) var texts = 0
  private(set) var notTexts = 0

  mutating func add(_ file: FileIndex) {
    guard file.isText else {
      notTexts += 1
      return
    }
    texts += 1
    lines += file.lines
    for (word, count) in file.words { words[word, default: 0] += count }
  }

  /// All words, each as often as it occurs.
  var occurrences: Int { words.values.reduce(0, +) }

  /// The most frequent words.
  func top(_ count: Int) -> [(word: String, count: Int)] {
    words.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(count)
      .map { (word: $0.key, count: $0.value) }
  }

  /// A number that two processes compare instead of their indexes: the same for the same index,
  /// in whatever order the files came (FNV-1a of each word, weighted by its count, and the books).
  var digest: UInt64 {
    var sum = UInt64(lines) &* 31 &+ UInt64(texts) &* 1_000_003 &+ UInt64(notTexts)
    for (word, count) in words {
      var hash: UInt64 = 0xcbf2_9ce4_8422_2325
      // Texts that are canonically equal are one key, in the bytes of whichever came first.
      let bytes =
        word.utf8.allSatisfy { $0 < 128 } ? word : word.precomposedStringWithCanonicalMapping
      for byte in bytes.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
      sum &+= (hash ^ (hash >> 29)) &* UInt64(count)
    }
    return sum
  }
}
