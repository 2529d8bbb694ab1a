// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
package import LarderSystem

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Why something failed in an LMDB environment: what, with which code, and what to do.
///
/// ```swift
/// do {
///   try environment.withWriteTransaction { try $0.put("1", forKey: "starts", in: table) }
/// } catch LMDBError.Code.mapFull {
///   // Open the environment with a larger map.
/// }
/// ```
public struct LMDBError: Error, Hashable, Sendable {
  /// What kind of failure it is. Open: more may come.
  ///
  /// LMDB's own codes are negative and below -30,000; positive ones are the system's error numbers;
  /// small negative ones are of this module.
  public struct Code: RawRepresentable, Hashable, Sendable {
    /// The number.
    public let rawValue: CInt
    /// Any number LMDB or the system may give.
    public init(rawValue: CInt) { self.rawValue = rawValue }
  }

  /// What kind of failure it is.
  public let code: Code
  /// What failed: a function of LMDB or the system by its C name, or what was being done to which path.
  public let operation: String

  /// The process that was waited for, where the wait ended for want of time and it is known.
  public let pid: Int32?

  package init(_ code: Code, during operation: String, pid: Int32? = nil) {
    self.code = code
    self.operation = operation
    self.pid = pid
  }

  /// What happened, without advice.
  package var cause: String { "\(operation): \(code)" }

  /// The disk, a quota or a file-size limit refused a write.
  public var isStorageFull: Bool { SystemError.isStorageFull(code.rawValue) }

  /// The file, or this process's view of it, cannot be used further.
  package var isDamage: Bool {
    switch code {
    case .notFound, .mapFull, .tablesFull, .readersFull, .transactionFull,
      .badReaderSlot, .panic:
      false
    case .damaged: true
    // Of this module: they say nothing of the file.
    case _ where (-99 ... -1).contains(code.rawValue): false
    // All that LMDB says otherwise means a page that is none: tables are opened once and as they
    // were made, keys have their sizes, nobody goes on in a transaction that failed. EINVAL is a
    // page number that is none, in the file or, of a lock, in `lock.mdb`.
    default: code.rawValue < 0 || code.rawValue == 22
    }
  }
}

extension LMDBError {
  package init(_ error: SystemError) {
    let path = error.path.map { " \($0)" } ?? ""
    self.init(Code(rawValue: error.errno), during: error.operation + path)
  }

  init(_ error: LMDBFileError, path: String) {
    self.init(Code(rawValue: error.errno), during: "\(error.operation) \(path)")
  }

  /// An error of the system that this module found by itself.
  static func system(_ errno: CInt, during operation: String) -> LMDBError {
    LMDBError(Code(rawValue: errno), during: operation)
  }
}

// What LMDB calls so.
extension LMDBError.Code {
  /// A page was of the wrong kind: the file is damaged. `MDB_CORRUPTED`
  public static var corrupted: Self { Self(rawValue: MDB_CORRUPTED) }
  /// A page that is referred to does not exist: the file is damaged. `MDB_PAGE_NOTFOUND`
  public static var pageNotFound: Self { Self(rawValue: MDB_PAGE_NOTFOUND) }
  /// A fatal error earlier: this process must close and open the environment again. `MDB_PANIC`
  public static var panic: Self { Self(rawValue: MDB_PANIC) }
  /// The file is not an LMDB file. `MDB_INVALID`
  public static var invalid: Self { Self(rawValue: MDB_INVALID) }
  /// The file is of another LMDB format. `MDB_VERSION_MISMATCH`
  public static var versionMismatch: Self { Self(rawValue: MDB_VERSION_MISMATCH) }
  /// The map is full. `MDB_MAP_FULL`
  public static var mapFull: Self { Self(rawValue: MDB_MAP_FULL) }
  /// A program without the gate wrote beyond this map. `MDB_MAP_RESIZED`
  public static var mapResized: Self { Self(rawValue: MDB_MAP_RESIZED) }
  /// All reader slots are in use. `MDB_READERS_FULL`
  public static var readersFull: Self { Self(rawValue: MDB_READERS_FULL) }
  /// Too many tables are open. `MDB_DBS_FULL`
  public static var tablesFull: Self { Self(rawValue: MDB_DBS_FULL) }
  /// A transaction changed too many pages. `MDB_TXN_FULL`
  public static var transactionFull: Self { Self(rawValue: MDB_TXN_FULL) }
  /// A key is empty or longer than 511 bytes, or a value too large. `MDB_BAD_VALSIZE`
  public static var badValueSize: Self { Self(rawValue: MDB_BAD_VALSIZE) }
  /// There is no such key. `MDB_NOTFOUND`
  package static var notFound: Self { Self(rawValue: MDB_NOTFOUND) }
  /// The table is of a kind that was not asked for, or that this module does not have.
  /// `MDB_INCOMPATIBLE`
  public static var incompatible: Self { Self(rawValue: MDB_INCOMPATIBLE) }
  /// The reader slot is not this process's. `MDB_BAD_RSLOT`
  public static var badReaderSlot: Self { Self(rawValue: MDB_BAD_RSLOT) }
  /// The transaction failed earlier and can only be aborted. `MDB_BAD_TXN`
  public static var badTransaction: Self { Self(rawValue: MDB_BAD_TXN) }
  /// The table was removed by another program. `MDB_BAD_DBI`
  public static var badTable: Self { Self(rawValue: MDB_BAD_DBI) }
  /// LMDB met a state it does not explain. `MDB_PROBLEM`, which 0.9.24 has not yet.
  package static var problem: Self { Self(rawValue: -30779) }
}

