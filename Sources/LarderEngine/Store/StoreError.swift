// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
package import LarderSystem

/// Why an operation on a store failed, and what to do about it.
///
/// ```swift
/// do {
///   try cache.setValue(report, forKey: id)
/// } catch let error as StoreError where error.code == .storageFull {
///   // The disk is full; nothing was lost, and the store works again once there is room.
/// }
/// ```
public struct StoreError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What kind of failure it was. Open: later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    /// Creates a code of a raw value.
    public init(rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }

    /// The directory cannot be used: missing rights, a file in its place, an unsafe owner.
    public static let directory = Code(rawValue: "directory")
    /// The file system cannot keep several processes coherent (network, FUSE).
    public static let fileSystem = Code(rawValue: "fileSystem")
    /// The store was created with another durability.
    public static let durabilityMismatch = Code(rawValue: "durabilityMismatch")
    /// The store was written by a newer, incompatible version.
    public static let newerFormat = Code(rawValue: "newerFormat")
    /// The files of a durable store are damaged; nothing was touched.
    public static let damaged = Code(rawValue: "damaged")
    /// Another copy of the library in this process has the store open.
    public static let duplicateLibrary = Code(rawValue: "openedTwice")
    /// Other processes have the store open, and what was asked for needs it alone.
    public static let inUse = Code(rawValue: "inUse")
    /// Processes of another PID namespace have a `.durable` or `.relaxed` store open.
    public static let otherNamespace = Code(rawValue: "otherNamespace")
    /// Opening took longer than allowed, because another process is stuck in it.
    public static let openTimeout = Code(rawValue: "openTimeout")
    /// As many processes as the store has places for are using it.
    public static let tooManyProcesses = Code(rawValue: "tooManyProcesses")
    /// The disk, a quota or a file-size limit refused the write.
    public static let storageFull = Code(rawValue: "storageFull")
    /// A value is larger than the budget or than 1 GiB.
    public static let valueTooLarge = Code(rawValue: "valueTooLarge")
    /// One transaction changed more than fits into one.
    public static let transactionTooLarge = Code(rawValue: "transactionTooLarge")
    /// A namespace's name is longer than 400 bytes.
    public static let invalidNamespace = Code(rawValue: "invalidNamespace")
    /// The entry exists but cannot be read as what was asked for.
    public static let unreadableEntry = Code(rawValue: "unreadableEntry")
    /// Another process holds the writer lock and does not go on.
    public static let writerStalled = Code(rawValue: "writerStalled")
    /// A commit failed so late that only the next one shows whether it took place.
    public static let outcomeUnknown = Code(rawValue: "outcomeUnknown")
    /// The handle was closed.
    public static let closed = Code(rawValue: "closed")
    /// This process is a fork of the one that opened the store.
    public static let usedAfterFork = Code(rawValue: "usedAfterFork")
    /// A computation asked for a key whose computation waits for it: its own, or another.
    public static let recursiveComputation = Code(rawValue: "recursiveComputation")
    /// Another task or process computes the value and has not finished in time.
    public static let computationStalled = Code(rawValue: "computationStalled")
    /// Reads of this process inside of other reads have used up its readers.
    public static let tooManyReaders = Code(rawValue: "tooManyReaders")
    /// The store was used inside the closure of a read while its files were replaced.
    public static let generationReplacedDuringRead = Code(rawValue: "insideSnapshot")
    /// The address space of this process has no room for the store's map (`ulimit -v`).
    public static let addressSpace = Code(rawValue: "addressSpace")
    /// A write outside of the transaction was made inside the closure of a transaction of the store.
    public static let insideTransaction = Code(rawValue: "insideTransaction")
    /// An option has a value that makes no sense.
    public static let invalidOption = Code(rawValue: "invalidOption")
    /// A system call or LMDB failed in a way that has no code of its own.
    public static let system = Code(rawValue: "system")
  }

  /// The kind of the error.
  public let code: Code
  /// What was being done.
  public let operation: String
  /// The store's directory, or the file concerned.
  public let path: String?
  /// What happened and what to do, in a sentence or two.
  public let message: String
  /// The process that is in the way, for ``Code/writerStalled``, ``Code/computationStalled`` and
  /// ``Code/inUse``.
  public let pid: Int32?
  /// The system's error number, if a system call was the cause.
  public let errorNumber: Int32?

  /// Creates an error. Each parameter sets the property of its name.
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

  public var description: String {
    "\(operation)\(path.map { " (\($0))" } ?? ""): \(message) [\(code)]"
  }
}

