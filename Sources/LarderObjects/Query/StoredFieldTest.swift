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

/// A comparison of stored values with a constant, without generic code: of strings by their bytes, and
/// of the most frequent types of numbers.
final class StoredFieldTest: Sendable {
  private enum Test: Sendable {
    case integer(ComparisonOperator, Int)
    case number(ComparisonOperator, Double)
    case order(ComparisonOperator)
    case hasPrefix, hasSuffix, contains
  }

  private let test: Test
  private let constant: [UInt8]
  private let ignoresCase: Bool

  /// Creates a comparison of the whole value.
  ///
  /// - Returns: The comparison, or `nil` if there is none without generic code.
  convenience init?(_ sign: ComparisonOperator, _ constant: some Sendable) {
    switch constant {
    case let integer as Int: self.init(.integer(sign, integer))
    case let number as Double where !number.isNaN: self.init(.number(sign, number))
    case let text as String: self.init(.order(sign), text, ignoresCase: false)
    default: return nil
    }
  }

  private init(_ test: Test) {
    self.test = test
    constant = []
    ignoresCase = false
  }

  /// Creates a comparison by a method.
  ///
  /// - Returns: The comparison, or `nil` if bytes do not decide it.
  convenience init?(_ method: StringCondition.Method, _ argument: String) {
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

  /// Returns the result for a stored field, or `nil` if the decoded value must be compared.
  func holds(_ field: RawSpan) -> Bool? {
    switch test {
    case .integer(let sign, let constant):
      guard let value = Int.read(field) else { return nil }
      return sign.holds(value, constant)
    case .number(let sign, let constant):
      guard let value = Double.read(field), !value.isNaN else { return nil }
      return sign.holds(value, constant)
    default: return holdsText(field)
    }
  }

  private func holdsText(_ field: RawSpan) -> Bool? {
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
    case .integer, .number: return false
    }
  }
}

extension ComparisonOperator {
  @inline(__always)
  fileprivate func holds<Value: Comparable>(_ left: Value, _ right: Value) -> Bool {
    switch self {
    case .equal: left == right
    case .different: left != right
    case .less: left < right
    case .atMost: left <= right
    case .greater: left > right
    case .atLeast: left >= right
    }
  }
}
