// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine

/// A condition on the words of an object.
indirect enum TextExpression: Sendable, Hashable {
  case word(TextTerm)
  /// Words that follow each other in one text.
  case phrase([TextTerm])
  case all([TextExpression])
  case any([TextExpression])
  case excluding(TextExpression, TextExpression)

  /// The words that a matching object may contain, without the excluded ones.
  var terms: [TextTerm] {
    switch self {
    case .word(let term): [term]
    case .phrase(let terms): terms
    case .all(let parts), .any(let parts): parts.flatMap(\.terms)
    case .excluding(let part, _): part.terms
    }
  }

  /// The phrases of the expression.
  var phrases: [[TextTerm]] {
    switch self {
    case .word: []
    case .phrase(let terms): [terms]
    case .all(let parts), .any(let parts): parts.flatMap(\.phrases)
    case .excluding(let part, let excluded): part.phrases + excluded.phrases
    }
  }

  /// Returns whether words follow each other in one of some texts.
  static func contains(_ phrase: [TextTerm], in texts: [[[UInt8]]]) -> Bool {
    texts.contains { words in
      guard words.count >= phrase.count else { return false }
      return (0...(words.count - phrase.count)).contains { start in
        phrase.indices.allSatisfy { phrase[$0].matches(words[start + $0]) }
      }
    }
  }

  /// All words of the expression.
  var allTerms: [TextTerm] {
    switch self {
    case .word(let term): [term]
    case .phrase(let terms): terms
    case .all(let parts), .any(let parts): parts.flatMap(\.allTerms)
    case .excluding(let part, let excluded): part.allTerms + excluded.allTerms
    }
  }
}

/// A word of a search, or the beginning of words.
struct TextTerm: Sendable, Hashable {
  var word: [UInt8]
  var isPrefix = false

  func matches(_ other: [UInt8]) -> Bool {
    isPrefix ? other.starts(with: word) : other == word
  }

  var text: String { String(decoding: word, as: UTF8.self) + (isPrefix ? "*" : "") }
}

/// The reader of the syntax of full-text queries.
///
///     query  = clause { "OR" clause }
///     clause = part { [ "AND" ] part | "NOT" part }
///     part   = word | word* | "a phrase" | ( query )
struct TextQueryParser {
  /// The reason why a text is not a query.
  struct Failure: Error { let message: String }

  private enum Token: Equatable {
    case text(String)
    case quoted(String)
    case open, close, and, or, not
  }

  private var tokens: [Token] = []
  private var position = 0
  private var depth = 0
  /// The maximum depth of parentheses.
  private static let depthLimit = 50
  private static let termLimit = 200

  /// Parses a query.
  ///
  /// - Returns: The condition.
  /// - Throws: ``Failure``.
  static func parse(_ text: String) throws(Failure) -> TextExpression {
    var parser = TextQueryParser()
    parser.tokens = try tokens(of: text)
    guard let result = try parser.query() else {
      throw Failure(message: "It contains no word.")
    }
    guard parser.position == parser.tokens.count else {
      throw Failure(message: "A parenthesis is closed that was not opened.")
    }
    return try limited(result)
  }

  /// Returns the condition that two others hold.
  ///
  /// - Throws: ``Failure`` if they have too many words together, so that the depth is limited too.
  static func both(
    _ first: TextExpression, _ second: TextExpression
  ) throws(Failure) -> TextExpression {
    try limited(.all([first, second]))
  }

  private static func limited(_ expression: TextExpression) throws(Failure) -> TextExpression {
    guard expression.allTerms.count <= termLimit else {
      throw Failure(message: "It has more than \(termLimit) words.")
    }
    return expression
  }

  /// Returns the condition that an object contains all words of a text, whatever characters the text
  /// has, or `nil` if it contains none.
  static func words(in text: String) -> TextExpression? {
    let words = TextWords.words(of: text).prefix(termLimit).map {
      TextExpression.word(TextTerm(word: $0))
    }
    return words.isEmpty ? nil : words.count == 1 ? words[0] : .all(words)
  }

