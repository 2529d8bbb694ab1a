// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A parse error of a query text, with its column.
package struct QueryTextError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The category of a parse error. Later versions may add codes.
  package struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }
    package var description: String { rawValue }

    /// A character that begins no token.
    package static let invalidCharacter = Code(rawValue: "invalidCharacter")
    /// A string, a name or a pattern without its closing character.
    package static let unterminated = Code(rawValue: "unterminated")
    /// An invalid escape sequence in a string.
    package static let invalidEscape = Code(rawValue: "invalidEscape")
    /// A number that exceeds the range of all number types.
    package static let invalidNumber = Code(rawValue: "invalidNumber")
    /// A day or a time that is not in the calendar.
    package static let invalidDate = Code(rawValue: "invalidDate")
    /// A token that the grammar does not allow at this position.
    package static let unexpected = Code(rawValue: "unexpected")
    /// A method that properties do not have.
    package static let unknownMethod = Code(rawValue: "unknownMethod")
    /// A regular expression that is invalid or too long.
    package static let invalidPattern = Code(rawValue: "invalidPattern")
    /// Parentheses and negations nested deeper than the limit.
    package static let tooDeep = Code(rawValue: "tooDeep")
    /// A text longer than the limit.
    package static let tooLong = Code(rawValue: "tooLong")
  }

  /// The category of the error.
  package let code: Code
  /// The query text.
  package let text: String
  /// The column of the error in characters, from 1.
  package let column: Int
  /// A description of the error with one remedy.
  package let message: String

  package init(_ code: Code, in text: String, column: Int, _ message: String) {
    self.code = code
    self.text = text
    self.column = column
    self.message = message
  }

  /// The message, the text, and a caret under the error.
  package var description: String { "column \(column): \(message)\n\(marked)" }

  /// The part of the text around the error, and a line with a caret below.
  package var marked: String {
    let characters = Array(text).map { $0.isNewline || $0 == "\t" || $0 == "\0" ? " " : $0 }
    let reach = 60
    let start = max(0, column - 1 - reach)
    let end = min(characters.count, max(start, column - 1 + reach))
    let line = (start > 0 ? "…" : "") + String(characters[start..<end])
    let indent = column - 1 - start + (start > 0 ? 1 : 0)
    return "  \(line)\(end < characters.count ? "…" : "")\n  "
      + String(repeating: " ", count: indent) + "^"
  }
}
