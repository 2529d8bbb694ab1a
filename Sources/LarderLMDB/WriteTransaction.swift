// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

/// The write transaction of an environment; all processes together have one at a time.
///
/// `withWriteTransaction(_:)` passes it to a closure, commits it when the closure returns, and aborts
/// it when the closure throws. Its reads include its own writes. Borrowed bytes are valid until its
/// next change; keeping them longer is a compile error.
///
/// It belongs to the thread that began it, because LMDB's writer mutex does. A commit from another
/// thread would return success and block every writer permanently, so it traps instead.
@safe
public struct WriteTransaction: ~Copyable {
  let handle: OpaquePointer
  private let thread: UInt64
  // Safe: the environment owns it, and outlives its transactions.
  private let map: Unmanaged<WriteMapReservation>?
  /// The number of pages of the free list's tree, which the commit changes.
  private let freeTreePages: Int
  /// Whether a change failed, perhaps in the middle of a larger one: the commit must fail too.
  private var isRefused = false
  // Safe: the owner of the environment keeps it.
  private var recorder: Unmanaged<ChangeRecorder>?

  /// Waits for the writer lock, without a time limit.
  ///
  /// - Parameter recorder: Gets the changes. The caller keeps it until the transaction has ended.
  package init(
    in environment: borrowing EnvironmentHandle, recorder: ChangeRecorder? = nil
  ) throws(LMDBError) {
    var created: OpaquePointer?
    let begun = environment.waiting {
      unsafe mdb_txn_begin(environment.pointer, nil, 0, &created)
    }
    try check(begun, "mdb_txn_begin")
    let handle = unsafe created!
    var free = MDB_stat()
    if let map = environment.currentWriteMap {
      let status = unsafe mdb_stat(handle, 0, &free)
      let next = unsafe larder_txn_next_page(handle)
      guard status == MDB_SUCCESS, next == UInt64(environment.lastPage + 1) else {
        map.ruleOut()
        unsafe mdb_txn_abort(handle)
        throw LMDBError(.noRoomInMap, during: "mdb_txn_begin")
      }
      unsafe self.map = Unmanaged.passUnretained(map)
    } else {
      unsafe self.map = nil
    }
    unsafe self.handle = handle
    unsafe self.recorder = recorder.map { unsafe Unmanaged.passUnretained($0) }
    // A damaged meta page may contain any number.
    let freePages = free.ms_branch_pages &+ free.ms_leaf_pages &+ free.ms_overflow_pages
    freeTreePages = min(max(freePages, 0), 1 << 40)
    thread = OSThread.token
  }

  deinit {
    requireOwnThread()
    unsafe mdb_txn_abort(handle)
  }

  borrowing func requireOwnThread() {
    precondition(
      thread == OSThread.token,
      "an LMDB write transaction was used on another thread than the one that began it; "
        + "keep the whole of a write in one synchronous closure")
  }

  /// Commits all changes, which become visible to every process.
  ///
  /// - Throws: ``LMDBError/Code/outcomeUnknown`` if the disk failed so late that the commit may be
  ///   visible; any other error means that nothing was committed.
  package consuming func commit() throws(LMDBError) {
    requireOwnThread()
    let handle = unsafe self.handle
    let environment = unsafe mdb_txn_env(handle)
    let isRefused = isRefused
    discard self
    if isRefused {
      unsafe mdb_txn_abort(handle)
      throw LMDBError(.noRoomInMap, during: "mdb_txn_commit")
    }
    var systemError: CInt = 0
    let status = unsafe larder_txn_commit(handle, &systemError)
    if status != MDB_SUCCESS {
      throw unsafe FailedCommit.error(
        LMDBError.Code(rawValue: status), systemError, in: environment!)
    }
  }

  /// The id of the snapshot that contains this transaction's changes.
  public var id: UInt64 { unsafe UInt64(mdb_txn_id(handle)) }

  /// Records a change, after it was made.
  @inline(__always)
  func record(_ body: (ChangeRecorder) -> Void) {
    if let recorder = unsafe recorder { unsafe recorder._withUnsafeGuaranteedRef(body) }
  }

  // MARK: Room

  /// The page at which the transaction would extend the file, if it writes through the map.
  package var nextPage: Int? {
    unsafe map == nil ? nil : Int(larder_txn_next_page(handle))
  }

