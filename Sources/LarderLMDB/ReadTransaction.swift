// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

/// One consistent snapshot of an environment.
///
/// ``Environment/withReadTransaction(_:)`` passes it to a closure. It prevents the reuse of pages
/// freed after it began, so it must be short: no waiting, no suspension. The compiler rejects code
/// in which its spans and cursors outlive it.
@safe
public struct ReadTransaction: ~Copyable {
  let handle: OpaquePointer
  /// Whether the transaction ends with this value; a write transaction shares its handle.
  private let isOwned: Bool
  /// Whether all pages that the transaction reads are in the map, because it is no reading of a write
  /// transaction.
  let isCommitted: Bool

  init(lending handle: OpaquePointer) {
    unsafe self.handle = handle
    self.isOwned = false
    isCommitted = false
  }

  /// Creates a second value for a transaction. It must not outlive `transaction`, which ends it.
  package init(lending transaction: borrowing ReadTransaction) {
    unsafe self.handle = transaction.handle
    self.isOwned = false
    isCommitted = transaction.isCommitted
  }

  package init(in environment: borrowing EnvironmentHandle) throws(LMDBError) {
    var created: OpaquePointer?
    let status = environment.waiting {
      unsafe mdb_txn_begin(environment.pointer, nil, UInt32(MDB_RDONLY), &created)
    }
    try check(status, "mdb_txn_begin")
    unsafe self.handle = created!
    self.isOwned = true
    isCommitted = true
  }

  deinit { if isOwned { unsafe mdb_txn_abort(handle) } }

  /// Opens a table. The handle is valid only after ``keepTables()``.
  package func table(
    _ name: String, keys: Table.Keys
  ) throws(LMDBError) -> TableHandle? {
    var dbi: MDB_dbi = 0
    let exists = try unsafe found(
      mdb_dbi_open(handle, name, keys.flags, &dbi), "mdb_dbi_open(\(name))")
    return exists ? TableHandle(handle: dbi, name: name) : nil
  }

  /// Ends the transaction so that tables opened in it stay open.
  package consuming func keepTables() throws(LMDBError) {
    let handle = unsafe self.handle
    discard self
    try unsafe check(mdb_txn_commit(handle), "mdb_txn_commit")
  }

  /// Releases the snapshot and keeps the reader slot.
  package mutating func reset() { unsafe mdb_txn_reset(handle) }

  /// Acquires the newest snapshot after ``reset()``.
  ///
  /// - Returns: Its id.
  package mutating func renew() throws(LMDBError) -> UInt64 {
    try unsafe check(mdb_txn_renew(handle), "mdb_txn_renew")
    return id
  }

  /// The id of the newest transaction this snapshot contains.
  public var id: UInt64 { unsafe UInt64(mdb_txn_id(handle)) }

  /// Returns the bytes stored for an integer key, valid as long as this transaction.
  @_lifetime(borrow self)
  package func value(forKey key: UInt64, in table: TableHandle) throws(LMDBError) -> RawSpan? {
    guard let value = unsafe try Lookup.value(forKey: key, in: table, handle) else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// Returns the bytes stored for a byte key, valid as long as this transaction.
  @_lifetime(borrow self)
  package func value(forKey key: [UInt8], in table: TableHandle) throws(LMDBError) -> RawSpan? {
    let handle = unsafe handle
    let found = unsafe try key.withRawSpan { key throws(LMDBError) in
      unsafe try Lookup.value(forKey: key, in: table, handle)
    }
    guard let value = unsafe found else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// Returns the value of a key on the stack, or `nil` if there is none.
  @_lifetime(borrow self)
  package func value(forKey key: ShortKey, in table: TableHandle) throws(LMDBError) -> RawSpan? {
    let handle = unsafe handle
    let bytes = key.bytes
    let found = unsafe try withUnsafeBytes(of: bytes) { bytes throws(LMDBError) in
      let key = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<key.count])
      return unsafe try Lookup.value(forKey: RawSpan(_unsafeBytes: key), in: table, handle)
    }
    guard let value = unsafe found else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  package func statistics(of table: TableHandle) throws(LMDBError) -> TableStatistics {
    var stat = MDB_stat()
    try unsafe check(mdb_stat(handle, table.handle, &stat), "mdb_stat")
    return TableStatistics(stat)
  }

  /// Returns the statistics of the list of free pages itself.
  package func freeListStatistics() throws(LMDBError) -> TableStatistics {
    try statistics(of: TableHandle(handle: 0, name: nil))
  }

  /// Returns the number of pages that transactions after `transaction` have freed: a reader with
  /// that snapshot prevents their reuse.
  package func pagesFreed(after transaction: UInt64) throws(LMDBError) -> Int {
    var cursor = try Cursor(over: TableHandle(handle: 0, name: nil), in: self)
    var pages = 0
    var found = try cursor.moveToLast()
    while found, cursor.currentInteger > transaction {
      // The value is a list of page numbers that begins with its length.
      pages &+= Int(clamping: cursor.currentValue.integer(at: 0, as: UInt64.self) ?? 0)
      found = try cursor.moveToPrevious()
    }
    return pages
  }
}
