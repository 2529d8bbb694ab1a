// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

// STRINGS WITHOUT THE STRING
//
// Swift compares strings by canonical equivalence and searches them by complete characters. For two
// strings of ASCII both is the same as for their bytes, with one exception: a carriage return and
// the line feed after it are one character, so that a search for either does not find it there. An
// argument with neither has no such matches. Everything else is compared as strings.

/// A comparison of stored strings with a constant, by their bytes.
struct StoredTextTest: Sendable {
  private enum Test: Sendable {
    case order(ComparisonOperator)
    case hasPrefix, hasSuffix, contains
  }

  private let test: Test
  private let constant: [UInt8]
  private let ignoresCase: Bool

  /// Creates a comparison of the whole string.
  ///
  /// - Returns: The comparison, or `nil` if bytes do not decide it.
  init?(_ sign: ComparisonOperator, _ constant: some Sendable) {
    guard let text = constant as? String else { return nil }
    self.init(.order(sign), text, ignoresCase: false)
  }

  /// Creates a comparison by a method.
  ///
  /// - Returns: The comparison, or `nil` if bytes do not decide it.
  init?(_ method: StringCondition.Method, _ argument: String) {
    let lower = argument.lowercased()
    switch method {
    case .hasPrefix: self.init(.hasPrefix, argument, ignoresCase: false)
    case .hasSuffix: self.init(.hasSuffix, argument, ignoresCase: false)
    case .contains: self.init(.contains, argument, ignoresCase: false)
    case .hasPrefixIgnoringCase: self.init(.hasPrefix, lower, ignoresCase: true)
    case .hasSuffixIgnoringCase: self.init(.hasSuffix, lower, ignoresCase: true)
    case .containsIgnoringCase: self.init(.contains, lower, ignoresCase: true)
    case .equalsIgnoringCase: self.init(.order(.equal), lower, ignoresCase: true)
    }
  }

  private init?(_ test: Test, _ text: String, ignoresCase: Bool) {
    let bytes = Array(text.utf8)
    guard bytes.allSatisfy({ $0 < 0x80 && $0 != 0x0a && $0 != 0x0d }) else { return nil }
    self.test = test
    self.ignoresCase = ignoresCase
    constant = bytes
  }

  /// Returns the result for a stored field, or `nil` if it must be compared as a string.
  func holds(_ field: RawSpan) -> Bool? {
    guard let head = StoredField.head(field, 0), head.major == 3,
      let text = field.slice(head.end..<field.byteCount), text.isASCII
    else { return nil }
    guard ignoresCase else { return holds(for: text) }
    var lower = text.copied()
    for index in lower.indices where 0x41...0x5a ~= lower[index] { lower[index] |= 0x20 }
    return lower.withRawSpan { holds(for: $0) }
  }

  private func holds(for text: RawSpan) -> Bool {
    let count = text.byteCount
    switch test {
    case .contains: return text.contains(constant)
    case .hasPrefix: return text.slice(0..<min(constant.count, count))!.equals(constant)
    case .hasSuffix: return text.slice(max(count - constant.count, 0)..<count)!.equals(constant)
    case .order(.equal): return text.equals(constant)
    case .order(.different): return !text.equals(constant)
    case .order(.less): return text.precedes(constant)
    case .order(.atMost): return text.precedes(constant) || text.equals(constant)
    case .order(.greater): return !text.precedes(constant) && !text.equals(constant)
    case .order(.atLeast): return !text.precedes(constant)
    }
  }
}
