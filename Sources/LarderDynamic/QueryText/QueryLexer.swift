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
// begins a pattern. Tokens are divided by scalars and not by characters: a quote and the combining mark
// or modifier at the beginning of a text are one character.

/// A lexer of query texts.
struct QueryLexer {
  let text: String
  private let scalars: [Unicode.Scalar]
  /// The character that each scalar belongs to, and one for the end.
  private let characters: [Int]
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
    scalars = Array(text.unicodeScalars)
    characters =
      text.enumerated().flatMap { index, character in
        repeatElement(index, count: character.unicodeScalars.count)
      } + [text.count]
  }

  static func tokens(_ text: String) throws(QueryTextError) -> [QueryToken] {
    var lexer = try QueryLexer(text)
    var tokens: [QueryToken] = []
    repeat { tokens.append(try lexer.next()) } while tokens.last!.kind != .end
    return tokens
  }

  private func scalar(_ offset: Int = 0) -> Unicode.Scalar? {
    position + offset < scalars.count ? scalars[position + offset] : nil
  }

  private func source(_ range: Range<Int>) -> String {
    var text = String.UnicodeScalarView()
    text.append(contentsOf: scalars[range])
    return String(text)
  }

  private func error(
    _ code: QueryTextError.Code, at start: Int, _ message: String
  ) -> QueryTextError {
    QueryTextError(code, in: text, column: characters[start] + 1, message)
  }

  private mutating func next() throws(QueryTextError) -> QueryToken {
    while let space = scalar(), space.properties.isWhitespace { position += 1 }
    let start = position
    let kind = try kind()
    return QueryToken(
      kind: kind, column: characters[start] + 1, source: source(start..<position))
  }

  private mutating func kind() throws(QueryTextError) -> QueryToken.Kind {
    guard let first = scalar() else { return .end }
    if Self.isDigit(first) || first == "-" && scalar(1).map(Self.isDigit) ?? false {
      return try number()
    }
    if first == "_" || Self.isLetter(first) { return .name(name()) }
    switch first {
    case "\"", "'": return .text(try quoted(by: first))
    case "`": return .quotedName(try verbatim(to: "`", "name"))
    case "/": return .pattern(try verbatim(to: "/", "pattern"))
    default: break
    }
    for symbol in Self.symbols
    where scalars[position...].starts(with: symbol.unicodeScalars) {
      position += symbol.unicodeScalars.count
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

  private static func isDigit(_ scalar: Unicode.Scalar) -> Bool { ("0"..."9").contains(scalar) }

  private static func isLetter(_ scalar: Unicode.Scalar) -> Bool { scalar.properties.isAlphabetic }

  private mutating func name() -> String {
    let start = position
    while let next = scalar(), next == "_" || Self.continuesName(next) { position += 1 }
    return source(start..<position)
  }

  private static func continuesName(_ scalar: Unicode.Scalar) -> Bool {
    if isLetter(scalar) || scalar.properties.numericType != nil { return true }
    // Of Persian and Indic words.
    if scalar.properties.isJoinControl { return true }
    return switch scalar.properties.generalCategory {
    case .nonspacingMark, .spacingMark, .enclosingMark: true
    default: false
    }
  }

  // MARK: Strings

  private mutating func quoted(by quote: Unicode.Scalar) throws(QueryTextError) -> String {
    let start = position
    position += 1
    var result = String.UnicodeScalarView()
    while let next = scalar() {
      position += 1
      if next == quote { return String(result) }
      result.append(next == "\\" ? try escape() : next)
    }
    throw error(.unterminated, at: start, "The text that begins here has no closing \(quote).")
  }

  private mutating func escape() throws(QueryTextError) -> Unicode.Scalar {
    let start = position - 1
    guard let next = scalar() else {
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
      if scalar() == "{" {
        position += 1
        let count = scalars[position...].prefix(9).prefix { $0.properties.isASCIIHexDigit }.count
        let digits = source(position..<(position + count))
        position += count
        if scalar() == "}", let value = UInt32(digits, radix: 16),
          let decoded = Unicode.Scalar(value)
        {
          position += 1
          return decoded
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
    to mark: Unicode.Scalar, _ what: String
  ) throws(QueryTextError) -> String {
    let start = position
    position += 1
    var result = String.UnicodeScalarView()
    while let next = scalar() {
      position += 1
      if next == mark { return String(result) }
      if next == "\\", let escaped = scalar() {
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
    if scalar() == "-" { position += 1 }
    var digits = source(start..<position) + digitRun()
    var isReal = false
    if scalar() == ".", scalar(1).map(Self.isDigit) ?? false {
      isReal = true
      position += 1
      digits += "." + digitRun()
    }
    if scalar() == "e" || scalar() == "E" {
      let sign = scalar(1) == "-" || scalar(1) == "+"
      if scalar(sign ? 2 : 1).map(Self.isDigit) ?? false {
        isReal = true
        digits += "e" + (sign ? "\(scalar(1)!)" : "")
        position += sign ? 2 : 1
        digits += digitRun()
      }
    }
    if let next = scalar(), next == "_" || Self.isLetter(next) {
      throw error(
        .invalidNumber, at: start, "A letter follows the number. Insert a space between them.")
    }
    if isReal {
      guard let real = Double(digits), real.isFinite else {
        throw error(.invalidNumber, at: start, "The number is too large.")
      }
      return .real(real)
    }
    if let integer = Int128(digits) { return .integer(integer) }
    // A decimal has more digits; it is read from the source.
    guard let real = Double(digits), real.isFinite else {
      throw error(.invalidNumber, at: start, "The number is too large.")
    }
    return .real(real)
  }

  private mutating func digitRun() -> String {
    var digits = ""
    while let next = scalar(), Self.isDigit(next) || next == "_" {
      if next != "_" { digits.unicodeScalars.append(next) }
      position += 1
    }
    return digits
  }

  /// Returns a date and its number of characters, or `nil` if the text has a number here.
  private func date() throws(QueryTextError) -> (seconds: Double, length: Int)? {
    let rest = scalars[position...].prefix(40)
    let day = rest.prefix(10)
    guard day.count == 10,
      day.enumerated().allSatisfy({ index, scalar in
        index == 4 || index == 7 ? scalar == "-" : Self.isDigit(scalar)
      })
    else { return nil }
    // A point belongs to the time before a digit only: in a range, others follow the date.
    let time = rest.dropFirst(10)
    let length =
      time.indices.first { index in
        if time[index] == "." {
          return !(time.dropFirst(index + 1 - time.startIndex).first.map(Self.isDigit) ?? false)
        }
        return !Self.isDigit(time[index]) && !"TtZz:+-".unicodeScalars.contains(time[index])
      } ?? time.endIndex
    let written = source(position..<(position + length - rest.startIndex))
    guard let seconds = CalendarDate.seconds(written) else {
      throw error(
        .invalidDate, at: position,
        "\(written) is not a date. Write 2026-01-31, or 2026-01-31T12:00:00Z.")
    }
    return (seconds, length - rest.startIndex)
  }
}