  /// The most pages by which a commit now can extend the file.
  package var commitPages: Int {
    WriteMapReservation.commitPages(
      next: unsafe Int(larder_txn_next_page(handle)), freeTree: freeTreePages)
  }

  /// Ensures before a change that the pages by which it and the commit may extend the file have
  /// blocks.
  @inline(__always)
  mutating func makeRoom(_ table: TableHandle, bytes: Int = 0) throws(LMDBError) {
    guard let map = unsafe map else { return }
    let start = unsafe Int(larder_txn_next_page(handle))
    // Overflow pages contain at least 4 kB; a small value needs none.
    let wanted = start + commitPages + (bytes > 1024 ? bytes / 4096 + 2 : 0)
    let pages = unsafe map._withUnsafeGuaranteedRef { $0.pages }
    if wanted + WriteMapReservation.anyOperationPages > pages { try makeMoreRoom(table, wanted) }
  }

  private mutating func makeMoreRoom(_ table: TableHandle, _ wanted: Int) throws(LMDBError) {
    guard let map = unsafe map else { return }
    var stat = MDB_stat()
    try unsafe check(mdb_stat(handle, table.handle, &stat), "mdb_stat")
    let depth = Int(stat.ms_depth)
    let pages = wanted + WriteMapReservation.operationPages(depth: depth)
    let hasRoom = unsafe map._withUnsafeGuaranteedRef { $0.pages >= pages || $0.extend(to: pages) }
    if isRefused || !hasRoom {
      isRefused = true
      throw LMDBError(.noRoomInMap, during: "fallocate(data.mdb)")
    }
  }

  // MARK: Tables

  /// Opens a table, creating it if it is missing.
  package mutating func makeTable(
    _ name: String, keys: Table.Keys
  ) throws(LMDBError) -> TableHandle {
    try makeRoom(.main)
    var dbi: MDB_dbi = 0
    try unsafe check(
      mdb_dbi_open(handle, name, UInt32(MDB_CREATE) | keys.flags, &dbi), "mdb_dbi_open(\(name))")
    return TableHandle(handle: dbi, name: name)
  }

  /// Removes every entry of a table.
  package mutating func empty(_ table: TableHandle) throws(LMDBError) {
    try makeRoom(table)
    try unsafe check(mdb_drop(handle, table.handle, 0), "mdb_drop")
    record { $0.empty(table) }
  }

  package func statistics(of table: TableHandle) throws(LMDBError) -> TableStatistics {
    var stat = MDB_stat()
    try unsafe check(mdb_stat(handle, table.handle, &stat), "mdb_stat")
    return TableStatistics(stat)
  }

  // MARK: Reading

