// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A range of keys of a table, and the order in which its entries are visited.
///
/// ```swift
/// KeyRange.all                                      // every entry, in key order
/// KeyRange.prefix("user:").reversed                 // the last entry first
/// KeyRange.from("2026-01").upTo("2026-02")          // excludes the upper key
/// KeyRange.after(UInt64(41)).through(UInt64(99))    // without the lower key
/// ```
public struct KeyRange: Hashable, Sendable {
  enum Bound: Hashable {
    case none
    case including([UInt8])
    case excluding([UInt8])

    var bytes: [UInt8]? {
      switch self {
      case .none: nil
      case .including(let bytes), .excluding(let bytes): bytes
      }
    }
  }

  private(set) var lower = Bound.none
  private(set) var upper = Bound.none
  /// A Boolean value that indicates whether the last entry is visited first.
  public private(set) var isReversed = false
  /// The kinds of keys of the bounds; two different kinds match no table.
  private var kinds: Set<Table.Keys> = []

  private init() {}

  private func bounded<Key: TableKey>(
    _ key: Key, _ set: (inout KeyRange, [UInt8]) -> Void
  ) -> KeyRange {
    var copy = self
    copy.kinds.insert(Key.keyKind)
    set(&copy, key.withKeyBytes { $0.copied() })
    return copy
  }

  /// Returns whether the range matches a table with keys of this kind.
  func fits(_ keys: Table.Keys) -> Bool {
    guard kinds.subtracting([keys]).isEmpty else { return false }
    return keys == .bytes || [lower, upper].allSatisfy { $0.bytes.map { $0.count == 8 } ?? true }
  }

  /// The same entries in the opposite order.
  public var reversed: KeyRange {
    var copy = self
    copy.isReversed.toggle()
    return copy
  }

  /// Returns the part of the range that starts at `key`, included.
  ///
  /// - Parameter key: The lower bound.
  public func from(_ key: some TableKey) -> KeyRange {
    bounded(key) { $0.lower = .including($1) }
  }

  /// Returns the part of the range after `key`, excluded.
  ///
  /// - Parameter key: The lower bound.
  public func after(_ key: some TableKey) -> KeyRange {
    bounded(key) { $0.lower = .excluding($1) }
  }

  /// Returns the part of the range before `key`, excluded.
  ///
  /// - Parameter key: The upper bound.
  public func upTo(_ key: some TableKey) -> KeyRange {
    bounded(key) { $0.upper = .excluding($1) }
  }

  /// Returns the part of the range that ends at `key`, included.
  ///
  /// - Parameter key: The upper bound.
  public func through(_ key: some TableKey) -> KeyRange {
    bounded(key) { $0.upper = .including($1) }
  }

  /// Every entry, in key order.
  public static var all: KeyRange { KeyRange() }
  /// Returns the range of entries at and after `key`.
  public static func from(_ key: some TableKey) -> KeyRange { all.from(key) }
  /// Returns the range of entries after `key`.
  public static func after(_ key: some TableKey) -> KeyRange { all.after(key) }
  /// Returns the range of entries before `key`.
  public static func upTo(_ key: some TableKey) -> KeyRange { all.upTo(key) }
  /// Returns the range of entries before and at `key`.
  public static func through(_ key: some TableKey) -> KeyRange { all.through(key) }

  /// Returns the range of entries whose keys begin with `bytes`.
  ///
  /// - Parameter bytes: The prefix. An empty prefix matches every entry.
  public static func prefix(_ bytes: [UInt8]) -> KeyRange {
    let start = from(bytes)
    // The end is the first key after all keys with the prefix; a prefix of 255 bytes only has none.
    guard let last = bytes.lastIndex(where: { $0 < 255 }) else { return start }
    return start.upTo(Array(bytes[..<last]) + [bytes[last] + 1])
  }

  /// Returns the range of entries whose keys begin with the UTF-8 of `text`.
  ///
  /// - Parameter text: The prefix. An empty prefix matches every entry.
  public static func prefix(_ text: String) -> KeyRange { prefix(Array(text.utf8)) }
}
