// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// A regular expression of a query text. Its length and depth are limited, because Swift's parser
/// of regular expressions recurses for each parenthesis.
package struct TextPattern: Sendable {
  let source: String
  private let expression: Box

  // A Regex is not Sendable; the lock gives it to one thread at a time.
  private final class Box: Sendable {
    let regex: Mutex<Regex<AnyRegexOutput>>
    init(_ pattern: String) throws { regex = Mutex(try Regex(pattern)) }
  }

  static let maximumLength = 1000
  static let maximumDepth = 50

  /// Parses a regular expression.
  ///
  /// - Throws: `Flaw` with the predicate of a sentence.
  init(_ source: String) throws(Flaw) {
    self.source = source
    guard source.unicodeScalars.count <= Self.maximumLength else {
      throw Flaw(message: "has more than \(Self.maximumLength) characters")
    }
    var depth = 0
    for scalar in source.unicodeScalars where scalar == "(" || scalar == "[" { depth += 1 }
    guard depth <= Self.maximumDepth else {
      throw Flaw(message: "has more than \(Self.maximumDepth) parentheses and brackets")
    }
    do { expression = try Box(source) } catch { throw Flaw(message: "is invalid: \(error)") }
  }

  struct Flaw: Error { let message: String }

  /// Returns whether a string contains a match.
  func matches(_ text: String) -> Bool {
    expression.regex.withLock { text.firstMatch(of: $0) != nil }
  }
}
