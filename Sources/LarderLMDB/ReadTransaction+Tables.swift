// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

// What a snapshot can be asked by everybody: each call looks whether the table is of this environment
// and has such keys. The engine, which knows, asks by handles.

extension ReadTransaction {
  /// The value of a key, or `nil`; lent as long as this transaction is.
  ///
  /// - Throws: ``LMDBError/Code/badValueSize`` for a key that is empty or longer than 511 bytes.
  /// - Complexity: O(log *n*); nothing is copied.
  @_lifetime(borrow self)
  public func value<Key: TableKey>(
    forKey key: Key, in table: Table
  ) throws(LMDBError) -> RawSpan? {
    guard let value = unsafe try Lookup.value(forKey: key, in: table, handle) else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// A copy of the value of a key, or `nil`.
  public func bytes<Key: TableKey>(forKey key: Key, in table: Table) throws(LMDBError) -> [UInt8]? {
    unsafe try Lookup.value(forKey: key, in: table, handle)?.span.copied()
  }

  /// Whether there is such a key.
  public func contains<Key: TableKey>(key: Key, in table: Table) throws(LMDBError) -> Bool {
    unsafe try Lookup.value(forKey: key, in: table, handle) != nil
  }

  /// A walk over the entries of a table, before the first of `range`.
  @_lifetime(borrow self)
  public func cursor(
    over table: Table, _ range: KeyRange = .all
  ) throws(LMDBError) -> RangeCursor {
    try RangeCursor(over: table, range, in: self)
  }

  /// Lends every entry of a range to `body`, in order; an error of `body` ends the walk.
  public func forEach(
    in table: Table, _ range: KeyRange = .all,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    var cursor = try RangeCursor(over: table, range, in: self)
    while try cursor.next() { try body(cursor.key, cursor.value) }
  }

  /// How large a table is.
  ///
  /// - Complexity: O(1).
  public func statistics(of table: Table) throws(LMDBError) -> TableStatistics {
    unsafe try table.require(in: handle)
    return try statistics(of: table.handle)
  }
}

/// Looking up, for both kinds of transactions.
enum Lookup {
  /// Where LMDB has the value: valid until the transaction ends or changes something.
  static func value<Key: TableKey>(
    forKey key: Key, in table: Table, _ transaction: OpaquePointer
  ) throws(LMDBError) -> MDB_val? {
    unsafe try table.require(Key.self, in: transaction)
    var value = unsafe MDB_val()
    let status = key.withKeyBytes { key in
      unsafe withKey(key, of: table) {
        unsafe mdb_get(transaction, table.handle.handle, $0, &value)
      }
    }
    guard try found(status, "mdb_get") else { return nil }
    return unsafe value
  }

  /// Calls LMDB with a key of a table; returns its status.
  @unsafe @inline(__always)
  static func withKey(
    _ key: RawSpan, of table: Table, _ call: (UnsafeMutablePointer<MDB_val>) -> CInt
  ) -> CInt {
    // LMDB believes that all keys of such a table have one size.
    if table.keys == .integers, key.byteCount != 8 { return MDB_BAD_VALSIZE }
    return unsafe withValue(key, call)
  }
}
