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
// Words are folded: letters without case and without diacritical marks, in normalisation form C for
// everything else. So "Café", "CAFÉ" and "cafe" are one word, and so are "Straße" and "STRASSE".

/// The words of texts.
struct TextWords {
  /// The folded words in order, each of at most `ObjectFormat.wordLimit` bytes.
  private(set) var words: [[UInt8]] = []

  private var word: [UInt8] = []
  /// Whether the word has a letter or a digit.
  private var isWord = false
  private var last = Kind.other
  /// The byte of a character after which a word continues if the right character follows.
  private var pending: (byte: UInt8, kind: Kind)?

  /// Returns the words of a text.
  static func words(of text: String) -> [[UInt8]] {
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

  private enum Kind {
    case letter, digit, katakana, single
    /// Joins letters, digits and itself, like the underscore.
    case joiner
    /// Marks and invisible characters, which belong to the character before.
    case extender
    /// Characters between letters, between digits, or between either.
    case midLetter, midDigit, midEither
    case other

    init(_ scalar: Unicode.Scalar) {
      switch scalar.value {
      case 0x2019, 0x2018, 0x2024, 0xFF07, 0xFF0E, 0xFE52: self = .midEither
      case 0xB7, 0x387, 0x55F, 0x5F4, 0x2027: self = .midLetter
      case 0x37E, 0x589, 0x60C, 0x60D, 0x66C, 0x7F8, 0x2044, 0xFE10, 0xFE14, 0xFF0C, 0xFF1B:
        self = .midDigit
      case 0x3041...0x309F: self = .single
      case 0x3031...0x3035, 0x309B, 0x309C, 0x30A0...0x30FA, 0x30FC...0x30FF, 0x31F0...0x31FF,
        0xFF66...0xFF9F:
        self = .katakana
      default: self.init(general: scalar.properties)
      }
    }

    private init(general properties: Unicode.Scalar.Properties) {
      switch properties.generalCategory {
      case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter,
        .letterNumber:
        self = properties.isIdeographic ? .single : .letter
      case .decimalNumber: self = .digit
      case .nonspacingMark, .enclosingMark, .spacingMark, .format: self = .extender
      case .connectorPunctuation: self = .joiner
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
    for part in String(scalar)._nfd where !isDiacritic(part) {
      for upper in part.properties.uppercaseMapping.unicodeScalars {
        for lower in upper.properties.lowercaseMapping.unicodeScalars where !isDiacritic(lower) {
          bytes.append(contentsOf: UTF8.encode(lower)!)
        }
      }
    }
  }

  /// Returns whether a mark is a diacritic, without which words remain the same. The vowels of Indic
  /// scripts and the sound marks of Kana are none.
  private static func isDiacritic(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x300...0x36F, 0x483...0x487, 0x591...0x5BD, 0x5BF, 0x5C1, 0x5C2, 0x5C4, 0x5C5, 0x5C7,
      0x610...0x61A, 0x64B...0x65F, 0x670, 0x1AB0...0x1AFF, 0x1DC0...0x1DFF, 0x20D0...0x20FF,
      0xFE20...0xFE2F, 0xAD, 0x200B...0x200F, 0x2060, 0xFE00...0xFE0F, 0xFEFF:
      true
    default: false
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