extension StoreError {
  package init(_ error: SystemError, during operation: String, path: String? = nil) {
    if error.isStorageFull {
      self = .storageFull(
        during: operation, path: path ?? error.path, errorNumber: error.errno,
        detail: error.description)
      return
    }
    self.init(
      .system, during: operation, path: path ?? error.path,
      "\(error)." + (error.isOutOfFiles ? StoreError.outOfFiles : ""), errorNumber: error.errno)
  }

  package init(_ error: LMDBError, during operation: String, path: String? = nil) {
    if error.isStorageFull {
      self = .storageFull(
        during: operation, path: path, errorNumber: error.code.rawValue, detail: error.cause)
    } else if error.code == .transactionFull {
      self.init(
        .transactionTooLarge, during: operation, path: path,
        "The transaction changes more pages than one may; split it into smaller ones.")
    } else if error.code == .mapFull {
      self = .storageFull(during: operation, path: path, errorNumber: 28, detail: error.cause)
    } else if error.code == .outcomeUnknown {
      self.init(
        .outcomeUnknown, during: operation, path: path,
        "\(error.cause). The store works on. Read the value again to see what the store holds, and "
          + "check the disk.")
    } else if error.code == .addressSpace {
      self = .addressSpace("\(error.cause).", during: operation, path: path)
    } else if error.isDamage {
      self.init(
        .damaged, during: operation, path: path,
        "\(error.cause). Run `larder verify` on the store; a cache is emptied by itself.")
    } else {
      let isOutOfFiles = SystemError.isOutOfFiles(error.code.rawValue)
      self.init(
        .system, during: operation, path: path,
        "\(error.cause)." + (isOutOfFiles ? StoreError.outOfFiles : "")
          + (error.code.rawValue == 5 ? " Nothing was stored. Check the disk." : ""),
        errorNumber: error.code.rawValue > 0 ? error.code.rawValue : nil)
    }
  }

  /// The file is larger than the map of this process.
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

  private static let outOfFiles =
    " Close files, or raise the limit on open files (`ulimit -n`): a store takes about a dozen."

  static func tooManyReaders(_ error: ReaderPool.Exhausted, path: String) -> StoreError {
    StoreError(
      .tooManyReaders, during: "read", path: path,
      error.isNested
        ? "All \(error.capacity) readers of this process are taken by reads that wait for one more. "
          + "Read less inside of closures that the store calls: fetch first, or use the snapshot."
        : "All \(error.capacity) readers of this process have been taken for a minute. Let closures "
          + "that the store calls end sooner.")
  }

  static func insideTransaction(path: String) -> StoreError {
    StoreError(
      .insideTransaction, during: "write", path: path,
      "A write inside the closure of store.write would wait for that transaction, which waits for the "
        + "closure. Nothing was stored. Write with the transaction that the closure receives, or after "
        + "it.")
  }

  static func generationReplacedDuringRead(path: String) -> StoreError {
    StoreError(
      .generationReplacedDuringRead, during: "use", path: path,
      "The store's files were replaced while this thread reads the old ones, in a closure that the "
        + "store called. Use what the closure is given, not the store; or fetch first.")
  }

  private static func storageFull(
    during operation: String, path: String?, errorNumber: Int32, detail: String
  ) -> StoreError {
    StoreError(
      .storageFull, during: operation, path: path,
      "There is no room (\(detail)). Free some space or raise the limit; nothing was lost, and the "
        + "store works again as soon as there is room.",
      errorNumber: errorNumber)
  }

  package static func closed(_ operation: String) -> StoreError {
    StoreError(
      .closed, during: operation, "The store was closed. Open it again with SharedStore(at:).")
  }

  package static func usedAfterFork(_ operation: String) -> StoreError {
    StoreError(
      .usedAfterFork, during: operation,
      "This process is a fork of the one that opened the store. Open stores after fork(), or use "
        + "posix_spawn.")
  }
}

/// Passes a fault point whose error the caller gets as it is. The path is made only for an error: every
/// read passes here.
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
  /// Any error of the layers below, as a store's.
  package init(wrapping error: any Error, during operation: String, path: String? = nil) {
    switch error {
    case let error as StoreError: self = error
    case let error as SystemError: self.init(error, during: operation, path: path)
    case let error as LMDBError: self.init(error, during: operation, path: path)
    default: self.init(.system, during: operation, path: path, "\(error).")
    }
  }
}