  private static func tokens(of text: String) throws(Failure) -> [Token] {
    var tokens: [Token] = []
    var word = ""
    func finished() -> [Token] {
      defer { word = "" }
      switch word {
      case "": return []
      case "AND": return [.and]
      case "OR": return [.or]
      case "NOT": return [.not]
      default: return [.text(word)]
      }
    }
    var quoted: String?
    // Scalars: a quotation mark with a mark or an invisible character after it is one.
    for character in text.unicodeScalars where !TextWords.isInvisible(character) {
      if quoted != nil {
        if character == "\"" {
          tokens.append(.quoted(quoted!))
          quoted = nil
        } else {
          quoted!.unicodeScalars.append(character)
        }
        continue
      }
      switch character {
      case "\"":
        tokens += finished()
        quoted = ""
      case "(", ")":
        tokens += finished()
        tokens.append(character == "(" ? .open : .close)
      case _ where character.properties.isWhitespace: tokens += finished()
      default: word.unicodeScalars.append(character)
      }
    }
    if quoted != nil { throw Failure(message: "A quotation mark is not closed.") }
    return tokens + finished()
  }

  private mutating func accept(_ token: Token) -> Bool {
    guard position < tokens.count, tokens[position] == token else { return false }
    position += 1
    return true
  }

  private mutating func query() throws(Failure) -> TextExpression? {
    var parts: [TextExpression] = []
    repeat {
      guard let part = try clause() else {
        if parts.isEmpty, position == tokens.count || tokens[position] != .or { return nil }
        throw Failure(message: "OR needs a word on each side.")
      }
      parts.append(part)
    } while accept(.or)
    return parts.count == 1 ? parts[0] : .any(parts)
  }

  private mutating func clause() throws(Failure) -> TextExpression? {
    var parts: [TextExpression] = []
    var excluded: [TextExpression] = []
    while position < tokens.count, tokens[position] != .close, tokens[position] != .or {
      if accept(.not) {
        guard let part = try part() else { throw Failure(message: "NOT needs a word after it.") }
        excluded.append(part)
        continue
      }
      if accept(.and) {
        guard !parts.isEmpty, position < tokens.count,
          ![.and, .or, .close].contains(tokens[position])
        else { throw Failure(message: "AND needs a word on each side.") }
        continue
      }
      if let part = try part() { parts.append(part) }
    }
    if parts.isEmpty {
      if excluded.isEmpty { return nil }
      throw Failure(message: "NOT excludes objects from those with a word; add this word.")
    }
    let all = parts.count == 1 ? parts[0] : TextExpression.all(parts)
    guard !excluded.isEmpty else { return all }
    return .excluding(all, excluded.count == 1 ? excluded[0] : .any(excluded))
  }

  private mutating func part() throws(Failure) -> TextExpression? {
    guard position < tokens.count else { return nil }
    position += 1
    switch tokens[position - 1] {
    case .text(let text): return Self.phrase(text)
    case .quoted(let text): return Self.phrase(text)
    case .open:
      depth += 1
      guard depth <= Self.depthLimit else {
        throw Failure(message: "More than \(Self.depthLimit) parentheses are open.")
      }
      let inner = try query()
      guard accept(.close) else { throw Failure(message: "A parenthesis is not closed.") }
      depth -= 1
      return inner
    case .and, .or, .not, .close:
      throw Failure(message: "An operator needs a word after it.")
    }
  }

  /// Returns the condition for the words of a text in their order. A star at the end makes the last
  /// word a prefix.
  private static func phrase(_ text: String) -> TextExpression? {
    var terms = TextWords.words(of: text).map { TextTerm(word: $0) }
    guard !terms.isEmpty else { return nil }
    if text.unicodeScalars.last == "*" { terms[terms.count - 1].isPrefix = true }
    return terms.count == 1 ? .word(terms[0]) : .phrase(terms)
  }
}
