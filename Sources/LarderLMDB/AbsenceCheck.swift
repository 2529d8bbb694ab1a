// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

// THE PATH OF AN ABSENT KEY
//
// LMDB checks no page on the way from the root to a leaf. A damaged page number, or a leaf whose
// flags say branch, leads the search to another page, where the key is not found: damage looks like
// absence, and a program that then saves its empty answer destroys what was there. A key that is
// found needs no check, because its record has a checksum.
//
// So before a table that confirms absence answers that a key is absent, this check walks the same
// path with its own eyes. Each page on it must have its own number, the type of its level, a sound
// layout, and keys within the bounds of the branches above. The path is that of the last committed
// tree: its pages do not change while a transaction exists, also while a write transaction changes
// copies of them.

/// A walk from a root to the leaf of a key, over the mapped pages of a snapshot.
@safe
struct AbsenceCheck {
  private let pages: UnsafeRawPointer
  private let pageSize: Int
  private let lastPage: UInt64
  private let key: UnsafeRawBufferPointer

  init(_ key: UnsafeRawBufferPointer, _ map: UnsafeRawPointer, in transaction: OpaquePointer) {
    let environment = unsafe mdb_txn_env(transaction)
    var info = unsafe MDB_envinfo()
    var stat = MDB_stat()
    unsafe mdb_env_info(environment, &info)
    unsafe mdb_env_stat(environment, &stat)
    unsafe self.pages = map
    self.pageSize = Int(stat.ms_psize)
    // A damaged meta page may contain any number.
    let mapped = unsafe UInt64(info.me_mapsize) / UInt64(stat.ms_psize)
    self.lastPage = unsafe min(UInt64(truncatingIfNeeded: info.me_last_pgno), max(mapped, 1) - 1)
    unsafe self.key = key
  }

  /// Returns the record of the main table in the last committed tree of a transaction, or `nil` if
  /// later transactions have replaced its meta page.
  func mainTable(of transaction: UInt64) -> TableRecord? {
    // A write transaction has the next id.
    for id in [transaction, transaction &- 1] {
      let meta = unsafe MetaRecord(
        FormatBytes(
          UnsafeRawBufferPointer(
            start: pages + Int(id & 1) * pageSize, count: LMDBFormat.metaBytes)))
      if meta.transactionID == id { return meta.main }
    }
    return nil
  }

  /// Returns the number of the first page on the path that is damaged, or `nil` if the path is
  /// sound.
  func damage(in table: TableRecord) -> UInt64? {
    if table.root == LMDBFormat.noPage { return table.depth == 0 ? nil : table.root }
    guard table.depth > 0, table.depth <= LMDBFormat.maximumDepth else { return table.root }
    let isInteger = table.flags & LMDBFormat.TableFlag.integerKey != 0
    var bounds = Bounds()
    var number = table.root
    for level in 1...table.depth {
      guard number > 1, number <= lastPage else { return number }
      let bytes = unsafe UnsafeRawBufferPointer(
        start: pages + Int(number) * pageSize, count: pageSize)
      let type = level == table.depth ? LMDBFormat.PageFlag.leaf : LMDBFormat.PageFlag.branch
      guard
        let page = unsafe TreePage(bytes, number: number, type: type, isInteger: isInteger),
        let child = unsafe page.child(of: key, within: &bounds)
      else { return number }
      number = child
    }
    return nil
  }

  /// The keys of the branches above between which every key of a page must be.
  @safe
  struct Bounds {
    var lower: UnsafeRawBufferPointer?
    var upper: UnsafeRawBufferPointer?
  }
}

/// A mapped page of a tree whose header is sound.
@safe
private struct TreePage {
  private let bytes: UnsafeRawBufferPointer
  private let nodes: Int
  private let upper: Int
  private let isLeaf: Bool
  private let isInteger: Bool

  init?(_ bytes: UnsafeRawBufferPointer, number: UInt64, type: UInt16, isInteger: Bool) {
    let header = unsafe FormatBytes(bytes)
    let lower = Int(header.uint16(at: 12))
    let upper = Int(header.uint16(at: 14))
    let typeBits =
      LMDBFormat.PageFlag.branch | LMDBFormat.PageFlag.leaf | LMDBFormat.PageFlag.overflow
      | LMDBFormat.PageFlag.meta
    guard
      header.uint64(at: 0) == number, header.uint16(at: 10) & typeBits == type,
      lower >= LMDBFormat.pageHeaderBytes, lower & 1 == 0, lower <= upper, upper <= header.count
    else { return nil }
    unsafe self.bytes = bytes
    self.upper = upper
    self.nodes = (lower - LMDBFormat.pageHeaderBytes) / 2
    self.isLeaf = type == LMDBFormat.PageFlag.leaf
    self.isInteger = isInteger
    if nodes < (isLeaf ? 1 : 2) { return nil }
  }

