// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

// THE EFFECT OF A FAILED COMMIT
//
//   before the meta page   Nothing was committed, and the environment remains usable. LMDB returns
//                          the system's error, but EIO for a short `writev`, which is its only sign
//                          of a full disk, a quota and a limit on file sizes. A short write leaves
//                          errno unchanged; a failing disk sets it to EIO.
//   the meta page          LMDB writes the old contents back without waiting for the disk, and
//                          rejects every later transaction of the environment with MDB_PANIC. It is
//                          unknown until the next commit which of the two meta pages is on disk.

/// Classifies the errors of `mdb_txn_commit`.
enum FailedCommit {
  /// - Parameters:
  ///   - code: The result of `mdb_txn_commit`.
  ///   - systemError: The value of `errno` after the call, which was zero before.
  @unsafe static func error(
    _ code: LMDBError.Code, _ systemError: CInt, in environment: OpaquePointer
  ) -> LMDBError {
    if unsafe isPanicked(environment) {
      return LMDBError(.outcomeUnknown, during: "mdb_txn_commit (\(code))")
    }
    guard code.rawValue == EIO, systemError != EIO else {
      return LMDBError(code, during: "mdb_txn_commit")
    }
    let reason = unsafe isAtFileSizeLimit(environment) ? EFBIG : ENOSPC
    return LMDBError(LMDBError.Code(rawValue: reason), during: "mdb_txn_commit (a short write)")
  }

  /// Returns whether LMDB rejects every further transaction of the environment.
  @unsafe static func isPanicked(_ environment: OpaquePointer) -> Bool {
    var transaction: OpaquePointer?
    let status = unsafe mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction)
    if status == MDB_SUCCESS { unsafe mdb_txn_abort(transaction) }
    return status == MDB_PANIC
  }

  /// Returns whether `data.mdb` has reached the limit of this process on file sizes.
  @unsafe private static func isAtFileSizeLimit(_ environment: OpaquePointer) -> Bool {
    var descriptor: CInt = -1
    guard
      let limit = ResourceLimits.fileSize,
      unsafe mdb_env_get_fd(environment, &descriptor) == MDB_SUCCESS,
      let size = FileSystem.status(ofDescriptor: descriptor)?.size
    else { return false }
    return size + 4096 > limit
  }
}
