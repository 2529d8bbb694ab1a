// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

// The advice for each error. LMDB and the system describe their own codes; this file also describes
// the codes of this module.

extension LMDBError: CustomStringConvertible {
  /// The operation that failed, the cause, and a remedy.
  public var description: String { "\(cause). \(advice)" }

  /// A remedy, in a sentence.
  public var advice: String {
    if let own = code.sentences { return own.advice }
    switch code {
    case .corrupted, .pageNotFound:
      return
        "Close the environment in all processes, run Environment.verify(at:), and restore a copy of "
        + "the file if it is damaged."
    case .panic: return "Close the environment and reopen it."
    case .invalid, .versionMismatch: return "Pass the directory of an LMDB 0.9 environment."
    case .mapFull:
      return
        "Close the environment in all processes and reopen it with a larger mapSize. Until then, "
        + "even removals may fail."
    case .mapResized:
      return
        "The file has grown beyond the map of this process. Raise the limit on address space "
        + "(ulimit -v), close the environment, and reopen it."
    case .readersFull:
      return
        "All reader slots are in use. Shorten read closures, avoid nested reads, or reopen "
        + "exclusively with a larger maximumReaders."
    case .tablesFull: return "Reopen the environment with a larger maximumTables."
    case .transactionFull: return "Split the work into several transactions."
    case .badValueSize: return "Keys are 1 to 511 bytes; values are at most 1 GiB."
    case .incompatible:
      return
        "Open the table with the kind of keys with which it was created. Tables with several "
        + "values per key, or with keys in reverse order, are not supported."
    case .badReaderSlot: return "Open the environment in the forked child, and not before the fork."
    case .badTransaction:
      return "An earlier error ended the transaction. Rethrow that error from the closure."
    case .badTable:
      return "Another program removed the table. Do not remove tables that are in use."
    default: return code.rawValue > 0 ? systemAdvice : "Close the environment and reopen it."
    }
  }

  private var systemAdvice: String {
    switch code.rawValue {
    case ENOTDIR, EEXIST, ELOOP:
      "Pass the path of a directory whose files are regular files, not links."
    case ENOENT: "Pass the path of an existing directory."
    case EACCES, EPERM: "Check the owner and mode of the directory (0700) and its files."
    case EROFS:
      "The file system is read-only, and readers write to lock.mdb as well. Mount it writable, or copy the "
        + "environment to another file system."
    case ENOMEM: "Pass a smaller mapSize, or raise the limit on address space (ulimit -v)."
    case EMFILE, ENFILE: "Close files, or raise the limit on open files (ulimit -n)."
    case _ where isStorageFull:
      "Free disk space, or raise the quota or file-size limit. Committed data is intact."
    case EIO: "Check the disk. The transaction was not committed."
    case EAGAIN:
      "A process of another PID namespace also has pid \(getpid()). Use one directory per PID "
        + "namespace."
    default: "Read the system's log."
    }
  }
}

extension LMDBError.Code {
  /// The meaning and remedy of a code of this module.
  var sentences: (meaning: String, advice: String)? {
    switch self {
    case .alreadyOpen:
      (
        "the environment is already open in this process",
        "Reuse the open Environment: opening a directory twice in one process releases LMDB's locks."
      )
    case .noRoomInMap: ("the disk has no room to write through the map", "Free disk space.")
    case .larderStore:
      (
        "this is a Larder store",
        "Open it with SharedStore. Direct LMDB writes bypass its counters and stamps and damage it."
      )
    case .unsupportedFileSystem:
      (
        "the file system does not keep several processes coherent",
        "Use a directory on a local disk or in memory."
      )
    case .usedAfterFork:
      (
        "this process is a fork of one that had opened an environment, and can use none, not even another",
        "Fork before the first environment is opened, or start the process with posix_spawn."
      )
    case .closed: ("the environment was closed", "Reopen the environment.")
    case .insideTransaction:
      (
        "this thread is inside a transaction of this environment",
        "Use the transaction passed to the closure, or call this after the closure returns."
      )
    case .inUse:
      (
        "other processes have the environment open",
        "This operation needs exclusive access. Close the environment in all other processes first."
      )
    case .openTimeout:
      (
        "another process is opening or closing the environment and did not finish in time",
        "If that process is stopped, resume it or terminate it."
      )
    case .writerStalled:
      (
        "an earlier transaction did not end in time; nothing was written",
        "If its process is stopped, resume it or terminate it. Keep transactions short."
      )
    case .unsafeDirectory:
      (
        "another user can replace or change the files",
        "Use a directory of your own with mode 0700, or run chmod go-w on the path in this message."
      )
    case .wrongEnvironment:
      (
        "the table belongs to another environment or to a closed one",
        "Open the table with table(_:keys:) of the environment that uses it."
      )
    case .keyKindMismatch:
      (
        "the table has keys of the other kind",
        "Use the kind of keys with which the table was opened."
      )
    case .pidNamespaceMismatch:
      (
        "processes of another PID namespace have the environment open",
        "Run the processes in one namespace, or use one directory per namespace."
      )
    case .problem:
      (
        "LMDB reported an internal error (MDB_PROBLEM, -30779)",
        "Reopen the environment; if it recurs, run Environment.verify(at:)."
      )
    case .invalidOption: ("invalid option", "Pass a value in the range.")
    case .damaged:
      (
        "the environment is damaged; its files are unchanged",
        "Keep the files and restore a copy, or remove the directory to start empty."
      )
    case .nonRobustLocks:
      (
        "on this system a killed writer blocks all other writers",
        "Set allowNonRobustLocks for development. Use Linux for production."
      )
    case .filesRemoved:
      (
        "data.mdb was deleted or truncated while the environment was open",
        "Close the environment, restore the file, and reopen it."
      )
    case .outcomeUnknown:
      (
        "the disk failed while the commit was published, so the commit may be visible",
        "Check the disk, reopen the environment, and read the data to see the outcome."
      )
    case .copyOnWrite:
      (
        "the file system writes each block to a new location, so a full disk would end processes",
        "Set the attribute C on the directory (chattr +C), or use ext4, xfs, btrfs or tmpfs."
      )
    case .addressSpace:
      (
        "the address space of this process has no room for the map",
        "Raise the limit on address space (ulimit -v), or pass a smaller mapSize."
      )
    default: nil
    }
  }
}
