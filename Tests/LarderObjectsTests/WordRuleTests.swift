// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderObjects
import LarderTesting
@_spi(_Unicode) import Swift
import Testing

/// The words of full-text indexes compared with the files of Unicode, for all characters that the
/// standard library knows.
@Suite(.timeLimit(.minutes(60)))
struct WordRuleTests {
  private static var scalars: some Sequence<Unicode.Scalar> {
    (0...0x10FFFF as ClosedRange<UInt32>).lazy.compactMap { Unicode.Scalar($0) }
      .filter { ![.unassigned, .privateUse].contains($0.properties.generalCategory) }
  }

  private static func number(_ text: some StringProtocol) -> UInt32 { UInt32(text, radix: 16)! }

  /// Reads a range such as `41-5A`, or `100-12E/2`.
  private static func range(_ text: some StringProtocol) -> StrideThrough<UInt32> {
    let parts = text.split { "-/".contains($0) }
    return stride(
      from: number(parts[0]), through: number(parts.count > 1 ? parts[1] : parts[0]),
      by: parts.count > 2 ? Int(parts[2])! : 1)
  }

  /// CaseFolding.txt, without the scalars that are their own folding.
  private static let folding: [UInt32: [Unicode.Scalar]] = {
    var folding: [UInt32: [Unicode.Scalar]] = [:]
    for entry in UnicodeFiles.caseFolding.split(whereSeparator: \.isWhitespace) {
      if let mark = entry.firstIndex(of: "=") {
        folding[number(entry[..<mark])] =
          entry[entry.index(after: mark)...].split(separator: "+")
          .map { Unicode.Scalar(number($0))! }
        continue
      }
      let sign = entry.lastIndex { "+-".contains($0) }!
      let difference = Int64(entry[sign...])!
      for scalar in range(entry[..<sign]) {
        folding[scalar] = [Unicode.Scalar(UInt32(Int64(scalar) + difference))!]
      }
    }
    return folding
  }()

  /// WordBreakProperty.txt, without the value Other.
  private static let wordBreak: [UInt32: String] = {
    var values: [UInt32: String] = [:]
    for (value, ranges) in UnicodeFiles.wordBreak {
      for part in ranges.split(whereSeparator: \.isWhitespace) {
        for scalar in range(part) { values[scalar] = value }
      }
    }
    return values
  }()

  private static func isDiacritic(_ scalar: Unicode.Scalar) -> Bool {
    let place = scalar.properties.canonicalCombiningClass.rawValue
    return scalar.properties.generalCategory == .enclosingMark
      || scalar.properties.generalCategory == .nonspacingMark
        && (place == 1 || place >= 10 && place <= 36 || place >= 200)
  }

  @Test func `Every letter is folded as in CaseFolding, but for the dotless i`() {
    #expect(Self.folding.count > 1_500)
    var compared = 0
    var different: [String] = []
    let cased: [Unicode.GeneralCategory] = [.uppercaseLetter, .lowercaseLetter, .titlecaseLetter]
    for scalar in Self.scalars {
      guard Self.folding[scalar.value] != nil || cased.contains(scalar.properties.generalCategory)
      else { continue }
      let decomposed = Array(String(scalar)._nfd)
      let folded: [Unicode.Scalar] = decomposed.flatMap { part in
        part == "\u{131}" ? ["i"] : Self.folding[part.value] ?? [part]
      }
      var expected = String.UnicodeScalarView()
      for part in folded where !Self.isDiacritic(part) {
        // Cherokee is folded to upper case, and to lower case here.
        expected.append(contentsOf: part.properties.lowercaseMapping.unicodeScalars)
      }
      let words = TextWords.words(of: "x\(scalar)")
      if words != [Array("x\(String(expected))".utf8)] {
        different.append("U+\(String(scalar.value, radix: 16)): \(words)")
      }
      compared += 1
    }
    #expect(different.isEmpty)
    #expect(compared > 3_500)
  }

  /// The effect of a character between letters and digits.
  private struct Behaviour: Equatable {
    var joinsLetters = false
    var joinsDigits = false
    var isWord = false

    static let letter = Behaviour(joinsLetters: true, joinsDigits: true, isWord: true)
    static let extender = Behaviour(joinsLetters: true, joinsDigits: true)
    static let single = Behaviour(isWord: true)
    static let midLetter = Behaviour(joinsLetters: true)
    static let midDigit = Behaviour(joinsDigits: true)
    static let other = Behaviour()

    init(joinsLetters: Bool = false, joinsDigits: Bool = false, isWord: Bool = false) {
      (self.joinsLetters, self.joinsDigits, self.isWord) = (joinsLetters, joinsDigits, isWord)
    }

    init(of scalar: Unicode.Scalar) {
      joinsLetters = TextWords.words(of: "a\(scalar)b").count == 1
      joinsDigits = TextWords.words(of: "1\(scalar)2").count == 1
      isWord = TextWords.words(of: "\(scalar)").count == 1
    }