// What this module calls so.
extension LMDBError.Code {
  /// The environment is open in this process already.
  public static var alreadyOpen: Self { Self(rawValue: -1) }
  /// The disk has no room for what the transaction may need; it can write to the file.
  package static var noRoomInMap: Self { Self(rawValue: -2) }
  /// The directory or the file is a Larder store's.
  public static var larderStore: Self { Self(rawValue: -3) }
  /// The file system cannot keep several processes coherent (network, FUSE).
  public static var unsupportedFileSystem: Self { Self(rawValue: -4) }
  /// This process is a fork of the one that opened the environment.
  public static var usedAfterFork: Self { Self(rawValue: -5) }
  /// The environment was closed.
  public static var closed: Self { Self(rawValue: -6) }
  /// What was asked for takes the write lock, which this thread holds.
  public static var insideTransaction: Self { Self(rawValue: -7) }
  /// Another process has the environment open, and what was asked for needs it alone.
  public static var inUse: Self { Self(rawValue: -8) }
  /// Another process has been opening or closing the environment for too long.
  public static var openTimeout: Self { Self(rawValue: -9) }
  /// The table belongs to another environment, or to one that was closed.
  public static var wrongEnvironment: Self { Self(rawValue: -10) }
  /// The table has keys of the other kind.
  public static var keyKindMismatch: Self { Self(rawValue: -11) }
  /// Processes of another PID namespace have the environment open.
  public static var pidNamespaceMismatch: Self { Self(rawValue: -12) }
  /// An option or a name has a value that makes no sense.
  public static var invalidOption: Self { Self(rawValue: -13) }
  /// The verifier found the file damaged, or it is gone; nothing was touched.
  public static var damaged: Self { Self(rawValue: -14) }
  /// LMDB's locks are not robust on this system.
  public static var nonRobustLocks: Self { Self(rawValue: -15) }
  /// The files of the open environment were removed or replaced.
  public static var filesRemoved: Self { Self(rawValue: -16) }
  /// The disk failed while a commit was published: reading after the next opening shows whether it
  /// took place.
  public static var outcomeUnknown: Self { Self(rawValue: -17) }
  /// The address space of this process has no room for the map.
  public static var addressSpace: Self { Self(rawValue: -18) }
  /// The file system writes each block to a new place, so that a full disk would end processes.
  public static var copyOnWrite: Self { Self(rawValue: -19) }
  /// Another transaction, of ``LMDBError/pid``, did not end in time.
  public static var writerStalled: Self { Self(rawValue: -20) }
}

extension LMDBError.Code: CustomStringConvertible {
  /// Lets a `catch` name a code: `catch LMDBError.Code.mapFull`.
  public static func ~= (pattern: Self, error: any Error) -> Bool {
    (error as? LMDBError)?.code == pattern
  }

  /// What it means, in half a sentence.
  public var description: String {
    if let own = sentences?.meaning { return own }
    guard let text = unsafe mdb_strerror(rawValue) else { return "code \(rawValue)" }
    return unsafe String(cString: text)
  }
}

/// The one funnel for status codes.
@inline(__always)
func check(_ status: CInt, _ operation: @autoclosure () -> String) throws(LMDBError) {
  guard status == MDB_SUCCESS else {
    throw LMDBError(LMDBError.Code(rawValue: status), during: operation())
  }
}

/// The one funnel for look-ups: `false` when there is no such key.
@inline(__always)
func found(_ status: CInt, _ operation: @autoclosure () -> String) throws(LMDBError) -> Bool {
  if status == MDB_NOTFOUND { return false }
  try check(status, operation())
  return true
}
