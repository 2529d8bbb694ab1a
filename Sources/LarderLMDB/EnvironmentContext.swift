// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// The state of an environment that its transactions use; LMDB stores a pointer to it.
///
/// Its owner sets it up before the first other use of the environment, and keeps it longer.
@safe
final class EnvironmentContext {
  /// The serial number that the environment's tables contain, or zero.
  var serial: UInt = 0
  /// The start of the map if absent keys are confirmed, or `nil`; see ``AbsenceCheck``.
  var confirmedMap: UnsafeRawPointer?

  /// Returns the context of a transaction's environment.
  @inline(__always)
  static func of(_ transaction: OpaquePointer) -> Unmanaged<EnvironmentContext>? {
    unsafe mdb_env_get_userctx(mdb_txn_env(transaction)).map {
      unsafe Unmanaged.fromOpaque($0)
    }
  }

  /// Returns the start of the map if absent keys are confirmed in a transaction's environment.
  @inline(__always)
  static func confirmedMap(of transaction: OpaquePointer) -> UnsafeRawPointer? {
    unsafe of(transaction)?._withUnsafeGuaranteedRef { unsafe $0.confirmedMap }
  }

  /// Returns the start of the map, derived from a page that contains a small value and its number.
  @unsafe static func mapStart(
    of environment: borrowing EnvironmentHandle, pageSize: Int
  ) -> UnsafeMutableRawPointer? {
    guard let transaction = try? ReadTransaction(in: environment),
      LMDBFormat.pageSizes.contains(pageSize)
    else { return nil }
    var (cursor, key, value): (OpaquePointer?, MDB_val, MDB_val) = unsafe (nil, .init(), .init())
    guard
      unsafe mdb_cursor_open(transaction.handle, TableHandle.main.handle, &cursor) == MDB_SUCCESS
    else { return nil }
    defer { unsafe mdb_cursor_close(cursor) }
    guard
      unsafe mdb_cursor_get(cursor, &key, &value, MDB_FIRST) == MDB_SUCCESS,
      // The key is in the page of the tree for every size of the value.
      let inside = unsafe key.mv_data
    else { return nil }
    let page = unsafe UnsafeRawPointer(
      bitPattern: UInt(bitPattern: inside) & ~UInt(pageSize - 1))!
    let number = unsafe page.load(as: UInt64.self)
    guard number < 1 << 34 else { return nil }
    let address = UInt(bitPattern: page) &- UInt(number) &* UInt(pageSize)
    guard
      let base = unsafe UnsafeMutableRawPointer(bitPattern: address),
      unsafe larder_is_mapped(base, 2 * pageSize) == 1
    else { return nil }
    for meta in 0..<2 {
      let start = unsafe base + meta * pageSize
      guard unsafe start.load(as: UInt64.self) == UInt64(meta),
        unsafe (start + 16).load(as: UInt32.self) == LMDBFormat.magic
      else { return nil }
    }
    return unsafe base
  }
}

// Written only before the environment is used, see above.
extension EnvironmentContext: @unchecked Sendable {}
