// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE STEMMER OF M. F. PORTER (1980), "AN ALGORITHM FOR SUFFIX STRIPPING"
//
// The measure m of a stem is the number of changes from vowels to consonants in it. Each step
// replaces the longest suffix that matches, if the stem before it satisfies the step's condition:
//
//   1a  plurals                        caresses -> caress, ponies -> poni, cats -> cat
//   1b  -eed with m > 0, -ed and -ing with a vowel before; then at -> ate, doubled letters become
//   one 1c  y -> i with a vowel before
//   2   m > 0: -ational -> -ate, -ization -> -ize, ...
//   3   m > 0: -icate -> -ic, -ful, -ness, ...
//   4   m > 1: -al, -ance, -er, -ment, ...
//   5   -e with m > 1, or m = 1 and no short syllable before; -ll -> -l with m > 1

/// The stemmer of English words.
struct PorterStemmer {
  private var word: [UInt8]

  /// Returns the stem of a word.
  ///
  /// - Parameter word: Lower-case letters. A word with other bytes, or of one or two letters, is
  ///   its own stem.
  static func stem(_ word: [UInt8]) -> [UInt8] {
    guard word.count > 2, word.allSatisfy({ $0 < 128 }) else { return word }
    var stemmer = PorterStemmer(word: word)
    stemmer.removePlural()
    stemmer.removePastAndProgressive()
    if stemmer.ends("y"), stemmer.hasVowel(before: 1) { stemmer.replace(1, "i".utf8) }
    stemmer.replaceLongest(of: step2, measure: 0)
    stemmer.replaceLongest(of: step3, measure: 0)
    stemmer.replaceLongest(of: step4, measure: 1)
    stemmer.removeFinalE()
    return stemmer.word
  }

  // MARK: Steps

  private mutating func removePlural() {
    if ends("sses") || ends("ies") {
      replace(2, [])
    } else if ends("ss") {
      return
    } else if ends("s") {
      replace(1, [])
    }
  }

  private mutating func removePastAndProgressive() {
    if ends("eed") {
      if measure(before: 3) > 0 { replace(1, []) }
      return
    }
    if ends("ed"), hasVowel(before: 2) {
      replace(2, [])
    } else if ends("ing"), hasVowel(before: 3) {
      replace(3, [])
    } else {
      return
    }
    if ends("at") || ends("bl") || ends("iz") {
      replace(0, "e".utf8)
    } else if word.count > 1, word.last == word[word.count - 2], !isVowel(word.count - 1),
      !ends("l"), !ends("s"), !ends("z")
    {
      replace(1, [])
    } else if measure(before: 0) == 1, isShortSyllable(before: 0) {
      replace(0, "e".utf8)
    }
  }

  private mutating func removeFinalE() {
    if ends("e") {
      let measure = measure(before: 1)
      if measure > 1 || measure == 1 && !isShortSyllable(before: 1) { replace(1, []) }
    }
    if ends("ll"), measure(before: 1) > 1 { replace(1, []) }
  }

  private mutating func replaceLongest(
    of rules: [(suffix: [UInt8], replacement: [UInt8])], measure limit: Int
  ) {
    guard let (suffix, replacement) = rules.first(where: { ends($0.suffix) }) else { return }
    let count = suffix.count
    guard measure(before: count) > limit else { return }
    // -ion goes only after s or t.
    if limit == 1, count == 3, ends("ion"),
      !(word.count > 3 && "st".utf8.contains(word[word.count - 4]))
    {
      return
    }
    replace(count, replacement)
  }

  private static func rules(
    _ rules: [(String, String)]
  ) -> [(suffix: [UInt8], replacement: [UInt8])] {
    rules.map { (suffix: Array($0.0.utf8), replacement: Array($0.1.utf8)) }
  }

  // A suffix precedes those that it ends with.
  private static let step2 = rules([
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("abli", "able"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"),
    ("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"),
    ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
  ])
  private static let step3 = rules([
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""),
    ("ness", ""),
  ])
  private static let step4 = rules([
    ("al", ""), ("ance", ""), ("ence", ""), ("er", ""), ("ic", ""), ("able", ""), ("ible", ""),
    ("ant", ""), ("ement", ""), ("ment", ""), ("ent", ""), ("ion", ""), ("ou", ""), ("ism", ""),
    ("ate", ""), ("iti", ""), ("ous", ""), ("ive", ""), ("ize", ""),
  ])

  // MARK: Letters

  private func ends(_ suffix: [UInt8]) -> Bool {
    word.count > suffix.count && word.suffix(suffix.count).elementsEqual(suffix)
  }

  private func ends(_ suffix: String) -> Bool {
    word.count > suffix.utf8.count && word.suffix(suffix.utf8.count).elementsEqual(suffix.utf8)
  }

  private mutating func replace(_ count: Int, _ suffix: some Sequence<UInt8>) {
    word.removeLast(count)
    word.append(contentsOf: suffix)
  }

  /// Whether the letter is a vowel: a, e, i, o, u, and a y after a consonant.
  private func isVowel(_ index: Int) -> Bool {
    switch word[index] {
    case UInt8(ascii: "a"), UInt8(ascii: "e"), UInt8(ascii: "i"), UInt8(ascii: "o"),
      UInt8(ascii: "u"):
      true
    case UInt8(ascii: "y"): index > 0 && !isVowel(index - 1)
    default: false
    }
  }

  private func hasVowel(before count: Int) -> Bool {
    (0..<word.count - count).contains(where: isVowel)
  }

  private func measure(before count: Int) -> Int {
    var result = 0
    var isAfterVowel = false
    for index in 0..<word.count - count {
      let vowel = isVowel(index)
      if isAfterVowel, !vowel { result += 1 }
      isAfterVowel = vowel
    }
    return result
  }

  /// Whether the stem ends with consonant, vowel, consonant, the last one not w, x or y.
  private func isShortSyllable(before count: Int) -> Bool {
    let end = word.count - count - 1
    return end >= 2 && !isVowel(end) && isVowel(end - 1) && !isVowel(end - 2)
      && !"wxy".utf8.contains(word[end])
  }
}
