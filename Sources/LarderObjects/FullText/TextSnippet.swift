// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The words of a text with their places, to show where a full-text query matches.
struct TextSnippet {
  private struct Word {
    let range: Range<String.Index>
    let isMatch: Bool
  }

  private let text: String
  private let words: [Word]

  init(_ text: String, terms: [TextTerm]) {
    self.text = text
    var words: [Word] = []
    // What white space separates is shown as a whole: a word with its punctuation.
    for piece in text.split(whereSeparator: \.isWhitespace) {
      let parts = TextWords.words(of: String(piece))
      let isMatch = parts.contains { part in terms.contains { $0.matches(part) } }
      words.append(Word(range: piece.startIndex..<piece.endIndex, isMatch: isMatch))
    }
    self.words = words
  }

  func text(words count: Int, _ mark: (String) -> String) -> String {
    guard !words.isEmpty else { return "" }
    let window = window(count)
    var result = window.lowerBound > 0 ? "… " : ""
    for (offset, word) in words[window].enumerated() {
      if offset > 0 { result += " " }
      result += word.isMatch ? marked(word.range, mark) : String(text[word.range])
    }
    return window.upperBound < words.count ? result + " …" : result
  }

  /// Returns the first window with the most matches, with its first match near the beginning.
  private func window(_ count: Int) -> Range<Int> {
    if words.count <= count { return 0..<words.count }
    var matches = words[..<count].count(where: \.isMatch)
    var (best, start) = (matches, 0)
    for end in count..<words.count {
      matches += (words[end].isMatch ? 1 : 0) - (words[end - count].isMatch ? 1 : 0)
      if matches > best { (best, start) = (matches, end - count + 1) }
    }
    // Words before the first match show the context, as far as no match leaves the window.
    let range = start..<start + count
    let last = words[range].lastIndex(where: \.isMatch) ?? range.lowerBound
    let first = words[range].firstIndex(where: \.isMatch) ?? range.lowerBound
    let space = max(0, count - (last - first + 1)) / 2
    let begin = min(max(first - space, 0), words.count - count)
    return begin..<begin + count
  }

  /// Marks a piece of text without the punctuation around it.
  private func marked(_ range: Range<String.Index>, _ mark: (String) -> String) -> String {
    let piece = text[range]
    func isPart(_ character: Character) -> Bool { character.isLetter || character.isNumber }
    guard let first = piece.firstIndex(where: isPart), let last = piece.lastIndex(where: isPart)
    else { return mark(String(piece)) }
    let end = piece.index(after: last)
    return String(piece[..<first]) + mark(String(piece[first..<end])) + String(piece[end...])
  }
}