  /// Returns the key of a node, or `nil` if the node exceeds the page.
  private func key(at index: Int) -> UnsafeRawBufferPointer? {
    let page = unsafe FormatBytes(bytes)
    let node = Int(page.uint16(at: LMDBFormat.pageHeaderBytes + 2 * index))
    guard node >= upper, node + LMDBFormat.nodeHeaderBytes <= page.count else { return nil }
    let start = node + LMDBFormat.nodeHeaderBytes
    let end = start + Int(page.uint16(at: node + 6))
    guard end <= page.count, !isInteger || end - start == 8 else { return nil }
    return unsafe UnsafeRawBufferPointer(rebasing: bytes[start..<end])
  }

  private func precedes(_ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer) -> Bool {
    if isInteger {
      return unsafe first.loadUnaligned(as: UInt64.self) < second.loadUnaligned(as: UInt64.self)
    }
    return unsafe first.lexicographicallyPrecedes(second)
  }

  /// Returns the page of the key on the next level, zero for a leaf, or `nil` if the page is
  /// damaged. Narrows the bounds to that child.
  func child(
    of key: UnsafeRawBufferPointer, within bounds: inout AbsenceCheck.Bounds
  ) -> UInt64? {
    // The first key of a branch page is unused.
    let first = isLeaf ? 0 : 1
    guard let lowest = unsafe self.key(at: first), let highest = unsafe self.key(at: nodes - 1)
    else { return nil }
    if let lower = unsafe bounds.lower, unsafe precedes(lowest, lower) { return nil }
    if let upper = unsafe bounds.upper, unsafe !precedes(highest, upper) { return nil }
    if isLeaf { return 0 }
    // The last node whose key is at most the key; the first if there is none.
    var (low, high) = (1, nodes)
    while low < high {
      let middle = (low + high) / 2
      guard let found = unsafe self.key(at: middle) else { return nil }
      if unsafe precedes(key, found) { high = middle } else { low = middle + 1 }
    }
    let index = low - 1
    if index > 0 { unsafe bounds.lower = self.key(at: index) }
    if index + 1 < nodes { unsafe bounds.upper = self.key(at: index + 1) }
    let page = unsafe FormatBytes(bytes)
    let node = Int(page.uint16(at: LMDBFormat.pageHeaderBytes + 2 * index))
    guard node >= upper, node + LMDBFormat.nodeHeaderBytes <= page.count else { return nil }
    return UInt64(page.uint32(at: node)) | UInt64(page.uint16(at: node + 4)) << 32
  }
}

extension TableHandle {
  /// Throws ``LMDBError/Code/corrupted`` if LMDB may have missed a key because of damage; see
  /// ``EnvironmentHandle/confirmAbsence()``.
  ///
  /// - Complexity: O(log *n*); about as long as the look-up.
  @unsafe @inline(__always)
  func confirmAbsence(of key: UInt64, in transaction: OpaquePointer) throws(LMDBError) {
    guard let map = unsafe EnvironmentContext.confirmedMap(of: transaction) else { return }
    try unsafe withUnsafeBytes(of: key) { key throws(LMDBError) in
      try unsafe confirm(key, map, transaction)
    }
  }

  /// Throws as ``confirmAbsence(of:in:)-(UInt64,_)``.
  @unsafe @inline(__always)
  func confirmAbsence(of key: RawSpan, in transaction: OpaquePointer) throws(LMDBError) {
    guard let map = unsafe EnvironmentContext.confirmedMap(of: transaction) else { return }
    try unsafe key.withUnsafeBytes { key throws(LMDBError) in
      try unsafe confirm(key, map, transaction)
    }
  }

  @unsafe
  private func confirm(
    _ key: UnsafeRawBufferPointer, _ map: UnsafeRawPointer, _ transaction: OpaquePointer
  ) throws(LMDBError) {
    let check = unsafe AbsenceCheck(key, map, in: transaction)
    let table: TableRecord
    if let name {
      table = try unsafe record(named: name, in: transaction)
    } else {
      guard let main = unsafe check.mainTable(of: UInt64(mdb_txn_id(transaction))) else { return }
      table = main
    }
    if let page = check.damage(in: table) {
      throw LMDBError(.corrupted, during: "page \(page) of the table \(name ?? "main")")
    }
  }

  /// Returns the record of a named table in the last committed tree: LMDB writes it at the commit.
  @unsafe
  private func record(
    named name: String, in transaction: OpaquePointer
  ) throws(LMDBError) -> TableRecord {
    var name = name
    var value = unsafe MDB_val()
    let status = name.withUTF8 { bytes in
      var key = unsafe MDB_val(
        mv_size: bytes.count, mv_data: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
      return unsafe mdb_get(transaction, TableHandle.main.handle, &key, &value)
    }
    guard
      try found(status, "mdb_get"), unsafe value.mv_size == LMDBFormat.tableRecordBytes,
      let start = unsafe value.mv_data
    else { throw LMDBError(.corrupted, during: "the record of the table \(name)") }
    return unsafe TableRecord(
      FormatBytes(UnsafeRawBufferPointer(start: start, count: value.mv_size)), at: 0)
  }
}
