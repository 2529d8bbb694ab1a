// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// A regular expression of a query, checked before it is given to Swift's parser, which takes a step
/// down the stack for each parenthesis.
package struct TextPattern: Sendable {
  let source: String
  private let expression: Box

  // A Regex is not Sendable; behind the lock only one thread has it.
  private final class Box: Sendable {
    let regex: Mutex<Regex<AnyRegexOutput>>
    init(_ pattern: String) throws { regex = Mutex(try Regex(pattern)) }
  }

  static let maximumLength = 1000
  static let maximumDepth = 50

  /// - Throws: A sentence, as `Flaw`.
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
    do { expression = try Box(source) } catch { throw Flaw(message: "is none: \(error)") }
  }

  struct Flaw: Error { let message: String }

  /// Whether it matches somewhere in a text.
  func matches(_ text: String) -> Bool {
    expression.regex.withLock { text.firstMatch(of: $0) != nil }
  }
}
