// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

// The public reads of a snapshot: each call checks that the table belongs to this environment and
// has keys of this kind. The engine skips these checks and uses handles.

extension ReadTransaction {
  /// Returns the value of a key without copying it; the span is valid as long as this transaction.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Returns: The value, or `nil` if the key does not exist.
  /// - Throws: ``LMDBError/Code/badValueSize`` if the key is empty or longer than 511 bytes;
  ///   ``LMDBError/Code/keyKindMismatch``; ``LMDBError/Code/wrongEnvironment``.
  /// - Complexity: O(log *n*).
  @_lifetime(borrow self)
  public func value<Key: TableKey>(
    forKey key: Key, in table: Table
  ) throws(LMDBError) -> RawSpan? {
    guard let value = unsafe try Lookup.value(forKey: key, in: table, handle) else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// Returns a copy of the value of a key, or `nil` if the key does not exist.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Throws: As ``value(forKey:in:)``.
  /// - Complexity: O(log *n*) plus the copy.
  public func bytes<Key: TableKey>(forKey key: Key, in table: Table) throws(LMDBError) -> [UInt8]? {
    unsafe try Lookup.value(forKey: key, in: table, handle)?.span.copied()
  }

  /// Returns whether a key exists.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Throws: As ``value(forKey:in:)``.
  /// - Complexity: O(log *n*).
  public func contains<Key: TableKey>(key: Key, in table: Table) throws(LMDBError) -> Bool {
    unsafe try Lookup.value(forKey: key, in: table, handle) != nil
  }

  /// Returns a cursor before the first entry of a range.
  ///
  /// - Parameters:
  ///   - table: A table of the same environment.
  ///   - range: The range of keys and the order of the visit.
  /// - Throws: ``LMDBError/Code/keyKindMismatch``; ``LMDBError/Code/wrongEnvironment``.
  @_lifetime(borrow self)
  public func cursor(
    over table: Table, _ range: KeyRange = .all
  ) throws(LMDBError) -> RangeCursor {
    try RangeCursor(over: table, range, in: self)
  }

  /// Calls `body` with every entry of a range, in order.
  ///
  /// - Parameters:
  ///   - table: A table of the same environment.
  ///   - range: The range of keys and the order of the visit.
  ///   - body: A closure that gets key and value, valid during the call. An error of it ends the
  ///     visit.
  /// - Throws: What `body` throws; ``LMDBError/Code/keyKindMismatch``;
  ///   ``LMDBError/Code/wrongEnvironment``.
  /// - Complexity: O(*k* + log *n*) for *k* of *n* entries.
  public func forEach(
    in table: Table, _ range: KeyRange = .all,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    var cursor = try RangeCursor(over: table, range, in: self)
    while try cursor.next() { try body(cursor.key, cursor.value) }
  }

  /// Returns the size and shape of a table.
  ///
  /// - Parameter table: A table of the same environment.
  /// - Throws: ``LMDBError/Code/wrongEnvironment``.
  ///
  /// - Complexity: O(1).
  public func statistics(of table: Table) throws(LMDBError) -> TableStatistics {
    unsafe try table.require(in: handle)
    return try statistics(of: table.handle)
  }
}

/// Lookups for both kinds of transactions.
enum Lookup {
  /// Returns LMDB's bytes of an integer key's value: valid until the transaction ends or changes.
  @unsafe @inline(__always)
  static func value(
    forKey key: UInt64, in table: TableHandle, _ transaction: OpaquePointer
  ) throws(LMDBError) -> MDB_val? {
    var value = unsafe MDB_val()
    let status = unsafe withKey(key) { unsafe mdb_get(transaction, table.handle, $0, &value) }
    guard try found(status, "mdb_get") else {
      try unsafe table.confirmAbsence(of: key, in: transaction)
      return nil
    }
    return unsafe value
  }

  /// Returns LMDB's bytes of a byte key's value: valid until the transaction ends or changes.
  @unsafe @inline(__always)
  static func value(
    forKey key: RawSpan, in table: TableHandle, _ transaction: OpaquePointer
  ) throws(LMDBError) -> MDB_val? {
    var value = unsafe MDB_val()
    let status = unsafe withValue(key) { unsafe mdb_get(transaction, table.handle, $0, &value) }
    guard try found(status, "mdb_get") else {
      try unsafe table.confirmAbsence(of: key, in: transaction)
      return nil
    }
    return unsafe value
  }

  /// Returns LMDB's bytes of the value: valid until the transaction ends or changes.
  static func value<Key: TableKey>(
    forKey key: Key, in table: Table, _ transaction: OpaquePointer
  ) throws(LMDBError) -> MDB_val? {
    unsafe try table.require(Key.self, in: transaction)
    var value = unsafe MDB_val()
    let status = key.withKeyBytes { key in
      unsafe withCheckedKey(key, of: table) {
        unsafe mdb_get(transaction, table.handle.handle, $0, &value)
      }
    }
    guard try found(status, "mdb_get") else { return nil }
    return unsafe value
  }

  /// Calls LMDB with a key of a table and returns its status.
  @unsafe @inline(__always)
  static func withCheckedKey(
    _ key: RawSpan, of table: Table, _ call: (UnsafeMutablePointer<MDB_val>) -> CInt
  ) -> CInt {
    // LMDB assumes that all keys of such a table have one size.
    if table.keys == .integers, key.byteCount != 8 { return MDB_BAD_VALSIZE }
    return unsafe withValue(key, call)
  }
}
