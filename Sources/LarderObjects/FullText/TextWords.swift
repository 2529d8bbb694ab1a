// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
// The standard library's own normalisation, as in `ComposedText.swift` of LarderCoding.
@_spi(_Unicode) internal import Swift

// WORDS
//
// Texts are divided by the default rules for word boundaries of Unicode (UAX #29, section 4.1): letters
// and digits form words; "can't", "3.14" and "example.com" are one word each; "e-mail" is two. These
// rules do not divide texts in scripts without spaces: an ideograph or a Hiragana character is one
// word, and a run of Thai letters is one word, because dividing it needs a dictionary.
//
// The properties of Unicode decide, as the standard library has them: which characters are letters
// (Alphabetic), digits, marks and connectors (the general category) or invisible (Default_Ignorable_Code_Point,
// and the category of format characters). It has no property for the characters that join letters or
// digits, and none for the script, so those are listed. Where this differs from the word break property:
//
//   - a colon, and its other forms, divides words, and so does the narrow no-break space
//   - the number signs of Arabic, Syriac and Kaithi are invisible
//   - what is no letter by its category is none: modifier symbols, the Armenian signs in words and the tone
//     letters U+A708...A716; the Hebrew geresh and the Arabic decimal separator only join
//   - U+FE10 and U+FE14, vertical forms of the comma and the semicolon, join digits as these do
//   - U+FF9E and U+FF9F are Katakana; New Tai Lue's U+19DA is no digit
//   - double quotation marks do not join Hebrew letters; two regional indicators are no word
//
// Words are folded: letters without case and without diacritical marks, in normalisation form C for
// everything else, and without invisible characters. So "Café", "CAFÉ" and "cafe" are one word, and so are
// "Straße" and "STRASSE". Without case means the full case folding of Unicode, formed of the mappings to
// lower, upper and lower case. One letter differs from CaseFolding.txt: "ı" is "i", because its upper
// case is "I".
//
// A mark is a diacritic if it is above, below or over its letter (combining classes 1 and 200 to 240), a point
// of Hebrew, Arabic or Syriac (10 to 36), or encloses the letter. The vowels and viramas of Indic scripts,
// the tones of Thai and the sound marks of Kana have other classes, and belong to the word.
//
// `ObjectTypeRecord.Index.currentTextDefinition` has the number of these rules: an index of other rules is not
// used, and built again. Raise it with each change here.

