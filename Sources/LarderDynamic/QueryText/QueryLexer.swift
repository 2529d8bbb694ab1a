// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE TOKENS OF A QUERY TEXT
//
//     name        a letter or _ , then letters, digits and _ ; any characters between backquotes
//     text        "…" or '…', with the escapes \" \' \\ \n \r \t \0 and \u{1F600}
//     pattern     /…/, where \/ is a slash and every other backslash belongs to the expression
//     number      12  -3  1_000_000  2.5  -1e-9
//     date        2026-01-31  2026-01-31T12:00:00Z  2026-01-31T12:00:00.250+01:00
//     symbols     && || ! == != < <= > >= ( ) [ ] , . ?. : ... ..<
//
// The language has no arithmetic, so a minus before a digit is always a sign, and a slash always
// begins a pattern.

/// A lexer of query texts.
struct QueryLexer {
  let text: String
  private let characters: [Character]
  private var position = 0

  /// The maximum length of a text in bytes. It bounds all later work.
  static let maximumLength = 65_536

  init(_ text: String) throws(QueryTextError) {
    guard text.utf8.count <= Self.maximumLength else {
      throw QueryTextError(
        .tooLong, in: String(text.prefix(60)), column: 1,
        "The text has \(text.utf8.count) bytes; \(Self.maximumLength) is the limit.")
    }
    self.text = text
    characters = Array(text)
  }

  static func tokens(_ text: String) throws(QueryTextError) -> [QueryToken] {
    var lexer = try QueryLexer(text)
    var tokens: [QueryToken] = []
    repeat { tokens.append(try lexer.next()) } while tokens.last!.kind != .end
    return tokens
  }

  private func character(_ offset: Int = 0) -> Character? {
    position + offset < characters.count ? characters[position + offset] : nil
  }

  private func error(
    _ code: QueryTextError.Code, at start: Int, _ message: String
  ) -> QueryTextError {
    QueryTextError(code, in: text, column: start + 1, message)
  }

  private mutating func next() throws(QueryTextError) -> QueryToken {
    while let space = character(), space.isWhitespace { position += 1 }
    let start = position
    let kind = try kind()
    return QueryToken(
      kind: kind, column: start + 1, source: String(characters[start..<position]))
  }

  private mutating func kind() throws(QueryTextError) -> QueryToken.Kind {
    guard let first = character() else { return .end }
    if Self.isDigit(first) || first == "-" && character(1).map(Self.isDigit) ?? false {
      return try number()
    }
    if first == "_" || first.isLetter { return .name(name()) }
    switch first {
    case "\"", "'": return .text(try quoted(by: first))
    case "`": return .quotedName(try verbatim(to: "`", "name"))
    case "/": return .pattern(try verbatim(to: "/", "pattern"))
    default: break
    }
    for symbol in Self.symbols
    where characters[position...].prefix(symbol.count).elementsEqual(symbol) {
      position += symbol.count
      return .symbol(symbol)
    }
    let hint: String
    switch first {
    case "=": hint = "Write == to compare."
    case "&": hint = "Write && for \"and\"."
    case "|": hint = "Write || for \"or\"."
    case "“", "”", "‘", "’": hint = "Write texts between \" or '."
    default: hint = "Enclose a name with this character in backquotes."
    }
    throw error(.invalidCharacter, at: position, "Unexpected character \"\(first)\". \(hint)")
  }

  /// The symbols; longer ones come first.
  private static let symbols = [
    "...", "..<", "&&", "||", "==", "!=", "<=", ">=", "?.", "<", ">", "!", "(", ")", "[", "]", ",",
    ".", ":",
  ]

  private static func isDigit(_ character: Character) -> Bool { ("0"..."9").contains(character) }

  private mutating func name() -> String {
    let start = position
    while let next = character(), next == "_" || next.isLetter || next.isNumber { position += 1 }
    return String(characters[start..<position])
  }

  // MARK: Strings

