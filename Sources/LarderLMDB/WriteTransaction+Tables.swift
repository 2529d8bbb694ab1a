// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

// What everybody may do in a write: each call looks whether the table is of this environment and has
// such keys, and whether this is the transaction's own thread. The engine works by handles.

extension WriteTransaction {
  // MARK: Reading

  /// The value of a key, or `nil`; lent until the next change in this transaction.
  @_lifetime(borrow self)
  public func value<Key: TableKey>(
    forKey key: Key, in table: Table
  ) throws(LMDBError) -> RawSpan? {
    requireOwnThread()
    guard let value = unsafe try Lookup.value(forKey: key, in: table, handle) else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// A copy of the value of a key, or `nil`.
  public func bytes<Key: TableKey>(forKey key: Key, in table: Table) throws(LMDBError) -> [UInt8]? {
    requireOwnThread()
    return unsafe try Lookup.value(forKey: key, in: table, handle)?.span.copied()
  }

  /// Whether there is such a key.
  public func contains<Key: TableKey>(key: Key, in table: Table) throws(LMDBError) -> Bool {
    requireOwnThread()
    return unsafe try Lookup.value(forKey: key, in: table, handle) != nil
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

  /// How large a table is, with the changes of this transaction.
  public func statistics(of table: Table) throws(LMDBError) -> TableStatistics {
    requireOwnThread()
    unsafe try table.require(in: handle)
    return try statistics(of: table.handle)
  }

  // MARK: Changing

  /// The largest value: LMDB 0.9.24 writes larger ones in part.
  static let maximumValueBytes = 1 << 30

  /// Whether a value may be stored; what LMDB has to be called with if so.
  private func begin<Key: TableKey>(
    _ key: Key.Type, _ table: Table, valueBytes: Int
  ) throws(LMDBError) -> OpaquePointer {
    requireOwnThread()
    unsafe try table.require(Key.self, in: handle)
    guard valueBytes <= WriteTransaction.maximumValueBytes else {
      throw LMDBError(.badValueSize, during: "mdb_put (a value of \(valueBytes) bytes)")
    }
    return unsafe handle
  }

  private static func put<Key: TableKey>(
    _ value: RawSpan, forKey key: Key, in table: Table, _ transaction: OpaquePointer,
    flags: CInt = 0
  ) -> CInt {
    key.withKeyBytes { key in
      unsafe Lookup.withKey(key, of: table) { key in
        unsafe withValue(value) { value in
          unsafe mdb_put(transaction, table.handle.handle, key, value, UInt32(flags))
        }
      }
    }
  }

  /// Stores a value under a key, in place of one that is there.
  ///
  /// - Throws: ``LMDBError/Code/badValueSize`` for a key that is empty or longer than 511 bytes, or a
  ///   value of more than 1 GiB: nothing has changed then. ``LMDBError/Code/mapFull`` and errors of
  ///   the system end the transaction.
  /// - Complexity: O(log *n*) and the value is copied once.
  public mutating func put<Key: TableKey>(
    _ value: RawSpan, forKey key: Key, in table: Table
  ) throws(LMDBError) {
    let transaction = unsafe try begin(Key.self, table, valueBytes: value.byteCount)
    try check(
      unsafe WriteTransaction.put(value, forKey: key, in: table, transaction), "mdb_put")
  }

  /// Stores a value under a key, in place of one that is there.
  public mutating func put<Key: TableKey>(
    _ value: [UInt8], forKey key: Key, in table: Table
  ) throws(LMDBError) {
    let transaction = unsafe try begin(Key.self, table, valueBytes: value.count)
    let status = value.withRawSpan { value in
      unsafe WriteTransaction.put(value, forKey: key, in: table, transaction)
    }
    try check(status, "mdb_put")
  }

  /// Stores a text, as UTF-8, under a key, in place of a value that is there.
  public mutating func put<Key: TableKey>(
    _ text: String, forKey key: Key, in table: Table
  ) throws(LMDBError) {
    try put(Array(text.utf8), forKey: key, in: table)
  }

  /// Stores a value under a key that is not there yet.
  ///
  /// - Returns: `false`: the key is there, and nothing has changed.
  public mutating func insert<Key: TableKey>(
    _ value: RawSpan, forKey key: Key, in table: Table
  ) throws(LMDBError) -> Bool {
    let transaction = unsafe try begin(Key.self, table, valueBytes: value.byteCount)
    let status = unsafe WriteTransaction.put(
      value, forKey: key, in: table, transaction, flags: MDB_NOOVERWRITE)
    if status == MDB_KEYEXIST { return false }
    try check(status, "mdb_put")
    return true
  }

  /// Stores a value under a key that is not there yet.
  ///
  /// - Returns: `false`: the key is there, and nothing has changed.
  public mutating func insert<Key: TableKey>(
    _ value: [UInt8], forKey key: Key, in table: Table
  ) throws(LMDBError) -> Bool {
    let transaction = unsafe try begin(Key.self, table, valueBytes: value.count)
    let status = value.withRawSpan { value in
      unsafe WriteTransaction.put(
        value, forKey: key, in: table, transaction, flags: MDB_NOOVERWRITE)
    }
    if status == MDB_KEYEXIST { return false }
    try check(status, "mdb_put")
    return true
  }

  /// Removes the entry of a key.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public mutating func removeValue<Key: TableKey>(
    forKey key: Key, in table: Table
  ) throws(LMDBError) -> Bool {
    requireOwnThread()
    unsafe try table.require(Key.self, in: handle)
    let transaction = unsafe handle
    let status = key.withKeyBytes { key in
      unsafe Lookup.withKey(key, of: table) { key in
        unsafe mdb_del(transaction, table.handle.handle, key, nil)
      }
    }
    return try found(status, "mdb_del")
  }

  /// Removes the entries of a range.
  ///
  /// - Returns: How many there were.
  /// - Complexity: O(*k* log *n*) for *k* of *n* entries; O(pages) for all of them.
  @discardableResult
  public mutating func removeAll(
    in table: Table, _ range: KeyRange = .all
  ) throws(LMDBError) -> Int {
    if range == .all {
      let count = try statistics(of: table).entries
      try empty(table.handle)
      return count
    }
    var keys: [[UInt8]] = []
    do {
      var cursor = try RangeCursor(over: table, range, in: self)
      while try cursor.next() { keys.append(cursor.keyBytes) }
    }
    for key in keys { try remove(key: key, in: table.handle) }
    return keys.count
  }
}