/// The words of texts.
package struct TextWords {
  /// The folded words in order, each of at most `ObjectFormat.wordLimit` bytes.
  private(set) var words: [[UInt8]] = []

  private var word: [UInt8] = []
  /// Whether the word has a letter or a digit.
  private var isWord = false
  private var last = Kind.other
  /// The byte of a character after which a word continues if the right character follows.
  private var pending: (byte: UInt8, kind: Kind)?

  /// Returns the words of a text.
  package static func words(of text: String) -> [[UInt8]] {
    var state = TextWords()
    state.add(text)
    return state.words
  }

  /// Appends the words of a text.
  mutating func add(_ text: String) {
    var text = composed(text)
    text.makeContiguousUTF8()
    for scalar in text.unicodeScalars {
      if scalar.isASCII {
        take(ascii: UInt8(truncatingIfNeeded: scalar.value))
      } else {
        take(scalar)
      }
    }
    finish()
  }

  // MARK: Boundaries

  /// Returns whether a character is not seen, and makes no difference to a word. The zero width space
  /// is none: it divides words.
  static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
    guard !scalar.isASCII, scalar != "\u{200B}" else { return false }
    let properties = scalar.properties
    return properties.isDefaultIgnorableCodePoint || properties.generalCategory == .format
  }

  private enum Kind {
    case letter, digit, katakana, single
    /// Joins letters, digits and itself, like the underscore.
    case joiner
    /// Marks, which belong to the character before, and invisible characters.
    case extender
    /// Characters between letters, between digits, or between either.
    case midLetter, midDigit, midEither
    case other

    init(_ scalar: Unicode.Scalar) {
      switch scalar.value {
      case 0x2019, 0x2018, 0x2024, 0xFF07, 0xFF0E, 0xFE52: self = .midEither
      case 0xB7, 0x387, 0x55F, 0x5F3, 0x5F4, 0x2027: self = .midLetter
      case 0x37E, 0x589, 0x60C, 0x60D, 0x66B, 0x66C, 0x7F8, 0x2044, 0xFE10, 0xFE14, 0xFE50, 0xFE54,
        0xFF0C, 0xFF1B:
        self = .midDigit
      case 0x3041...0x3096, 0x309D...0x309F, 0x1B001...0x1B11F, 0x1B132, 0x1B150...0x1B152:
        self = .single
      case 0x3031...0x3035, 0x309B, 0x309C, 0x30A0...0x30FA, 0x30FC...0x30FF, 0x31F0...0x31FF,
        0x32D0...0x32FE, 0x3300...0x3357, 0xFF66...0xFF9F, 0x1AFF0...0x1AFFE, 0x1B000,
        0x1B120...0x1B128, 0x1B155, 0x1B164...0x1B168:
        self = .katakana
      default: self.init(general: scalar)
      }
    }

    private init(general scalar: Unicode.Scalar) {
      let properties = scalar.properties
      switch properties.generalCategory {
      case _ where TextWords.isInvisible(scalar): self = .extender
      case .nonspacingMark, .enclosingMark, .spacingMark: self = .extender
      case .decimalNumber: self = .digit
      case .connectorPunctuation: self = .joiner
      case _ where properties.isIdeographic: self = .single
      case _ where properties.isAlphabetic: self = .letter
      default: self = .other
      }
    }
  }

  private mutating func take(ascii byte: UInt8) {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"):
      begin(.letter)
      append(byte)
    case UInt8(ascii: "A")...UInt8(ascii: "Z"):
      begin(.letter)
      append(byte | 0x20)
    case UInt8(ascii: "0")...UInt8(ascii: "9"):
      begin(.digit)
      append(byte)
    case UInt8(ascii: "_"):
      begin(.joiner)
      append(byte)
    case UInt8(ascii: "'"), UInt8(ascii: "."): suspend(byte, .midEither)
    case UInt8(ascii: ","), UInt8(ascii: ";"): suspend(byte, .midDigit)
    default: finish()
    }
  }

  private mutating func take(_ scalar: Unicode.Scalar) {
    let kind = Kind(scalar)
    switch kind {
    case .letter, .digit, .katakana, .joiner:
      begin(kind)
      append(scalar)
    case .single:
      finish()
      isWord = true
      append(scalar)
      last = .single
    case .extender:
      if pending == nil, !word.isEmpty { append(scalar) }
    case .midLetter: suspend(UInt8(ascii: "."), .midLetter)
    case .midDigit: suspend(UInt8(ascii: ","), .midDigit)
    case .midEither:
      let isQuote = [0x2018, 0x2019, 0xFF07].contains(scalar.value)
      suspend(UInt8(ascii: isQuote ? "'" : "."), .midEither)
    case .other: finish()
    }
  }

  /// Ends the word before a character if there is a boundary.
  private mutating func begin(_ kind: Kind) {
    if let (byte, between) = pending {
      let joins =
        (kind == .letter && last == .letter && between != .midDigit)
        || (kind == .digit && last == .digit && between != .midLetter)
      if joins { append(byte) } else { finish() }
      pending = nil
    } else if !word.isEmpty {
      switch (last, kind) {
      case (.letter, .letter), (.letter, .digit), (.digit, .letter), (.digit, .digit),
        (.katakana, .katakana), (.joiner, _), (_, .joiner):
        if last == .single { finish() }
      default: finish()
      }
    }
    if kind != .joiner { isWord = true }
    last = kind
  }

  private mutating func suspend(_ byte: UInt8, _ kind: Kind) {
    guard pending == nil, last == .letter || last == .digit else { return finish() }
    pending = (byte, kind)
  }

  private mutating func finish() {
    if isWord, !word.isEmpty { words.append(word) }
    word.removeAll(keepingCapacity: true)
    isWord = false
    last = .other
    pending = nil
  }

  // MARK: Folding

  private mutating func append(_ byte: UInt8) {
    if word.count < ObjectFormat.wordLimit { word.append(byte) }
  }

  private mutating func append(_ scalar: Unicode.Scalar) {
    let start = word.count
    if scalar.value < Self.tableEnd {
      word += Self.table[Int(scalar.value - 0x80)]
    } else {
      Self.fold(scalar, into: &word)
    }
    // Characters are never divided.
    if word.count > ObjectFormat.wordLimit { word.removeLast(word.count - start) }
  }

  private static let tableEnd: UInt32 = 0x800
  /// The folded characters of two bytes.
  private static let table: [[UInt8]] = (0x80..<tableEnd).map { value in
    var bytes: [UInt8] = []
    fold(Unicode.Scalar(value)!, into: &bytes)
    return bytes
  }

  private static func fold(_ scalar: Unicode.Scalar, into bytes: inout [UInt8]) {
    // Hangul syllables decompose into letters, and have no case.
    if (0xAC00...0xD7A3).contains(scalar.value) {
      return bytes.append(contentsOf: UTF8.encode(scalar)!)
    }
    if isInvisible(scalar) { return }
    for part in String(scalar)._nfd {
      for lower in part.properties.lowercaseMapping.unicodeScalars {
        for upper in lower.properties.uppercaseMapping.unicodeScalars {
          for folded in upper.properties.lowercaseMapping.unicodeScalars
          where !isDiacritic(folded) { bytes.append(contentsOf: UTF8.encode(folded)!) }
        }
      }
    }
  }

  /// Returns whether a mark is a diacritic, without which words remain the same.
  private static func isDiacritic(_ scalar: Unicode.Scalar) -> Bool {
    let properties = scalar.properties
    switch properties.generalCategory {
    case .enclosingMark: return true
    case .nonspacingMark:
      let place = properties.canonicalCombiningClass.rawValue
      return place == 1 || (10...36).contains(place) || (200...240).contains(place)
    default: return false
    }
  }
}

/// A property whose words a full-text index contains: texts, optional texts and lists of texts.
public protocol TextProperty: Sendable {
  /// The texts. The words of a phrase are in one of them.
  var indexedTexts: [String] { get }
}

extension String: TextProperty {
  /// The text itself.
  public var indexedTexts: [String] { [self] }
}

extension Optional: TextProperty where Wrapped: TextProperty {
  /// The texts of the value, or none.
  public var indexedTexts: [String] { self?.indexedTexts ?? [] }
}

extension Array: TextProperty where Element: TextProperty {
  /// The texts of all elements.
  public var indexedTexts: [String] { flatMap(\.indexedTexts) }
}