  private mutating func quoted(by quote: Character) throws(QueryTextError) -> String {
    let start = position
    position += 1
    var result = ""
    while let next = character() {
      position += 1
      if next == quote { return result }
      result.append(next == "\\" ? try escape() : next)
    }
    throw error(.unterminated, at: start, "The text that begins here has no closing \(quote).")
  }

  private mutating func escape() throws(QueryTextError) -> Character {
    let start = position - 1
    guard let next = character() else {
      throw error(.unterminated, at: start, "The text ends in an escape.")
    }
    position += 1
    switch next {
    case "n": return "\n"
    case "r": return "\r"
    case "t": return "\t"
    case "0": return "\0"
    case "\"", "'", "\\": return next
    case "u":
      if character() == "{" {
        position += 1
        let digits = characters[position...].prefix(9).prefix { $0.isHexDigit && $0.isASCII }
        position += digits.count
        if character() == "}", let value = UInt32(String(digits), radix: 16),
          let scalar = Unicode.Scalar(value)
        {
          position += 1
          return Character(scalar)
        }
      }
    default: break
    }
    throw error(
      .invalidEscape, at: start,
      "\\\(next) is not an escape. There are \\n \\r \\t \\0 \\\" \\' \\\\ and \\u{1F600}.")
  }

  /// Returns the characters up to a mark. A backslash before the mark is dropped, every other one
  /// is kept.
  private mutating func verbatim(
    to mark: Character, _ what: String
  ) throws(QueryTextError) -> String {
    let start = position
    position += 1
    var result = ""
    while let next = character() {
      position += 1
      if next == mark { return result }
      if next == "\\", let escaped = character() {
        position += 1
        if escaped != mark { result.append(next) }
        result.append(escaped)
        continue
      }
      result.append(next)
    }
    throw error(.unterminated, at: start, "The \(what) that begins here has no closing \(mark).")
  }

  // MARK: Numbers and dates

  private mutating func number() throws(QueryTextError) -> QueryToken.Kind {
    let start = position
    if let (seconds, length) = try date() {
      position += length
      return .date(seconds)
    }
    if character() == "-" { position += 1 }
    var digits = String(characters[start..<position]) + digitRun()
    var isReal = false
    if character() == ".", character(1).map(Self.isDigit) ?? false {
      isReal = true
      position += 1
      digits += "." + digitRun()
    }
    if character() == "e" || character() == "E" {
      let sign = character(1) == "-" || character(1) == "+"
      if character(sign ? 2 : 1).map(Self.isDigit) ?? false {
        isReal = true
        digits += "e" + (sign ? String(character(1)!) : "")
        position += sign ? 2 : 1
        digits += digitRun()
      }
    }
    if let next = character(), next == "_" || next.isLetter {
      throw error(
        .invalidNumber, at: start, "A letter follows the number. Insert a space between them.")
    }
    if isReal {
      guard let real = Double(digits), real.isFinite else {
        throw error(.invalidNumber, at: start, "The number is too large.")
      }
      return .real(real)
    }
    guard let integer = Int128(digits) else {
      throw error(.invalidNumber, at: start, "The number is too large.")
    }
    return .integer(integer)
  }

  private mutating func digitRun() -> String {
    var digits = ""
    while let next = character(), Self.isDigit(next) || next == "_" {
      if next != "_" { digits.append(next) }
      position += 1
    }
    return digits
  }

  /// Returns a date and its number of characters, or `nil` if the text has a number here.
  private func date() throws(QueryTextError) -> (seconds: Double, length: Int)? {
    let rest = characters[position...].prefix(40)
    let day = rest.prefix(10)
    guard day.count == 10,
      day.enumerated().allSatisfy({ index, character in
        index == 4 || index == 7 ? character == "-" : Self.isDigit(character)
      })
    else { return nil }
    let time = rest.dropFirst(10).prefix {
      Self.isDigit($0) || "TtZz:.+-".contains($0)
    }
    let source = String(day + time)
    guard let seconds = CalendarDate.seconds(source) else {
      throw error(
        .invalidDate, at: position,
        "\(source) is not a date. Write 2026-01-31, or 2026-01-31T12:00:00Z.")
    }
    return (seconds, source.count)
  }
}
