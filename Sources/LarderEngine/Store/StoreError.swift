// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
package import LarderSystem

/// The error of a failed operation on a store, with its cause and a remedy.
///
/// ```swift
/// do {
///   try cache.setValue(report, forKey: id)
/// } catch let error as StoreError where error.code == .storageFull {
///   // The disk is full. Committed data is intact; writes work again once there is space.
/// }
/// ```
public struct StoreError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of a failure. Later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The stable name of the code, as in logs and JSON.
    public let rawValue: String
    /// Creates a code from its name.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The name of the code.
    public var description: String { rawValue }

    /// The directory cannot be used: missing permissions, a file at its path, an unsafe owner.
    public static let directory = Code(rawValue: "directory")
    /// The file system cannot keep several processes coherent (a network file system, FUSE).
    public static let fileSystem = Code(rawValue: "fileSystem")
    /// The store was created with another durability.
    public static let durabilityMismatch = Code(rawValue: "durabilityMismatch")
    /// The store was written by a newer, incompatible version.
    public static let newerFormat = Code(rawValue: "newerFormat")
    /// The files of a durable store are damaged. They are unchanged.
    public static let damaged = Code(rawValue: "damaged")
    /// A process that only reads does not restore the store after a crash of the system.
    package static let needsRecovery = Code(rawValue: "needsRecovery")
    /// A write of a process that only reads.
    package static let readsOnly = Code(rawValue: "readsOnly")
    /// Another copy of the library in this process has the store open.
    public static let duplicateLibrary = Code(rawValue: "openedTwice")
    /// The operation needs exclusive access, but other processes have the store open.
    public static let inUse = Code(rawValue: "inUse")
    /// Processes of another PID namespace have a `.durable` or `.relaxed` store open.
    public static let otherNamespace = Code(rawValue: "otherNamespace")
    /// Opening, or a switch to new files in a read or a write, did not finish within the time limit,
    /// because another process is opening, closing or compacting the store.
    public static let openTimeout = Code(rawValue: "openTimeout")
    /// All process slots of the store are in use.
    public static let tooManyProcesses = Code(rawValue: "tooManyProcesses")
    /// The disk, a disk quota or a file size limit rejected the write.
    public static let storageFull = Code(rawValue: "storageFull")
    /// An entry is larger than the budget or than 1 GiB, or objects and pinned entries leave it no room.
    public static let valueTooLarge = Code(rawValue: "valueTooLarge")
    /// A transaction changed more pages than one transaction may.
    public static let transactionTooLarge = Code(rawValue: "transactionTooLarge")
    /// The name of a namespace is longer than 400 bytes.
    public static let invalidNamespace = Code(rawValue: "invalidNamespace")
    /// The entry exists but cannot be read as the requested type.
    public static let unreadableEntry = Code(rawValue: "unreadableEntry")
    /// Another process holds the writer lock and did not release it in time.
    public static let writerStalled = Code(rawValue: "writerStalled")
    /// It is not known whether a commit is there, or stays there after a crash of the system. Read what it changes
    /// before you repeat it: a repetition may make the change twice.
    public static let outcomeUnknown = Code(rawValue: "outcomeUnknown")
    /// The handle was closed.
    public static let closed = Code(rawValue: "closed")
    /// This process is a fork of one that had opened a store. It can use none, not even another one.
    public static let usedAfterFork = Code(rawValue: "usedAfterFork")
    /// A computation requested a key whose computation waits for it: its own key, or another one.
    public static let recursiveComputation = Code(rawValue: "recursiveComputation")
    /// Another task or process computes the value and did not finish in time.
    public static let computationStalled = Code(rawValue: "computationStalled")
    /// Nested reads of this process have used all of its readers.
    public static let tooManyReaders = Code(rawValue: "tooManyReaders")
    /// The store was used inside the closure of a read during a generation switch.
    public static let generationReplacedDuringRead = Code(rawValue: "insideSnapshot")
    /// The address space of this process is too small for the store's map (`ulimit -v`).
    public static let addressSpace = Code(rawValue: "addressSpace")
    /// A write inside the closure of a transaction did not use that transaction.
    public static let insideTransaction = Code(rawValue: "insideTransaction")
    /// A text is not that of a change cursor or commit token, or its number is none of a commit.
    public static let invalidCursor = Code(rawValue: "invalidCursor")
    /// A write inside the closure of a transaction of another store would wait for a transaction that waits
    /// for that one.
    public static let crossingWrites = Code(rawValue: "crossingWrites")
    /// The value of an option is invalid.
    public static let invalidOption = Code(rawValue: "invalidOption")
    /// The minimums of the namespaces do not fit into the budget of the store.
    public static let minimumsExceedBudget = Code(rawValue: "minimumsExceedBudget")
    /// A pinned entry does not fit into the share of the budget that pinned entries may have.
    public static let pinLimitReached = Code(rawValue: "pinLimitReached")
    /// A counter would exceed the range of its type.
    public static let overflow = Code(rawValue: "overflow")
    /// Another caller held a lock, semaphore or leadership, or the others of a barrier did not arrive,
    /// until the deadline.
    public static let lockTimeout = Code(rawValue: "lockTimeout")
    /// The store did not contain a commit at the deadline.
    public static let commitTimeout = Code(rawValue: "commitTimeout")
    /// The task or thread holds the lock already, and would wait for itself.
    public static let lockedByCaller = Code(rawValue: "lockedByCaller")
    /// The name of a lock is empty or longer than 250 bytes.
    public static let invalidLockName = Code(rawValue: "invalidLockName")
    /// All names, callers or processes that the lock file has room for are in use.
    public static let tooManyLocks = Code(rawValue: "tooManyLocks")
    /// A system call or LMDB failed in a way that has no separate code.
    public static let system = Code(rawValue: "system")
  }

  /// The kind of the failure.
  public let code: Code
  /// The operation that failed, for example `write`.
  public let operation: String
  /// The directory of the store, or the affected file.
  public let path: String?
  /// The cause and a remedy, in one or more sentences.
  public let message: String
  /// The process that caused the failure, for ``Code/writerStalled``, ``Code/computationStalled``,
  /// ``Code/inUse``, ``Code/openTimeout`` and ``Code/lockTimeout``.
  public let pid: Int32?
  /// The process with its start time, for ``Code/lockTimeout``.
  public internal(set) var process: LockProcess?
  /// The system's error number, if a system call was the cause.
  public let errorNumber: Int32?

  /// Creates an error.
  ///
  /// - Parameters:
  ///   - code: The kind of the failure.
  ///   - operation: The operation that failed.
  ///   - path: The directory of the store, or the affected file.
  ///   - message: The cause and a remedy, in full sentences.
  ///   - pid: The process that caused the failure, if it is known.
  ///   - errorNumber: The system's error number, if a system call was the cause.
  public init(
    _ code: Code, during operation: String, path: String? = nil, _ message: String,
    pid: Int32? = nil, errorNumber: Int32? = nil
  ) {
    self.code = code
    self.operation = operation
    self.path = path.map(HeldDirectory.realPath)
    self.message = message
    self.pid = pid
    self.errorNumber = errorNumber
  }

  /// The operation, path, message and code in one line.
  public var description: String {
    "\(operation)\(path.map { " (\($0))" } ?? ""): \(message) [\(code)]"
  }
}

