// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

/// The one write transaction of an environment, of all processes.
///
/// It belongs to the thread that began it: LMDB's writer mutex does. A commit from another thread
/// would return success and block every writer for ever, so it is a trap here.
@safe
package struct WriteTransaction: ~Copyable {
  let handle: OpaquePointer
  private let thread: UInt64

  /// Waits for the writer lock, without a time limit.
  package init(in environment: borrowing Environment) throws(LMDBError) {
    var created: OpaquePointer?
    try unsafe check(mdb_txn_begin(environment.pointer, nil, 0, &created), "mdb_txn_begin")
    unsafe self.handle = created!
    self.thread = OSThread.token
  }

  deinit {
    requireOwnThread()
    unsafe mdb_txn_abort(handle)
  }

  private borrowing func requireOwnThread() {
    precondition(
      thread == OSThread.token,
      "an LMDB write transaction was used on another thread than the one that began it; "
        + "keep the whole of a write in one synchronous closure")
  }

  /// Publishes everything, for every process.
  package consuming func commit() throws(LMDBError) {
    requireOwnThread()
    let handle = unsafe self.handle
    discard self
    try unsafe check(mdb_txn_commit(handle), "mdb_txn_commit")
  }

  package var id: UInt64 { unsafe UInt64(mdb_txn_id(handle)) }

  // MARK: Tables

  /// Opens a table, creating it if it is missing.
  package mutating func makeTable(
    _ name: String, keys: Table.Keys
  ) throws(LMDBError) -> Table {
    var dbi: MDB_dbi = 0
    try unsafe check(
      mdb_dbi_open(handle, name, UInt32(MDB_CREATE) | keys.flags, &dbi), "mdb_dbi_open(\(name))")
    return Table(handle: dbi, name: name)
  }

  /// Removes every entry of a table.
  package mutating func empty(_ table: Table) throws(LMDBError) {
    try unsafe check(mdb_drop(handle, table.handle, 0), "mdb_drop")
  }

  package func statistics(of table: Table) throws(LMDBError) -> TableStatistics {
    var stat = MDB_stat()
    try unsafe check(mdb_stat(handle, table.handle, &stat), "mdb_stat")
    return TableStatistics(stat)
  }

  // MARK: Reading

  /// The bytes stored for an integer key, valid until the next change in this transaction.
  @_lifetime(borrow self)
  package func value(forKey key: UInt64, in table: Table) throws(LMDBError) -> RawSpan? {
    let handle = unsafe handle
    var value = unsafe MDB_val()
    let status = unsafe withKey(key) { unsafe mdb_get(handle, table.handle, $0, &value) }
    guard try found(status, "mdb_get") else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// The bytes stored for a key of bytes, valid until the next change in this transaction.
  @_lifetime(borrow self)
  package func value(forKey key: [UInt8], in table: Table) throws(LMDBError) -> RawSpan? {
    let handle = unsafe handle
    var value = unsafe MDB_val()
    let status = key.withRawSpan { key in
      unsafe withValue(key) { unsafe mdb_get(handle, table.handle, $0, &value) }
    }
    guard try found(status, "mdb_get") else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// Lends the transaction to code that only reads. What it finds is valid until the next change.
  package borrowing func withReading<R>(
    _ body: (borrowing ReadTransaction) throws -> R
  ) rethrows -> R {
    requireOwnThread()
    let reading = unsafe ReadTransaction(lending: handle)
    return try body(reading)
  }

  // MARK: Writing

  /// Stores the concatenation of three byte runs, written straight into the page.
  ///
  /// - Parameter appending: The key comes after all of the table: pages are filled instead of
  ///   split in halves.
  package mutating func put(
    _ first: RawSpan, _ second: RawSpan, _ third: RawSpan, forKey key: UInt64, in table: Table,
    appending: Bool = false
  ) throws(LMDBError) {
    var value = unsafe MDB_val(
      mv_size: first.byteCount + second.byteCount + third.byteCount, mv_data: nil)
    requireOwnThread()
    let handle = unsafe handle
    let flags = UInt32(MDB_RESERVE) | (appending ? UInt32(MDB_APPEND) : 0)
    let status = unsafe withKey(key) {
      unsafe mdb_put(handle, table.handle, $0, &value, flags)
    }
    try check(status, "mdb_put")
    try unsafe fill(value, first, second, third)
  }

  /// Stores the concatenation of three byte runs, written straight into the page.
  package mutating func put(
    _ first: RawSpan, _ second: RawSpan, _ third: RawSpan, forKey key: [UInt8], in table: Table
  ) throws(LMDBError) {
    var value = unsafe MDB_val(
      mv_size: first.byteCount + second.byteCount + third.byteCount, mv_data: nil)
    requireOwnThread()
    let handle = unsafe handle
    let status = key.withRawSpan { key in
      unsafe withValue(key) {
        unsafe mdb_put(handle, table.handle, $0, &value, UInt32(MDB_RESERVE))
      }
    }
    try check(status, "mdb_put")
    try unsafe fill(value, first, second, third)
  }

  @unsafe private func fill(
    _ value: MDB_val, _ first: RawSpan, _ second: RawSpan, _ third: RawSpan
  ) throws(LMDBError) {
    // A table whose flags are damaged says yes and gives no room.
    guard var target = unsafe value.mv_data else {
      throw LMDBError(.corrupted, during: "mdb_put")
    }
    for part in [0, 1, 2] {
      let source = part == 0 ? first : part == 1 ? second : third
      unsafe source.withUnsafeBytes { bytes in
        guard let base = bytes.baseAddress else { return }
        unsafe target.copyMemory(from: base, byteCount: bytes.count)
        unsafe target += bytes.count
      }
    }
  }

  package mutating func put(
    _ bytes: RawSpan, forKey key: UInt64, in table: Table
  ) throws(LMDBError) {
    requireOwnThread()
    let handle = unsafe handle
    let status = unsafe withKey(key) { key in
      unsafe withValue(bytes) { value in unsafe mdb_put(handle, table.handle, key, value, 0) }
    }
    try check(status, "mdb_put")
  }

  package mutating func put(
    _ bytes: [UInt8], forKey key: [UInt8], in table: Table
  ) throws(LMDBError) {
    requireOwnThread()
    let handle = unsafe handle
    let status = key.withRawSpan { key in
      bytes.withRawSpan { bytes in
        unsafe withValue(key) { key in
          unsafe withValue(bytes) { value in unsafe mdb_put(handle, table.handle, key, value, 0) }
        }
      }
    }
    try check(status, "mdb_put")
  }

  /// - Returns: Whether there was such a key.
  @discardableResult
  package mutating func remove(key: [UInt8], in table: Table) throws(LMDBError) -> Bool {
    requireOwnThread()
    let handle = unsafe handle
    let status = key.withRawSpan { key in
      unsafe withValue(key) { unsafe mdb_del(handle, table.handle, $0, nil) }
    }
    return try found(status, "mdb_del")
  }

  /// - Returns: Whether there was such a key.
  @discardableResult
  package mutating func remove(key: UInt64, in table: Table) throws(LMDBError) -> Bool {
    requireOwnThread()
    let handle = unsafe handle
    let status = unsafe withKey(key) { unsafe mdb_del(handle, table.handle, $0, nil) }
    return try found(status, "mdb_del")
  }
}
