// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// A condition of a string: a method and its argument.
package struct StringCondition: Sendable {
  package enum Method: String, CaseIterable, Sendable {
    case hasPrefix, hasSuffix, contains
    case hasPrefixIgnoringCase, hasSuffixIgnoringCase
    case equalsIgnoringCase, containsIgnoringCase
  }

  package let method: Method
  package let argument: String
  private let lower: String

  package init(_ method: Method, _ argument: String) {
    self.method = method
    self.argument = argument
    lower = argument.lowercased()
  }

  /// Returns whether a string matches: complete characters, compared by canonical equivalence.
  package func holds(_ text: String) -> Bool {
    switch method {
    case .hasPrefix: text.hasPrefix(argument)
    case .hasSuffix: text.hasSuffix(argument)
    case .contains: Self.contains(argument, in: text)
    case .hasPrefixIgnoringCase: text.lowercased().hasPrefix(lower)
    case .hasSuffixIgnoringCase: text.lowercased().hasSuffix(lower)
    case .equalsIgnoringCase: text.lowercased() == lower
    case .containsIgnoringCase: Self.contains(lower, in: text.lowercased())
    }
  }

  package static func contains(_ part: String, in text: String) -> Bool {
    part.isEmpty || text.contains(part)
  }

  /// The index keys of strings that can match, or `nil` if an index cannot serve the condition.
  package var ranges: [IndexKeyRange]? {
    // Without the end of the string, the key is the beginning of all keys with the prefix.
    method == .hasPrefix ? [.beginning(with: argument.indexKey.dropLast())] : nil
  }

  /// The index keys of lowercase strings that can match, or `nil` if an index of them cannot serve the
  /// condition.
  package var rangesIgnoringCase: [IndexKeyRange]? {
    switch method {
    case .equalsIgnoringCase: [.equal(lower.indexKey)]
    case .hasPrefixIgnoringCase: [.beginning(with: lower.indexKey.dropLast())]
    default: nil
    }
  }
}
