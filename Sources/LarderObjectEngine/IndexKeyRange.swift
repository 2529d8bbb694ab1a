// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A half-open range of index keys.
package struct IndexKeyRange: Sendable, Hashable {
  package private(set) var lower: [UInt8]
  /// The exclusive upper bound, or `nil` for a range without one.
  package private(set) var upper: [UInt8]?
  /// Whether the lower bound consists of complete elements and every key in the range begins with
  /// them. Only then can a comparison of the next property of a compound key narrow the range. A
  /// prefix of a string is not a complete element.
  package private(set) var isEquality = false

  package init(lower: [UInt8], upper: [UInt8]?) {
    self.lower = lower
    self.upper = upper
  }

  /// The maximum length of a key that an index stores completely and in order. An index truncates
  /// longer keys (`ObjectFormat.swift`), so bounds of ranges are truncated here.
  package static let limit = ObjectFormat.keyLimit - ObjectFormat.keyHashSize

  package static let everything = IndexKeyRange(lower: [], upper: nil)

  /// The keys of all values; `nil` encodes before them.
  package static let values = IndexKeyRange(lower: [0x01], upper: nil)

  /// Returns the lower bound of the keys after every key that begins with these bytes. No type code
  /// is 0xFF.
  static func after(_ key: [UInt8]) -> [UInt8] { key + [0xFF] }

  static func bound(_ key: [UInt8]) -> [UInt8] { Array(key.prefix(limit)) }

  // MARK: Comparisons

  /// Returns the range of the keys that equal or begin with these complete elements.
  package static func exactly(_ key: [UInt8]) -> IndexKeyRange {
    var range = IndexKeyRange(lower: key, upper: after(key))
    range.isEquality = true
    return range
  }

  /// Returns the range of the keys that begin with a part of an element.
  package static func beginning(with part: [UInt8]) -> IndexKeyRange {
    IndexKeyRange(lower: bound(part), upper: after(bound(part)))
  }

  /// Returns the range of the keys that equal complete elements.
  package static func equal(_ key: [UInt8]) -> IndexKeyRange {
    key.count > limit ? beginning(with: key) : exactly(key)
  }

  // MARK: Sets of ranges

  /// Whether the range contains no key.
  var isEmpty: Bool { upper.map { !lower.lexicographicallyPrecedes($0) } ?? false }

  func intersection(_ other: IndexKeyRange) -> IndexKeyRange {
    let lower = lower.lexicographicallyPrecedes(other.lower) ? other.lower : lower
    guard let mine = upper, let theirs = other.upper else {
      return IndexKeyRange(lower: lower, upper: upper ?? other.upper)
    }
    return IndexKeyRange(
      lower: lower, upper: mine.lexicographicallyPrecedes(theirs) ? mine : theirs)
  }

  /// Returns the ranges of the keys in both of two lists, each in ascending order without overlaps.
  static func intersection(_ left: [IndexKeyRange], _ right: [IndexKeyRange]) -> [IndexKeyRange] {
    var result: [IndexKeyRange] = []
    var (first, second) = (0, 0)
    while first < left.count, second < right.count {
      let common = left[first].intersection(right[second])
      if !common.isEmpty { result.append(common) }
      // The range that ends first has nothing in common with later ones of the other list.
      guard let end = left[first].upper else {
        second += 1
        continue
      }
      if right[second].upper.map({ end.lexicographicallyPrecedes($0) }) ?? true {
        first += 1
      } else {
        second += 1
      }
    }
    return result
  }

  /// Returns the range of the keys that consist of complete elements and of a key in this range.
  func following(_ elements: [UInt8]) -> IndexKeyRange {
    // Without elements, a bound need not be allocated again.
    if elements.isEmpty { return IndexKeyRange(lower: lower, upper: upper ?? Self.after([])) }
    return IndexKeyRange(
      lower: elements + lower, upper: upper.map { elements + $0 } ?? Self.after(elements))
  }

  /// Whether a bound has the length from which an index truncates keys.
  var isLong: Bool { Swift.max(lower.count, (upper?.count ?? 1) - 1) >= Self.limit }

  /// The range with bounds that an index stores completely.
  var widened: IndexKeyRange {
    IndexKeyRange(
      lower: Self.bound(lower),
      upper: upper.map { $0.count > Self.limit ? Self.after(Self.bound($0)) : $0 })
  }

  /// Returns the ranges in ascending order without overlaps.
  static func merged(_ ranges: [IndexKeyRange]) -> [IndexKeyRange] {
    // Nearly all queries have one range.
    if ranges.count == 1 { return ranges[0].isEmpty ? [] : ranges }
    var result: [IndexKeyRange] = []
    let sorted = ranges.filter { !$0.isEmpty }.sorted {
      $0.lower.lexicographicallyPrecedes($1.lower)
    }
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
        result[result.count - 1].isEquality = false
      }
    }
    return result
  }
}

/// An operator that compares a property with a constant.
package enum ComparisonOperator: String, Sendable {
  case equal = "=="
  case different = "!="
  case less = "<"
  case atMost = "<="
  case greater = ">"
  case atLeast = ">="

  /// The operator of the same comparison with exchanged operands.
  package var exchanged: ComparisonOperator {
    switch self {
    case .less: .greater
    case .atMost: .atLeast
    case .greater: .less
    case .atLeast: .atMost
    case .equal, .different: self
    }
  }

  /// Returns the keys that can match a comparison with the constant of a key, or `nil` if an index
  /// cannot serve the operator.
  package func range(of key: [UInt8]) -> IndexKeyRange? {
    let isLong = key.count > IndexKeyRange.limit
    let bound = IndexKeyRange.bound(key)
    let first = IndexKeyRange.values.lower
    switch self {
    case .equal: return .equal(key)
    case .different: return nil
    case .less:
      return IndexKeyRange(lower: first, upper: isLong ? IndexKeyRange.after(bound) : key)
    case .atMost: return IndexKeyRange(lower: first, upper: IndexKeyRange.after(bound))
    case .greater:
      return IndexKeyRange(lower: isLong ? bound : IndexKeyRange.after(key), upper: nil)
    case .atLeast: return IndexKeyRange(lower: bound, upper: nil)
    }
  }
}
