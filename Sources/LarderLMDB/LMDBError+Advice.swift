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

// What to do about each error. LMDB and the system say what happened; of this module's own codes
// that is said here, too.

extension LMDBError: CustomStringConvertible {
  /// What failed, why, and what to do about it.
  public var description: String { "\(cause). \(advice)" }

  /// What to do about it, in a sentence.
  public var advice: String {
    if let own = code.sentences { return own.advice }
    switch code {
    case .corrupted, .pageNotFound:
      return "Close it in all processes, look at it with Environment.verify(at:), restore a copy."
    case .panic: return "Close the environment and open it again."
    case .invalid, .versionMismatch: return "Name the directory of an LMDB 0.9 environment."
    case .mapFull: return "Open it alone with a larger mapSize; until then, even removing may fail."
    case .mapResized:
      return
        "The file has grown beyond the map of this process. Raise the limit on address space "
        + "(ulimit -v), close the environment and open it again."
    case .readersFull:
      return "End reads sooner, read less inside reads, or open it alone with more maximumReaders."
    case .tablesFull: return "Open it with more maximumTables."
    case .transactionFull: return "Split the work into several transactions."
    case .badValueSize: return "A key has 1 to 511 bytes, and a value at most 4 GiB."
    case .incompatible:
      return
        "Open the table with the kind of keys it was made with; tables that keep several values "
        + "for a key, or order keys backwards, are not supported."
    case .badReaderSlot: return "Do not use an environment in a forked child."
    case .badTransaction:
      return "An error earlier in the transaction ended it; let that error out of the closure."
    case .badTable: return "Do not remove tables with other programs while they are in use."
    default: return code.rawValue > 0 ? systemAdvice : "Close the environment and open it again."
    }
  }

  private var systemAdvice: String {
    switch code.rawValue {
    case ENOTDIR, EEXIST, ELOOP:
      "Name a directory; its files must be plain files, not links."
    case ENOENT: "Name a directory that exists."
    case EACCES, EPERM, EROFS: "Check the owner and mode of the directory (0700) and its files."
    case ENOMEM: "Choose a smaller mapSize, or raise the limit on address space."
    case EMFILE, ENFILE: "Close files, or raise the limit on open files."
    case _ where isStorageFull:
      "Make room on the disk, or raise the quota or file-size limit; what was committed is safe."
    case EIO: "Check the disk; nothing of the transaction was committed."
    case EAGAIN: "A process of another PID namespace has this one's number; see the guide."
    default: "Look at the system's log."
    }
  }
}

extension LMDBError.Code {
  /// Of this module's own codes: what it means, and what to do.
  var sentences: (meaning: String, advice: String)? {
    switch self {
    case .alreadyOpen:
      (
        "the environment is already open in this process",
        "Pass the open Environment on; a second one would undo the first one's locks."
      )
    case .noRoomInMap: ("the disk has no room to write through the map", "Make room on the disk.")
    case .larderStore:
      (
        "this is a Larder store",
        "Open it with SharedStore; written to without its books and stamps, it would be damaged."
      )
    case .unsupportedFileSystem:
      (
        "the file system does not keep several processes coherent",
        "Choose a directory on a local disk or in memory."
      )
    case .usedAfterFork:
      (
        "this process is a fork of the one that opened the environment",
        "Open environments after the fork, in each child, and none before."
      )
    case .closed: ("the environment was closed", "Open it again.")
    case .insideTransaction:
      (
        "this thread is inside a transaction of this environment",
        "Use the transaction you were given, or do this after it."
      )
    case .inUse:
      (
        "other processes have the environment open",
        "Close it there first, or do without what needs it alone."
      )
    case .openTimeout:
      (
        "another process has been opening or closing the environment for too long",
        "If that process is stopped, let it go on or end it."
      )
    case .writerStalled:
      (
        "an earlier transaction has not ended in time; nothing was written",
        "If its process is stopped, continue it or end it; keep transactions short."
      )
    case .wrongEnvironment:
      (
        "the table belongs to another environment, or to one that was closed",
        "Open the table with table(_:keys:) of the environment it is used in."
      )
    case .keyKindMismatch:
      ("the table has keys of the other kind", "Use the keys the table was opened with.")
    case .pidNamespaceMismatch:
      (
        "processes of another PID namespace have the environment open",
        "Run them in one namespace, or give each a directory of its own."
      )
    case .problem:
      ("LMDB met a state it does not explain", "Close the environment and open it again.")
    case .invalidOption: ("that value makes no sense", "Correct it.")
    case .damaged:
      (
        "the environment is damaged; nothing was touched",
        "Keep the files and restore a copy, or remove the directory to begin anew."
      )
    case .nonRobustLocks:
      (
        "on this system a killed writer blocks all others",
        "Set allowNonRobustLocks for development; the promises hold on Linux."
      )
    case .filesRemoved:
      (
        "the files of the environment were removed or cut while it was open",
        "Close it, see to the files, open it again."
      )
    case .outcomeUnknown:
      (
        "the disk failed while the commit was published, so the commit may be visible",
        "Close the environment, open it again, and read what was written; check the disk."
      )
    case .copyOnWrite:
      (
        "the file system writes each block to a new place, so that a full disk would end processes",
        "Set the attribute C on the directory (chattr +C), or use ext4, xfs, btrfs or tmpfs."
      )
    case .addressSpace:
      (
        "the address space of this process has no room for the map",
        "Raise the limit on address space (ulimit -v), or choose a smaller mapSize."
      )
    default: nil
    }
  }
}
