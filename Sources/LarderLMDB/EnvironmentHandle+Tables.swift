// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

// The operations of a handle that only ``Environment`` uses.

extension EnvironmentHandle {
  /// The id of the last committed transaction, from the newer meta page.
  var lastTransaction: UInt64 {
    var info = unsafe MDB_envinfo()
    unsafe mdb_env_info(pointer, &info)
    return unsafe UInt64(truncatingIfNeeded: info.me_last_txnid)
  }

  /// Sets the serial number that the environment's tables contain; see ``serial(of:)``.
  func setSerial(_ serial: UInt) {
    context.serial = serial
  }

  /// Returns the serial number of a transaction's environment, or zero if none was set.
  static func serial(of transaction: OpaquePointer) -> UInt {
    unsafe EnvironmentContext.of(transaction)?._withUnsafeGuaranteedRef { $0.serial } ?? 0
  }

  /// Makes every look-up that finds no key check that damage did not hide it; see
  /// `AbsenceCheck.swift`. Call it before other threads use the environment.
  package func confirmAbsence() throws(LMDBError) {
    guard let map = unsafe EnvironmentContext.mapStart(of: self, pageSize: information.pageSize)
    else { throw LMDBError(.corrupted, during: "the first page of the main table") }
    unsafe context.confirmedMap = UnsafeRawPointer(map)
  }

  /// Opens a table, creates it if it does not exist, and checks that it has the requested keys.
  ///
  /// LMDB itself opens a table with any flags, whatever its own are, and then compares a key of
  /// another size beyond its end. And LMDB allows one transaction of a process at a time to open
  /// tables: a write transaction is always alone.
  func openTable(_ name: String?, keys: Table.Keys) throws(LMDBError) -> TableHandle {
    var transaction = try WriteTransaction(in: self)
    let table =
      if let name { try transaction.makeTable(name, keys: keys) } else { TableHandle.main }
    var flags: UInt32 = 0
    try unsafe check(mdb_dbi_flags(transaction.handle, table.handle, &flags), "mdb_dbi_flags")
    let called = name.map { "table \"\($0)\"" } ?? "the unnamed table"
    guard flags & ~UInt32(MDB_CREATE) == keys.flags else {
      throw LMDBError(.incompatible, during: "open \(called)")
    }
    if keys == .integers {
      let isForeign: Bool
      do {
        var cursor = try Cursor(over: table, in: transaction)
        isForeign = try cursor.moveToFirst() && cursor.currentKey.byteCount != 8
      }
      // A table of another program: integers of four bytes.
      if isForeign { throw LMDBError(.incompatible, during: "open \(called)") }
    }
    try transaction.commit()
    return table
  }
}