extension StoreError {
  /// Creates a store error from a failed system call.
  package init(_ error: SystemError, during operation: String, path: String? = nil) {
    if error.isStorageFull {
      self = .storageFull(
        during: operation, path: path ?? error.path, errorNumber: error.errno,
        detail: error.description)
      return
    }
    self.init(
      .system, during: operation, path: path ?? error.path,
      "\(error)."
        + (error.isOutOfFiles
          ? StoreError.outOfFiles : error.isReadOnly ? " " + StoreError.readOnly : ""),
      errorNumber: error.errno)
  }

  /// Creates a store error from an LMDB error.
  package init(_ error: LMDBError, during operation: String, path: String? = nil) {
    if error.isStorageFull {
      self = .storageFull(
        during: operation, path: path, errorNumber: error.code.rawValue, detail: error.cause)
    } else if error.code == .transactionFull {
      self.init(
        .transactionTooLarge, during: operation, path: path,
        "The transaction changes more pages than one transaction may. Split it into smaller ones.")
    } else if error.code == .mapFull {
      self = .storageFull(during: operation, path: path, errorNumber: 28, detail: error.cause)
    } else if error.code == .outcomeUnknown {
      self.init(
        .outcomeUnknown, during: operation, path: path,
        "\(error.cause). The store remains usable. Read the value to see whether it was stored, "
          + "and check the disk.")
    } else if error.code == .addressSpace {
      self = .addressSpace("\(error.cause).", during: operation, path: path)
    } else if error.isDamage {
      self.init(
        .damaged, during: operation, path: path,
        "\(error.cause). Run `larder verify` on the store. A cache resets itself to empty.")
    } else {
      let isOutOfFiles = SystemError.isOutOfFiles(error.code.rawValue)
      self.init(
        .system, during: operation, path: path,
        "\(error.cause)." + (isOutOfFiles ? StoreError.outOfFiles : "")
          + (error.code.rawValue == SystemError.inputOutput
            ? " Nothing was stored. Check the disk." : "")
          + (SystemError.isReadOnly(error.code.rawValue) ? " " + StoreError.readOnly : ""),
        errorNumber: error.code.rawValue > 0 ? error.code.rawValue : nil)
    }
  }

  /// Returns the error of a store that survives system crashes whose files were deleted or replaced.
  ///
  /// - Parameter isRefused: Whether it is the error of a write that has stored nothing.
  static func filesRemoved(
    during operation: String, path: String, isRefused: Bool = false
  ) -> StoreError {
    StoreError(
      .damaged, during: operation, path: path,
      "The store's files were deleted or replaced while it was open"
        + (isRefused ? ", and nothing was stored" : "")
        + ". Close the store in every process, restore its files, and open it again.")
  }

