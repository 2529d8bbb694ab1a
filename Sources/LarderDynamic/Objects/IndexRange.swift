// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Keys of an index from one on and below another.
struct IndexRange: Sendable, Hashable {
  var lower: [UInt8]
  /// `nil`: up to the last.
  var upper: [UInt8]?

  static let everything = IndexRange(lower: [], upper: nil)
  /// Behind every missing value.
  static let firstValue: [UInt8] = [0x01]

  /// The first bytes behind all keys that begin with these: no type code is 0xFF.
  static func after(_ key: [UInt8]) -> [UInt8] { key + [0xFF] }

  /// The keys that are, or begin with, these bytes.
  static func exactly(_ key: [UInt8]) -> IndexRange { IndexRange(lower: key, upper: after(key)) }

  /// The keys a comparison with a constant allows.
  static func keys(_ comparison: QueryCondition.Comparison, _ key: [UInt8]) -> IndexRange? {
    switch comparison {
    case .equal: .exactly(key)
    case .below: IndexRange(lower: firstValue, upper: key)
    case .atMost: IndexRange(lower: firstValue, upper: after(key))
    case .above: IndexRange(lower: after(key), upper: nil)
    case .atLeast: IndexRange(lower: key, upper: nil)
    case .different: nil
    }
  }

  /// Whether every key in it begins with its lower bound.
  var isEquality: Bool { upper == Self.after(lower) }

  func intersection(_ other: IndexRange) -> IndexRange {
    let lower = lower.lexicographicallyPrecedes(other.lower) ? other.lower : lower
    guard let mine = upper, let theirs = other.upper else {
      return IndexRange(lower: lower, upper: upper ?? other.upper)
    }
    return IndexRange(lower: lower, upper: mine.lexicographicallyPrecedes(theirs) ? mine : theirs)
  }

  /// The same behind other elements of a key.
  func behind(_ prefix: [UInt8]) -> IndexRange {
    IndexRange(lower: prefix + lower, upper: upper.map { prefix + $0 } ?? Self.after(prefix))
  }

  /// Bounds longer than what an index keeps of a key, moved outward to what it does keep: at least 440
  /// bytes, and a hash behind them (`ObjectFormat.swift`).
  var widened: IndexRange {
    var range = self
    if lower.count > 440 { range.lower = Array(lower.prefix(440)) }
    if let upper, upper.count > 440 { range.upper = Self.after(Array(upper.prefix(440))) }
    return range
  }

  /// Ranges in ascending order that do not overlap.
  static func merged(_ ranges: [IndexRange]) -> [IndexRange] {
    var result: [IndexRange] = []
    let sorted = ranges.filter { range in
      range.upper.map { range.lower.lexicographicallyPrecedes($0) } ?? true
    }.sorted { $0.lower.lexicographicallyPrecedes($1.lower) }
    for range in sorted {
      guard let last = result.last else {
        result.append(range)
        continue
      }
      guard let end = last.upper else { break }
      if end.lexicographicallyPrecedes(range.lower) {
        result.append(range)
      } else if range.upper.map({ end.lexicographicallyPrecedes($0) }) ?? true {
        result[result.count - 1].upper = range.upper
      }
    }
    return result
  }
}
