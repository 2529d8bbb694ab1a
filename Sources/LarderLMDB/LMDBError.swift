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

/// A failure in an LMDB environment: the operation, the code and a remedy.
///
/// ```swift
/// do {
///   try environment.withWriteTransaction { try $0.put("1", forKey: "starts", in: table) }
/// } catch LMDBError.Code.mapFull {
///   // Open the environment with a larger map.
/// }
/// ```
public struct LMDBError: Error, Hashable, Sendable {
  /// The kind of failure. Later versions may add codes.
  ///
  /// LMDB's own codes are negative and below -30,000; positive codes are `errno` values of the
  /// system; small negative codes are of this module.
  public struct Code: RawRepresentable, Hashable, Sendable {
    /// The numeric value.
    public let rawValue: CInt
    /// Creates a code from a number of LMDB or the system.
    ///
    /// - Parameter rawValue: The number; every value is accepted.
    public init(rawValue: CInt) { self.rawValue = rawValue }
  }

  /// The kind of failure.
  public let code: Code
  /// The operation that failed: the C name of a function of LMDB or the system, or a description
  /// with the path.
  public let operation: String

  /// The process that was waited for until the time limit, or `nil` if no such process is known.
  public let pid: Int32?

  package init(_ code: Code, during operation: String, pid: Int32? = nil) {
    self.code = code
    self.operation = operation
    self.pid = pid
  }

  /// The operation and the meaning of the code, without advice.
  package var cause: String { "\(operation): \(code)" }

  /// A Boolean value that indicates whether the disk, a quota or a file-size limit refused a write.
  public var isStorageFull: Bool { SystemError.isStorageFull(code.rawValue) }