    /// The behaviour by the word break property, with the differences that are documented in
    /// `TextWords.swift`.
    static func expected(of scalar: Unicode.Scalar, _ value: String?) -> Behaviour {
      let category = scalar.properties.generalCategory
      if scalar == "\u{200B}" { return .other }
      if category == .format || scalar.properties.isDefaultIgnorableCodePoint { return .extender }
      switch scalar.value {
      case 0x3A, 0xFE13, 0xFE55, 0xFF1A, 0x202F, 0x22, 0x19DA, 0x1F3FB...0x1F3FF: return .other
      case 0x5F3: return .midLetter
      case 0x66B, 0xFE10, 0xFE14: return .midDigit
      case 0xFF9E, 0xFF9F: return .single
      default: break
      }
      switch value {
      case "ALetter", "Hebrew_Letter":
        return scalar.properties.isAlphabetic ? .letter : .other
      case "Numeric": return .letter
      case "Katakana": return .single
      case "Extend", "Format", "ZWJ", "ExtendNumLet", "MidNumLet", "Single_Quote": return .extender
      case "MidLetter": return .midLetter
      case "MidNum": return .midDigit
      default: break
      }
      if scalar.properties.isIdeographic { return .single }
      let isHiragana =
        scalar.properties.name?.hasPrefix("HIRAGANA") == true
        || scalar.properties.name?.hasPrefix("HENTAIGANA") == true
      if isHiragana, scalar.properties.isAlphabetic || category == .modifierLetter {
        return .single
      }
      return scalar.properties.isAlphabetic ? .letter : .other
    }
  }

  @Test func `Every character divides or joins words as in WordBreakProperty`() {
    var different: [String] = []
    for scalar in Self.scalars {
      let expected = Behaviour.expected(of: scalar, Self.wordBreak[scalar.value])
      let found = Behaviour(of: scalar)
      if found != expected {
        different.append(
          "U+\(String(scalar.value, radix: 16)) \(scalar.properties.name ?? ""): \(found)")
      }
    }
    #expect(different.isEmpty)
  }

  @Test func `No invisible character makes a difference to a word, except the zero width space`() {
    let plain = TextWords.words(of: "Zoë 葛飾区 שלום 123 don't")
    var count = 0
    for scalar in Self.scalars where scalar != "\u{200B}" {
      let properties = scalar.properties
      guard properties.isDefaultIgnorableCodePoint || properties.generalCategory == .format
      else { continue }
      count += 1
      let text =
        "Z\(scalar)oë\(scalar) \(scalar)葛\(scalar)飾区\(scalar) \(scalar)של\(scalar)ום "
        + "\(scalar)12\(scalar)3\(scalar) don\(scalar)'\(scalar)t\(scalar)"
      #expect(TextWords.words(of: text) == plain, "U+\(String(scalar.value, radix: 16))")
    }
    #expect(count > 400)
    #expect(TextWords.words(of: "ab\u{200B}cd") == TextWords.words(of: "ab cd"))
  }

  @Test(arguments: [
    ("Welcome, \u{2068}Zoë\u{2069}!", "Zoë"), ("\u{202A}+49 30 901820\u{202C}", "901820"),
    ("葛\u{E0100}飾区", "葛飾区"), ("\u{202B}שלום\u{202C} עולם", "שלום"), ("Zoë", "\u{2068}zoe\u{2069}"),
    ("ᠮᠣᠩᠭᠣᠯ\u{180E}ᠠ", "ᠮᠣᠩᠭᠣᠯᠠ"), ("\u{61C}مرحبا", "مرحبا"), ("STRAẞE", "straße"),
    ("strasse", "STRAẞE"), ("ﬁnd it", "find"), ("ⓢⓦⓘⓕⓣ", "ⓈⓌⒾⒻⓉ"), ("ᏣᎳᎩ", "ꮳꮃꭹ"), ("ΑΙ", "ᾳ"),
  ])
  func `A word is found next to invisible characters and in any case`(text: String, word: String)
    throws
  {
    let ground = try StoreFixture()
    try ground.store.save([Article(id: 1, title: text), Article(id: 2, title: "another")])
    let articles = ground.store.objects(Article.self)
    #expect(try articles.matching(words: word).fetch().map(\.id) == [1])
    #expect(try articles.matching(word).fetch().map(\.id) == [1])
  }

  @Test func `Invisible characters in a query make no difference to its operators`() throws {
    let ground = try StoreFixture()
    try ground.store.save([
      Article(id: 1, title: "data race"), Article(id: 2, title: "race data"),
    ])
    let articles = ground.store.objects(Article.self)
    for query in [
      "\u{2068}\"data race\"\u{2069}", "\"\u{FE0F}data race\"\u{FE0F}",
      "(\u{2068}\"data rac*\u{2069}\")",
      "race\u{200D} NOT\u{2069} \"race data\"",
    ] {
      #expect(try articles.matching(query).fetch().map(\.id) == [1], "\(query.debugDescription)")
    }
    #expect(try articles.matching("rac*\u{2069}").count() == 2)
  }
}
