// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A position in a range of entries that moves forwards or backwards, inside one transaction.
///
/// ```swift
/// var cursor = try transaction.cursor(over: people, .prefix("a").reversed)
/// while try cursor.next() { print(cursor.keyBytes, cursor.value.byteCount) }
/// ```
///
/// The compiler rejects code in which the cursor outlives its transaction, code that changes the
/// transaction while the cursor is in use, and code that keeps a key or value after the next step.
@safe
public struct RangeCursor: ~Copyable, ~Escapable {
  private enum Position { case before, inside, behind }

  private var cursor: Cursor
  private let range: KeyRange
  private let isInteger: Bool
  private var position = Position.before

  @_lifetime(borrow transaction)
  init(
    over table: Table, _ range: KeyRange, in transaction: borrowing ReadTransaction
  ) throws(LMDBError) {
    unsafe try RangeCursor.require(table, range, in: transaction.handle)
    cursor = try Cursor(over: table.handle, in: transaction)
    self.range = range
    isInteger = table.keys == .integers
  }

  @_lifetime(borrow transaction)
  init(
    over table: Table, _ range: KeyRange, in transaction: borrowing WriteTransaction
  ) throws(LMDBError) {
    transaction.requireOwnThread()
    unsafe try RangeCursor.require(table, range, in: transaction.handle)
    cursor = try Cursor(over: table.handle, in: transaction)
    self.range = range
    isInteger = table.keys == .integers
  }

  private static func require(
    _ table: Table, _ range: KeyRange, in transaction: OpaquePointer
  ) throws(LMDBError) {
    unsafe try table.require(in: transaction)
    guard range.fits(table.keys) else {
      throw LMDBError(.keyKindMismatch, during: "walk table \"\(table.name ?? "")\"")
    }
  }

  // MARK: Steps

  /// Moves to the next entry of the range; the first call moves to the first entry.
  ///
  /// - Returns: Whether there is an entry; `false` at the end of the range.
  /// - Throws: ``LMDBError`` if LMDB cannot read a page.
  /// - Complexity: Amortised O(1); O(log *n*) for the first step.
  @_lifetime(self: copy self)
  public mutating func next() throws(LMDBError) -> Bool {
    let isThere: Bool
    switch position {
    case .behind: return false
    case .before: isThere = try range.isReversed ? moveToEnd() : moveToStart()
    case .inside: isThere = try range.isReversed ? cursor.moveToPrevious() : cursor.moveToNext()
    }
    let isInside = isThere && isBeforeEnd()
    position = isInside ? .inside : .behind
    return isInside
  }

  @_lifetime(self: copy self)
  private mutating func moveToStart() throws(LMDBError) -> Bool {
    switch range.lower {
    case .none: return try cursor.moveToFirst()
    case .including(let key): return try move(atLeast: key)
    case .excluding(let key):
      guard try move(atLeast: key) else { return false }
      return order(key) == 0 ? try cursor.moveToNext() : true
    }
  }

  @_lifetime(self: copy self)
  private mutating func moveToEnd() throws(LMDBError) -> Bool {
    switch range.upper {
    case .none: return try cursor.moveToLast()
    case .including(let key):
      guard try move(atLeast: key) else { return try cursor.moveToLast() }
      return order(key) == 0 ? true : try cursor.moveToPrevious()
    case .excluding(let key):
      return try move(atLeast: key) ? try cursor.moveToPrevious() : try cursor.moveToLast()
    }
  }

  @_lifetime(self: copy self)
  private mutating func move(atLeast key: [UInt8]) throws(LMDBError) -> Bool {
    // No key is empty, so every key comes after an empty one.
    key.isEmpty ? try cursor.moveToFirst() : try cursor.move(atLeast: key)
  }

  private func isBeforeEnd() -> Bool {
    switch range.isReversed ? range.lower : range.upper {
    case .none: true
    case .including(let key): range.isReversed ? order(key) >= 0 : order(key) <= 0
    case .excluding(let key): range.isReversed ? order(key) > 0 : order(key) < 0
    }
  }

  /// Compares the current key with `bound`: negative if the key comes first, zero if they are
  /// equal.
  private func order(_ bound: [UInt8]) -> Int {
    if isInteger {
      let (current, bound) = (cursor.currentInteger, nativeInteger(bound))
      return current == bound ? 0 : current < bound ? -1 : 1
    }
    if cursor.currentKey.equals(bound) { return 0 }
    return cursor.currentKey.precedes(bound) ? -1 : 1
  }

  // MARK: The current entry

  /// The current key, or an empty span without a current entry.
  public var key: RawSpan {
    @_lifetime(borrow self) get { position == .inside ? cursor.currentKey : RawSpan() }
  }

  /// The current value, or an empty span without a current entry.
  public var value: RawSpan {
    @_lifetime(borrow self) get { position == .inside ? cursor.currentValue : RawSpan() }
  }

  /// The current key of a table with integer keys, or zero without a current entry.
  public var integerKey: UInt64 { isInteger && position == .inside ? cursor.currentInteger : 0 }

  /// A copy of the current key.
  public var keyBytes: [UInt8] { key.copied() }

  /// A copy of the current value.
  public var valueBytes: [UInt8] { value.copied() }
}

/// Returns the integer that eight bytes encode in native byte order.
private func nativeInteger(_ bytes: [UInt8]) -> UInt64 {
  guard bytes.count == 8 else { return 0 }
  return unsafe bytes.withUnsafeBytes { unsafe $0.loadUnaligned(as: UInt64.self) }
}