  /// Whether the file, or this process's view of it, is unusable.
  package var isDamage: Bool {
    switch code {
    case .notFound, .mapFull, .tablesFull, .readersFull, .transactionFull,
      .badReaderSlot, .panic:
      false
    case .damaged: true
    // Codes of this module: they are not about the file's contents.
    case _ where (-99 ... -1).contains(code.rawValue): false
    // All other codes of LMDB mean an invalid page: tables are opened once and with their own
    // flags, keys have valid sizes, and no failed transaction continues. EINVAL is an invalid page
    // number, in the file or, for a lock, in `lock.mdb`.
    default: code.rawValue < 0 || code.rawValue == EINVAL
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

  /// Returns an error of the system that this module detected itself.
  static func system(_ errno: CInt, during operation: String) -> LMDBError {
    LMDBError(Code(rawValue: errno), during: operation)
  }
}

// The codes of LMDB.
extension LMDBError.Code {
  /// A page has the wrong type: the file is damaged. `MDB_CORRUPTED`
  public static var corrupted: Self { Self(rawValue: MDB_CORRUPTED) }
  /// A page that is referred to does not exist: the file is damaged. `MDB_PAGE_NOTFOUND`
  public static var pageNotFound: Self { Self(rawValue: MDB_PAGE_NOTFOUND) }
  /// An earlier error was fatal: this process must close and reopen the environment. `MDB_PANIC`
  public static var panic: Self { Self(rawValue: MDB_PANIC) }
  /// The file is not an LMDB file. `MDB_INVALID`
  public static var invalid: Self { Self(rawValue: MDB_INVALID) }
  /// The file has another LMDB format version. `MDB_VERSION_MISMATCH`
  public static var versionMismatch: Self { Self(rawValue: MDB_VERSION_MISMATCH) }
  /// The map is full. `MDB_MAP_FULL`
  public static var mapFull: Self { Self(rawValue: MDB_MAP_FULL) }
  /// A program without the open lock wrote beyond this map. `MDB_MAP_RESIZED`
  public static var mapResized: Self { Self(rawValue: MDB_MAP_RESIZED) }
  /// All reader slots are in use. `MDB_READERS_FULL`
  public static var readersFull: Self { Self(rawValue: MDB_READERS_FULL) }
  /// Too many tables are open. `MDB_DBS_FULL`
  public static var tablesFull: Self { Self(rawValue: MDB_DBS_FULL) }
  /// A transaction changed too many pages. `MDB_TXN_FULL`
  public static var transactionFull: Self { Self(rawValue: MDB_TXN_FULL) }
  /// A key is empty or longer than 511 bytes, or a value is too large. `MDB_BAD_VALSIZE`
  public static var badValueSize: Self { Self(rawValue: MDB_BAD_VALSIZE) }
  /// The key does not exist. `MDB_NOTFOUND`
  package static var notFound: Self { Self(rawValue: MDB_NOTFOUND) }
  /// The table has other flags than requested, or flags that this module does not support.
  /// `MDB_INCOMPATIBLE`
  public static var incompatible: Self { Self(rawValue: MDB_INCOMPATIBLE) }
  /// The reader slot belongs to another process. `MDB_BAD_RSLOT`
  public static var badReaderSlot: Self { Self(rawValue: MDB_BAD_RSLOT) }
  /// The transaction failed earlier and can only be aborted. `MDB_BAD_TXN`
  public static var badTransaction: Self { Self(rawValue: MDB_BAD_TXN) }
  /// Another program removed the table. `MDB_BAD_DBI`
  public static var badTable: Self { Self(rawValue: MDB_BAD_DBI) }
  /// LMDB reported an internal error. `MDB_PROBLEM`, which 0.9.24 does not define yet.
  package static var problem: Self { Self(rawValue: -30779) }
}

// The codes of this module.
extension LMDBError.Code {
  /// The environment is already open in this process.
  public static var alreadyOpen: Self { Self(rawValue: -1) }
  /// The disk has no room for the blocks that the transaction may need in the map; the transaction
  /// can write to the file instead.
  package static var noRoomInMap: Self { Self(rawValue: -2) }
  /// The directory or file belongs to a Larder store.
  public static var larderStore: Self { Self(rawValue: -3) }
  /// The file system cannot keep several processes coherent (network, FUSE).
  public static var unsupportedFileSystem: Self { Self(rawValue: -4) }
  /// This process is a fork of one that had opened an environment. It can use none, not even another one.
  public static var usedAfterFork: Self { Self(rawValue: -5) }
  /// The environment was closed.
  public static var closed: Self { Self(rawValue: -6) }
  /// The operation needs the writer lock, or the end of a transaction, and this thread is inside a
  /// transaction.
  public static var insideTransaction: Self { Self(rawValue: -7) }
  /// Another process has the environment open, and the operation needs exclusive access.
  public static var inUse: Self { Self(rawValue: -8) }
  /// Another process held the open lock for longer than ``EnvironmentOptions/openTimeout``.
  public static var openTimeout: Self { Self(rawValue: -9) }
  /// The table belongs to another environment or to a closed one.
  public static var wrongEnvironment: Self { Self(rawValue: -10) }
  /// The table has keys of the other kind.
  public static var keyKindMismatch: Self { Self(rawValue: -11) }
  /// Processes of another PID namespace have the environment open.
  public static var pidNamespaceMismatch: Self { Self(rawValue: -12) }
  /// An option or a name has a value outside its range.
  public static var invalidOption: Self { Self(rawValue: -13) }
  /// The verifier found the file damaged or missing; the files are unchanged.
  public static var damaged: Self { Self(rawValue: -14) }
  /// LMDB's locks are not robust on this system.
  public static var nonRobustLocks: Self { Self(rawValue: -15) }
  /// The files of the open environment were removed or replaced.
  public static var filesRemoved: Self { Self(rawValue: -16) }
  /// The disk failed while a commit was published; a read after the next open shows whether the
  /// commit took place.
  public static var outcomeUnknown: Self { Self(rawValue: -17) }
  /// The address space of this process has no room for the map.
  public static var addressSpace: Self { Self(rawValue: -18) }
  /// The file system writes each block to a new location, so a full disk would end processes.
  public static var copyOnWrite: Self { Self(rawValue: -19) }
  /// Another transaction, of the process ``LMDBError/pid``, did not end in time.
  public static var writerStalled: Self { Self(rawValue: -20) }
  /// Another user owns the directory, one of its files or a directory above it, or may write to it.
  public static var unsafeDirectory: Self { Self(rawValue: -21) }
}

extension LMDBError.Code: CustomStringConvertible {
  /// Returns whether `error` is an ``LMDBError`` with this code, for `catch
  /// LMDBError.Code.mapFull`.
  public static func ~= (pattern: Self, error: any Error) -> Bool {
    (error as? LMDBError)?.code == pattern
  }

  /// The meaning of the code, as part of a sentence.
  public var description: String {
    if let own = sentences?.meaning { return own }
    guard let text = unsafe mdb_strerror(rawValue) else { return "code \(rawValue)" }
    return unsafe String(cString: text)
  }
}

/// Throws for a status code other than success. All calls of LMDB use it.
@inline(__always)
func check(_ status: CInt, _ operation: @autoclosure () -> String) throws(LMDBError) {
  guard status == MDB_SUCCESS else {
    throw LMDBError(LMDBError.Code(rawValue: status), during: operation())
  }
}

/// Returns `false` for the status of a missing key, and throws for every other failure. All lookups
/// use it.
@inline(__always)
func found(_ status: CInt, _ operation: @autoclosure () -> String) throws(LMDBError) -> Bool {
  if status == MDB_NOTFOUND { return false }
  try check(status, operation())
  return true
}
