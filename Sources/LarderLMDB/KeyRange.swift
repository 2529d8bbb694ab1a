// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// Which entries of a table are meant, and in which order they come.
///
/// ```swift
/// KeyRange.all                                      // every entry, in the order of keys
/// KeyRange.prefix("user:").reversed                 // the last of them first
/// KeyRange.from("2026-01").upTo("2026-02")          // without the upper one
/// KeyRange.after(UInt64(41)).through(UInt64(99))    // without the lower one, with the upper one
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
  /// Whether the last entry comes first.
  public private(set) var isReversed = false
  /// Whether it fits tables with keys of one kind only; two different ones fit none.
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

  /// Whether it makes sense for a table.
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

  /// The part that begins with `key`.
  public func from(_ key: some TableKey) -> KeyRange {
    bounded(key) { $0.lower = .including($1) }
  }

  /// The part behind `key`.
  public func after(_ key: some TableKey) -> KeyRange {
    bounded(key) { $0.lower = .excluding($1) }
  }

  /// The part before `key`.
  public func upTo(_ key: some TableKey) -> KeyRange {
    bounded(key) { $0.upper = .excluding($1) }
  }

  /// The part that ends with `key`.
  public func through(_ key: some TableKey) -> KeyRange {
    bounded(key) { $0.upper = .including($1) }
  }

  /// Every entry.
  public static var all: KeyRange { KeyRange() }
  /// The entries from `key` on.
  public static func from(_ key: some TableKey) -> KeyRange { all.from(key) }
  /// The entries behind `key`.
  public static func after(_ key: some TableKey) -> KeyRange { all.after(key) }
  /// The entries before `key`.
  public static func upTo(_ key: some TableKey) -> KeyRange { all.upTo(key) }
  /// The entries up to `key` and itself.
  public static func through(_ key: some TableKey) -> KeyRange { all.through(key) }

  /// The entries whose keys begin with `bytes`.
  public static func prefix(_ bytes: [UInt8]) -> KeyRange {
    let start = from(bytes)
    // The first key that comes after all that begin so; after bytes of 255 only, there is none.
    guard let last = bytes.lastIndex(where: { $0 < 255 }) else { return start }
    return start.upTo(Array(bytes[..<last]) + [bytes[last] + 1])
  }

  /// The entries whose keys begin with `text`.
  public static func prefix(_ text: String) -> KeyRange { prefix(Array(text.utf8)) }
}
