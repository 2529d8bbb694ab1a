// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

/// A call into liblmdb that failed: which call, and its code.
package struct LMDBError: Error, Hashable, Sendable, CustomStringConvertible {
  /// LMDB's own codes are negative; positive ones are the system's error numbers.
  package struct Code: RawRepresentable, Hashable, Sendable {
    package let rawValue: CInt
    package init(rawValue: CInt) { self.rawValue = rawValue }
  }

  package let code: Code
  /// The function that failed, by its C name.
  package let operation: String

  package init(_ code: Code, during operation: String) {
    self.code = code
    self.operation = operation
  }

  package var description: String { "\(operation): \(code)" }

  /// The disk, a quota or a file-size limit refused a write.
  package var isStorageFull: Bool { SystemError.isStorageFull(code.rawValue) }

  /// The file, or this process's view of it, cannot be used further.
  package var isDamage: Bool {
    switch code {
    case .notFound, .mapFull, .tablesFull, .readersFull, .transactionFull, .badReaderSlot,
      .alreadyOpen, .noRoomInMap:
      false
    // All that LMDB says otherwise means a page that is none: tables are opened once and as they
    // were made, keys have their sizes, nobody goes on in a transaction that failed. EINVAL is a
    // page number that is none, in the file or, of a lock, in `lock.mdb`.
    default: code.rawValue < 0 || code.rawValue == 22
    }
  }
}

extension LMDBError.Code: CustomStringConvertible {
  /// A page was of the wrong kind. `MDB_CORRUPTED`
  package static var corrupted: Self { Self(rawValue: MDB_CORRUPTED) }
  /// A page that is referred to does not exist. `MDB_PAGE_NOTFOUND`
  package static var pageNotFound: Self { Self(rawValue: MDB_PAGE_NOTFOUND) }
  /// A fatal error earlier: this process must reopen the environment. `MDB_PANIC`
  package static var panic: Self { Self(rawValue: MDB_PANIC) }
  /// The file is not an LMDB file. `MDB_INVALID`
  package static var invalid: Self { Self(rawValue: MDB_INVALID) }
  /// The file is of another LMDB format. `MDB_VERSION_MISMATCH`
  package static var versionMismatch: Self { Self(rawValue: MDB_VERSION_MISMATCH) }
  /// The map is full. `MDB_MAP_FULL`
  package static var mapFull: Self { Self(rawValue: MDB_MAP_FULL) }
  /// Another process wrote beyond this map. `MDB_MAP_RESIZED`
  package static var mapResized: Self { Self(rawValue: MDB_MAP_RESIZED) }
  /// All reader slots are in use. `MDB_READERS_FULL`
  package static var readersFull: Self { Self(rawValue: MDB_READERS_FULL) }
  /// Too many tables are open. `MDB_DBS_FULL`
  package static var tablesFull: Self { Self(rawValue: MDB_DBS_FULL) }
  /// A transaction has too many dirty pages. `MDB_TXN_FULL`
  package static var transactionFull: Self { Self(rawValue: MDB_TXN_FULL) }
  /// There is no such key. `MDB_NOTFOUND`
  package static var notFound: Self { Self(rawValue: MDB_NOTFOUND) }
  /// The table exists with other flags. `MDB_INCOMPATIBLE`
  package static var incompatible: Self { Self(rawValue: MDB_INCOMPATIBLE) }
  /// The reader slot is not this process's. `MDB_BAD_RSLOT`
  package static var badReaderSlot: Self { Self(rawValue: MDB_BAD_RSLOT) }
  /// The transaction failed earlier and can only be aborted. `MDB_BAD_TXN`
  package static var badTransaction: Self { Self(rawValue: MDB_BAD_TXN) }
  /// The environment is open in this process already. Larder's own code.
  package static var alreadyOpen: Self { Self(rawValue: -1) }
  /// The disk has no room for what the transaction may need; it can write to the file. Larder's own
  /// code.
  package static var noRoomInMap: Self { Self(rawValue: -2) }
  /// LMDB met a state it does not explain. `MDB_PROBLEM`, which 0.9.24 has not yet.
  package static var problem: Self { Self(rawValue: -30779) }

  package var description: String {
    if self == .alreadyOpen { return "the environment is already open in this process" }
    if self == .noRoomInMap { return "the disk has no room to write through the map" }
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