  /// Returns the error of a process that only reads, for a cache that another one would start empty.
  static func unchanged(_ reason: String, path: String) -> StoreError {
    StoreError(
      .damaged, during: "open", path: path,
      "\(reason). Nothing was changed: a program that opens this cache starts it empty, and "
        + "`larder repair` salvages what is readable.")
  }

  /// Returns the error of a process that only reads, for a store that another one would restore.
  static func needsRecovery(_ reason: String, path: String) -> StoreError {
    StoreError(
      .needsRecovery, during: "open", path: path,
      "\(reason). Nothing was changed: the next program that opens the store restores it from its "
        + "checkpoint and its log, and so does `larder repair`. `larder verify` checks them.")
  }

  /// Returns the error of a write of a process that only reads.
  static func readsOnly(path: String) -> StoreError {
    StoreError(
      .readsOnly, during: "write", path: path,
      "This process opened the store to read it. Nothing was stored.")
  }

  /// Returns the error for a file that is larger than the map of this process.
  static func outgrown(
    _ error: LMDBError, during operation: String, path: String
  ) -> StoreError {
    .addressSpace(
      "The store has grown beyond the map of this process (\(error.cause)).", during: operation,
      path: path)
  }

  private static func addressSpace(
    _ cause: String, during operation: String, path: String?
  ) -> StoreError {
    let limit = ResourceLimits.addressSpace.map { "\(ByteCount(bytes: $0))" } ?? "none"
    return StoreError(
      .addressSpace, during: operation, path: path,
      "\(cause) The limit on the address space of this process (ulimit -v) is \(limit). Raise it "
        + "and open the store again.",
      errorNumber: 12)
  }

  /// The remedy where the file system permits no change.
  static let readOnly =
    "The file system is read-only, and a process that only reads writes to the files of a store as well. "
    + "Mount it writable, or copy the store to another file system."

  private static let outOfFiles =
    " Close files, or raise the limit on open files (`ulimit -n`): a store uses about a dozen."

  static func tooManyReaders(_ error: ReaderPool.Exhausted, path: String) -> StoreError {
    StoreError(
      .tooManyReaders, during: "read", path: path,
      error.isNested
        ? "Nested reads hold all \(error.capacity) pooled readers of this process. Read before the "
          + "closure, or use the snapshot passed to it."
        : "All \(error.capacity) pooled readers of this process have been in use for a minute. "
          + "Shorten the closures that the store calls.")
  }

  static func insideTransaction(path: String) -> StoreError {
    StoreError(
      .insideTransaction, during: "write", path: path,
      "A write inside the closure of store.write would deadlock: it waits for the transaction, and "
        + "the transaction waits for the closure. Nothing was stored. Use the transaction passed "
        + "to the closure, or write after it.")
  }

  static func generationReplacedDuringRead(path: String) -> StoreError {
    StoreError(
      .generationReplacedDuringRead, during: "use", path: path,
      "The store at \(path) switched generations during this read. Use the closure's snapshot, or "
        + "fetch before the closure.")
  }

  /// Returns the error of a write for which there is no space.
  static func storageFull(
    during operation: String, path: String?, errorNumber: Int32, detail: String
  ) -> StoreError {
    StoreError(
      .storageFull, during: operation, path: path,
      "Write\(path.map { " to \($0)" } ?? "") failed: no space left (\(detail), errno "
        + "\(errorNumber)). Free disk space or raise the limit. Committed data is intact.",
      errorNumber: errorNumber)
  }

  /// Returns the error for the use of a closed handle.
  package static func closed(_ operation: String) -> StoreError {
    StoreError(
      .closed, during: operation, "The store was closed. Open it again with SharedStore(at:).")
  }

  /// Returns the error for the use of a store in a forked child.
  package static func usedAfterFork(_ operation: String) -> StoreError {
    StoreError(
      .usedAfterFork, during: operation,
      "This process is a fork of one that had opened a store, and can use none, not even another. Fork "
        + "before the first store is opened, or start the process with posix_spawn.")
  }
}

/// Runs a fault point whose error the caller gets unchanged. The path is computed only for an
/// error, because every read runs this function.
@inline(__always)
func fault(
  throwing point: @autoclosure () -> FaultPoint, during operation: String,
  path: @autoclosure () -> String
) throws(StoreError) {
  do throws(SystemError) {
    try fault(throwing: point())
  } catch {
    throw StoreError(error, during: operation, path: path())
  }
}

extension StoreError {
  /// Creates a store error from any error of the lower layers.
  package init(wrapping error: any Error, during operation: String, path: String? = nil) {
    switch error {
    case let error as StoreError: self = error
    case let error as SystemError: self.init(error, during: operation, path: path)
    case let error as LMDBError: self.init(error, during: operation, path: path)
    default: self.init(.system, during: operation, path: path, "\(error).")
    }
  }
}
