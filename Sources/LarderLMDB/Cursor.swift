// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

/// A position in one table, inside one transaction, that moves in key order.
///
/// The compiler rejects code in which a cursor outlives its transaction, and code that changes a
/// write transaction while a cursor of it exists.
@safe
package struct Cursor: ~Copyable, ~Escapable {
  private let handle: OpaquePointer
  private var key = unsafe MDB_val()
  private var value = unsafe MDB_val()

  @_lifetime(borrow transaction)
  package init(
    over table: TableHandle, in transaction: borrowing ReadTransaction
  ) throws(LMDBError) {
    unsafe self.handle = try Cursor.makeHandle(transaction.handle, table)
  }

  @_lifetime(borrow transaction)
  package init(
    over table: TableHandle, in transaction: borrowing WriteTransaction
  ) throws(LMDBError) {
    unsafe self.handle = try Cursor.makeHandle(transaction.handle, table)
  }

  private static func makeHandle(
    _ transaction: OpaquePointer, _ table: TableHandle
  ) throws(LMDBError) -> OpaquePointer {
    var created: OpaquePointer?
    try unsafe check(mdb_cursor_open(transaction, table.handle, &created), "mdb_cursor_open")
    return unsafe created!
  }

  deinit { unsafe mdb_cursor_close(handle) }

  @_lifetime(self: copy self)
  private mutating func move(_ operation: MDB_cursor_op) throws(LMDBError) -> Bool {
    var key = unsafe MDB_val()
    var value = unsafe MDB_val()
    let status = unsafe mdb_cursor_get(handle, &key, &value, operation)
    unsafe self.key = key
    unsafe self.value = value
    return try found(status, "mdb_cursor_get")
  }

  /// - Returns: Whether the entry exists; if so, it becomes the current entry.
  @_lifetime(self: copy self)
  package mutating func moveToFirst() throws(LMDBError) -> Bool { try move(MDB_FIRST) }
  @_lifetime(self: copy self)
  package mutating func moveToLast() throws(LMDBError) -> Bool { try move(MDB_LAST) }
  @_lifetime(self: copy self)
  package mutating func moveToNext() throws(LMDBError) -> Bool { try move(MDB_NEXT) }
  @_lifetime(self: copy self)
  package mutating func moveToPrevious() throws(LMDBError) -> Bool { try move(MDB_PREV) }

  /// Moves to the first entry whose key is at or after `start`.
  @_lifetime(self: copy self)
  package mutating func move(atLeast start: UInt64) throws(LMDBError) -> Bool {
    let handle = unsafe handle
    // LMDB reads the start key during the call only, then replaces it with the key in the page.
    var key = unsafe MDB_val()
    var value = unsafe MDB_val()
    let status = unsafe withKey(start) { start in
      let status = unsafe mdb_cursor_get(handle, start, &value, MDB_SET_RANGE)
      unsafe key = start.pointee
      return status
    }
    unsafe self.key = key
    unsafe self.value = value
    return try found(status, "mdb_cursor_get")
  }

  /// Moves to the first entry whose key is at or after `start`.
  @_lifetime(self: copy self)
  package mutating func move(atLeast start: [UInt8]) throws(LMDBError) -> Bool {
    let handle = unsafe handle
    var key = unsafe MDB_val()
    var value = unsafe MDB_val()
    let status = start.withRawSpan { span in
      unsafe withValue(span) { start in
        let status = unsafe mdb_cursor_get(handle, start, &value, MDB_SET_RANGE)
        unsafe key = start.pointee
        return status
      }
    }
    unsafe self.key = key
    unsafe self.value = value
    return try found(status, "mdb_cursor_get")
  }

  /// The current key.
  package var currentKey: RawSpan {
    @_lifetime(borrow self) get { unsafe _overrideLifetime(key.span, borrowing: self) }
  }

  /// The current key of a table with integer keys.
  package var currentInteger: UInt64 {
    unsafe key.mv_size == 8 ? key.mv_data.loadUnaligned(as: UInt64.self) : 0
  }

  /// The current value.
  package var currentValue: RawSpan {
    @_lifetime(borrow self) get { unsafe _overrideLifetime(value.span, borrowing: self) }
  }
}
