// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

// LMDB'S READER TABLE (`lock.mdb`), as 0.9 lays it out: a header of 128 bytes (magic u32 at 0,
// format u32 at 4), then slots of 64 bytes: transaction id u64, pid i32.

/// The slots of LMDB's reader table.
package enum ReaderSlots {
  /// Returns the readers that hold a snapshot, of a store that this process does not have open.
  package static func snapshots(
    inLockFile file: OwnedFile
  ) throws(SystemError) -> [(pid: Int32, transaction: UInt64)] {
    let bytes = try file.read(count: file.status.size, at: 0)
    guard bytes.integer(at: 0, as: UInt32.self) == magic else { return [] }
    return stride(from: header, to: bytes.count, by: slotSize).compactMap { offset in
      guard let transaction: UInt64 = bytes.integer(at: offset), transaction != .max,
        let pid: Int32 = bytes.integer(at: offset + 8), pid != 0
      else { return nil }
      return (pid, transaction)
    }
  }

  private static let header = 128
  private static let slotSize = 64
  private static let magic: UInt32 = 0xBEEF_C0DE

  /// Frees the slots with this process's pid before it opens the environment.
  ///
  /// No living process of this PID namespace can own them. They are frequent in containers, where
  /// every process is pid 1 or 7. The caller holds the open lock and does not have the environment
  /// open: closing the file would release LMDB's own locks.
  package static func clear(pid: Int32, inLockFile path: String) throws(SystemError) {
    guard try FileSystem.status(of: path) != nil else { return }
    let file = try OwnedFile(path: path)
    let bytes = try file.read(count: file.status.size, at: 0)
    guard bytes.integer(at: 0, as: UInt32.self) == magic else { return }
    var offset = header
    while let owner: Int32 = bytes.integer(at: offset + 8) {
      if owner == pid { try file.write([0, 0, 0, 0], at: offset + 8) }
      offset += slotSize
    }
  }
}
