// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// A position in one table, inside one transaction, that moves in key order.
///
/// The compiler rejects code in which a cursor outlives its transaction, and code that changes a
/// write transaction while a cursor of it exists.
@safe
package struct Cursor: ~Copyable, ~Escapable {
  private let handle: OpaquePointer
  private var key = unsafe MDB_val()
  private var value = unsafe MDB_val()
  /// The entries that follow in the page of the current one, if the cursor reads them without LMDB.
  private var page: LeafPage?
  /// The page size of the file; 0 until the first step, and if LMDB must read all entries.
  private var pageSize = 0
  private var readsPages: Bool

  @_lifetime(borrow transaction)
  package init(
    over table: TableHandle, in transaction: borrowing ReadTransaction
  ) throws(LMDBError) {
    unsafe self.handle = try Cursor.makeHandle(transaction.handle, table)
    readsPages = transaction.isCommitted && LMDBFormat.isKnown
  }

  @_lifetime(borrow transaction)
  package init(
    over table: TableHandle, in transaction: borrowing WriteTransaction
  ) throws(LMDBError) {
    unsafe self.handle = try Cursor.makeHandle(transaction.handle, table)
    readsPages = false
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
    page = nil
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
  package mutating func moveToNext() throws(LMDBError) -> Bool {
    if unsafe page?.next(&key, &value) ?? false { return true }
    try moveLMDBHere()
    guard try move(MDB_NEXT) else { return false }
    if readsPages { beginPage() }
    return true
  }
  @_lifetime(self: copy self)
  package mutating func moveToPrevious() throws(LMDBError) -> Bool {
    try moveLMDBHere()
    return try move(MDB_PREV)
  }

  /// Moves LMDB's cursor to the current entry.
  ///
  /// The key of the last entry of a page finds it there at once, if it is above that of the first
  /// one. The key of a damaged page may be found elsewhere, or nowhere; steps always lead to the entry.
  @_lifetime(self: copy self)
  private mutating func moveLMDBHere() throws(LMDBError) {
    guard let page, page.steps > 0 else { return }
    self.page = nil
    var key = unsafe key
    var value = unsafe MDB_val()
    if page.isAtEnd, let first = unsafe page.firstKey, unsafe isAbove(first) {
      let expected = unsafe key.mv_data
      let status = unsafe mdb_cursor_get(handle, &key, &value, MDB_SET_KEY)
      try check(status, "mdb_cursor_get")
      guard unsafe key.mv_data == expected else {
        throw LMDBError(.corrupted, during: "mdb_cursor_get")
      }
    } else {
      for _ in 0..<page.steps {
        try unsafe check(mdb_cursor_get(handle, &key, &value, MDB_NEXT), "mdb_cursor_get")
      }
    }
    unsafe self.key = key
    unsafe self.value = value
  }

  /// Whether the current key is above another one of the table.
  @unsafe
  private func isAbove(_ other: MDB_val) -> Bool {
    var (key, other) = unsafe (key, other)
    return unsafe mdb_cmp(mdb_cursor_txn(handle), mdb_cursor_dbi(handle), &key, &other) > 0
  }

  /// Reads the entries after the current one without LMDB, as far as its page allows.
  @_lifetime(self: copy self)
  private mutating func beginPage() {
    if pageSize == 0 {
      var table = MDB_stat()
      let status = unsafe mdb_stat(mdb_cursor_txn(handle), mdb_cursor_dbi(handle), &table)
      let size = Int(table.ms_psize)
      guard status == 0, LMDBFormat.pageSizes.contains(size), size <= Int(getpagesize()),
        size & (size - 1) == 0
      else {
        readsPages = false
        return
      }
      pageSize = size
    }
    page = unsafe LeafPage(after: UnsafeRawPointer(key.mv_data), size: pageSize)
  }

  /// Moves to the first entry whose key is at or after `start`.
  @_lifetime(self: copy self)
  package mutating func move(atLeast start: UInt64) throws(LMDBError) -> Bool {
    page = nil
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
    page = nil
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
