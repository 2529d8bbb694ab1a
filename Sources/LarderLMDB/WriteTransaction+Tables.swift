// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

// The public operations of a write: each call checks that the table belongs to this environment and
// has keys of this kind, and that it runs on the transaction's thread. The engine uses handles.

extension WriteTransaction {
  // MARK: Reading

  /// Returns the value of a key without copying it; the span is valid until the next change in this
  /// transaction.
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
    requireOwnThread()
    guard let value = unsafe try Lookup.value(forKey: key, in: table, handle) else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// Returns a copy of the value of a key, or `nil` if the key does not exist.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Throws: As ``value(forKey:in:)``.
  public func bytes<Key: TableKey>(forKey key: Key, in table: Table) throws(LMDBError) -> [UInt8]? {
    requireOwnThread()
    return unsafe try Lookup.value(forKey: key, in: table, handle)?.span.copied()
  }

  /// Returns whether a key exists.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Throws: As ``value(forKey:in:)``.
  public func contains<Key: TableKey>(key: Key, in table: Table) throws(LMDBError) -> Bool {
    requireOwnThread()
    return unsafe try Lookup.value(forKey: key, in: table, handle) != nil
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
  public func forEach(
    in table: Table, _ range: KeyRange = .all,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    var cursor = try RangeCursor(over: table, range, in: self)
    while try cursor.next() { try body(cursor.key, cursor.value) }
  }

  /// Returns the size and shape of a table, with the changes of this transaction.
  ///
  /// - Parameter table: A table of the same environment.
  /// - Throws: ``LMDBError/Code/wrongEnvironment``.
  public func statistics(of table: Table) throws(LMDBError) -> TableStatistics {
    requireOwnThread()
    unsafe try table.require(in: handle)
    return try statistics(of: table.handle)
  }

  // MARK: Changing

  /// The size of the largest value: LMDB 0.9.24 writes larger ones incompletely.
  static let maximumValueBytes = 1 << 30

  /// Checks that a value may be stored, stores it, and returns LMDB's status.
  private func put<Key: TableKey>(
    _ value: RawSpan, forKey key: Key, in table: Table, flags: CInt
  ) throws(LMDBError) -> CInt {
    requireOwnThread()
    unsafe try table.require(Key.self, in: handle)
    guard value.byteCount <= WriteTransaction.maximumValueBytes else {
      throw LMDBError(.badValueSize, during: "mdb_put (a value of \(value.byteCount) bytes)")
    }
    let transaction = unsafe handle
    return key.withKeyBytes { key in
      unsafe Lookup.withCheckedKey(key, of: table) { key in
        unsafe withValue(value) { value in
          unsafe mdb_put(transaction, table.handle.handle, key, value, UInt32(flags))
        }
      }
    }
  }

  /// Stores a value under a key, and replaces an existing value.
  ///
  /// - Parameters:
  ///   - value: The bytes, at most 1 GiB.
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Throws: ``LMDBError/Code/badValueSize`` without a change if the key is empty or longer than
  ///   511 bytes, or the value is larger than 1 GiB. ``LMDBError/Code/mapFull`` and system errors
  ///   end the transaction.
  /// - Complexity: O(log *n*) plus one copy of the value.
  public mutating func put<Key: TableKey>(
    _ value: RawSpan, forKey key: Key, in table: Table
  ) throws(LMDBError) {
    try check(put(value, forKey: key, in: table, flags: 0), "mdb_put")
  }

  /// Stores a value under a key, and replaces an existing value.
  ///
  /// - Parameters:
  ///   - value: The bytes, at most 1 GiB.
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Throws: ``LMDBError/Code/badValueSize`` without a change; ``LMDBError/Code/mapFull`` and
  ///   system errors, which end the transaction.
  public mutating func put<Key: TableKey>(
    _ value: [UInt8], forKey key: Key, in table: Table
  ) throws(LMDBError) {
    try value.withRawSpan { value throws(LMDBError) in try put(value, forKey: key, in: table) }
  }

  /// Stores the UTF-8 of a string under a key, and replaces an existing value.
  ///
  /// - Parameters:
  ///   - text: The string, at most 1 GiB.
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Throws: ``LMDBError/Code/badValueSize`` without a change; ``LMDBError/Code/mapFull`` and
  ///   system errors, which end the transaction.
  public mutating func put<Key: TableKey>(
    _ text: String, forKey key: Key, in table: Table
  ) throws(LMDBError) {
    try put(Array(text.utf8), forKey: key, in: table)
  }

  /// Stores a value under a key that does not exist yet.
  ///
  /// - Parameters:
  ///   - value: The bytes, at most 1 GiB.
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Returns: Whether the value was stored; `false` if the key exists, without a change.
  /// - Throws: ``LMDBError/Code/badValueSize`` without a change; ``LMDBError/Code/mapFull`` and
  ///   system errors, which end the transaction.
  public mutating func insert<Key: TableKey>(
    _ value: RawSpan, forKey key: Key, in table: Table
  ) throws(LMDBError) -> Bool {
    let status = try put(value, forKey: key, in: table, flags: MDB_NOOVERWRITE)
    if status == MDB_KEYEXIST { return false }
    try check(status, "mdb_put")
    return true
  }

  /// Stores a value under a key that does not exist yet.
  ///
  /// - Parameters:
  ///   - value: The bytes, at most 1 GiB.
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Returns: Whether the value was stored; `false` if the key exists, without a change.
  /// - Throws: ``LMDBError/Code/badValueSize`` without a change; ``LMDBError/Code/mapFull`` and
  ///   system errors, which end the transaction.
  public mutating func insert<Key: TableKey>(
    _ value: [UInt8], forKey key: Key, in table: Table
  ) throws(LMDBError) -> Bool {
    try value.withRawSpan { value throws(LMDBError) in try insert(value, forKey: key, in: table) }
  }

  /// Removes the entry of a key.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - table: A table of the same environment.
  /// - Returns: Whether the entry existed.
  /// - Throws: ``LMDBError/Code/badValueSize``; ``LMDBError/Code/mapFull`` and system errors, which
  ///   end the transaction.
  @discardableResult
  public mutating func removeValue<Key: TableKey>(
    forKey key: Key, in table: Table
  ) throws(LMDBError) -> Bool {
    requireOwnThread()
    unsafe try table.require(Key.self, in: handle)
    let transaction = unsafe handle
    let status = key.withKeyBytes { key in
      unsafe Lookup.withCheckedKey(key, of: table) { key in
        unsafe mdb_del(transaction, table.handle.handle, key, nil)
      }
    }
    return try found(status, "mdb_del")
  }

  /// Removes the entries of a range.
  ///
  /// - Parameters:
  ///   - range: The range of keys.
  ///   - table: A table of the same environment.
  /// - Returns: The number of removed entries.
  /// - Throws: ``LMDBError/Code/keyKindMismatch``; ``LMDBError/Code/mapFull`` and system errors,
  ///   which end the transaction.
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