  /// Returns the bytes stored for an integer key, valid until the next change in this transaction.
  @_lifetime(borrow self)
  package func value(forKey key: UInt64, in table: TableHandle) throws(LMDBError) -> RawSpan? {
    guard let value = unsafe try Lookup.value(forKey: key, in: table, handle) else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// Returns the bytes stored for a byte key, valid until the next change in this transaction.
  @_lifetime(borrow self)
  package func value(forKey key: [UInt8], in table: TableHandle) throws(LMDBError) -> RawSpan? {
    let handle = unsafe handle
    let found = unsafe try key.withRawSpan { key throws(LMDBError) in
      unsafe try Lookup.value(forKey: key, in: table, handle)
    }
    guard let value = unsafe found else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// Returns the bytes stored for a byte key, valid until the next change in this transaction.
  @_lifetime(borrow self)
  package func value(forKey key: RawSpan, in table: TableHandle) throws(LMDBError) -> RawSpan? {
    guard let value = unsafe try Lookup.value(forKey: key, in: table, handle) else { return nil }
    return unsafe _overrideLifetime(value.span, borrowing: self)
  }

  /// Passes the transaction to code that only reads. The results are valid until the next change.
  package borrowing func withReading<R>(
    _ body: (borrowing ReadTransaction) throws -> R
  ) rethrows -> R {
    requireOwnThread()
    let reading = unsafe ReadTransaction(lending: handle)
    return try body(reading)
  }

  // MARK: Writing

  /// Stores the concatenation of three byte runs, written directly into the page.
  ///
  /// - Parameter appending: Whether the key comes after all keys of the table: pages are filled
  ///   instead of split in halves.
  package mutating func put(
    _ first: RawSpan, _ second: RawSpan, _ third: RawSpan, forKey key: UInt64,
    in table: TableHandle,
    appending: Bool = false
  ) throws(LMDBError) {
    let flags = UInt32(MDB_RESERVE) | (appending ? UInt32(MDB_APPEND) : 0)
    try unsafe put(first, second, third, in: table) { handle, value in
      unsafe withKey(key) { unsafe mdb_put(handle, table.handle, $0, value, flags) }
    }
    record { $0.put(first, second, third, key: key, in: table) }
  }

  /// Stores the concatenation of three byte runs, written directly into the page.
  package mutating func put(
    _ first: RawSpan, _ second: RawSpan, _ third: RawSpan, forKey key: [UInt8],
    in table: TableHandle
  ) throws(LMDBError) {
    try unsafe put(first, second, third, in: table) { handle, value in
      key.withRawSpan { key in
        unsafe withValue(key) {
          unsafe mdb_put(handle, table.handle, $0, value, UInt32(MDB_RESERVE))
        }
      }
    }
    record { recorder in
      key.withRawSpan { recorder.put(first, second, third, key: $0, in: table) }
    }
  }

  /// Reserves a value with a call of LMDB, and fills it.
  @unsafe @inline(__always)
  private mutating func put(
    _ first: RawSpan, _ second: RawSpan, _ third: RawSpan, in table: TableHandle,
    _ reserve: (OpaquePointer, UnsafeMutablePointer<MDB_val>) -> CInt
  ) throws(LMDBError) {
    var value = unsafe MDB_val(
      mv_size: first.byteCount + second.byteCount + third.byteCount, mv_data: nil)
    requireOwnThread()
    try makeRoom(table, bytes: unsafe value.mv_size)
    try unsafe check(reserve(handle, &value), "mdb_put")
    try unsafe fill(value, first, second, third)
  }

  @unsafe private func fill(
    _ value: MDB_val, _ first: RawSpan, _ second: RawSpan, _ third: RawSpan
  ) throws(LMDBError) {
    // For a table with damaged flags, LMDB returns success without a buffer.
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
    _ bytes: RawSpan, forKey key: UInt64, in table: TableHandle
  ) throws(LMDBError) {
    requireOwnThread()
    try makeRoom(table, bytes: bytes.byteCount)
    let handle = unsafe handle
    let status = unsafe withKey(key) { key in
      unsafe withValue(bytes) { value in unsafe mdb_put(handle, table.handle, key, value, 0) }
    }
    try check(status, "mdb_put")
    record { $0.put(bytes, key: key, in: table) }
  }

  package mutating func put(
    _ bytes: RawSpan, forKey key: RawSpan, in table: TableHandle
  ) throws(LMDBError) {
    requireOwnThread()
    try makeRoom(table, bytes: bytes.byteCount)
    let handle = unsafe handle
    let status = unsafe withValue(key) { key in
      unsafe withValue(bytes) { value in unsafe mdb_put(handle, table.handle, key, value, 0) }
    }
    try check(status, "mdb_put")
    record { $0.put(bytes, key: key, in: table) }
  }

  package mutating func put(
    _ bytes: [UInt8], forKey key: [UInt8], in table: TableHandle
  ) throws(LMDBError) {
    try bytes.withRawSpan { bytes throws(LMDBError) in
      try key.withRawSpan { key throws(LMDBError) in
        try put(bytes, forKey: key, in: table)
      }
    }
  }

  /// - Returns: Whether the key existed.
  @discardableResult
  package mutating func remove(key: [UInt8], in table: TableHandle) throws(LMDBError) -> Bool {
    requireOwnThread()
    try makeRoom(table)
    let handle = unsafe handle
    let status = key.withRawSpan { key in
      unsafe withValue(key) { unsafe mdb_del(handle, table.handle, $0, nil) }
    }
    let isFound = try found(status, "mdb_del")
    if isFound { record { recorder in key.withRawSpan { recorder.remove(key: $0, in: table) } } }
    return isFound
  }

  /// - Returns: Whether the key existed.
  @discardableResult
  package mutating func remove(key: UInt64, in table: TableHandle) throws(LMDBError) -> Bool {
    requireOwnThread()
    try makeRoom(table)
    let handle = unsafe handle
    let status = unsafe withKey(key) { unsafe mdb_del(handle, table.handle, $0, nil) }
    let isFound = try found(status, "mdb_del")
    if isFound { record { $0.remove(key: key, in: table) } }
    return isFound
  }
}
