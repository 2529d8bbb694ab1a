// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// ROOM ON A FULL DISK
//
// A transaction copies every page that it changes, and the pages it frees are available to the next
// transaction but one. So a file on a full disk without any free page can never be written again, not
// even to remove something: the removal needs pages as well. A writer that can make room has to do so
// while some pages are left.

extension EnvironmentHandle {
  /// Returns by how many pages the file can grow, at most `limit`.
  ///
  /// A quota of the disk is not counted.
  package func pagesOfGrowth(limit: Int) -> Int {
    let information = information
    let page = max(information.pageSize, 1)
    let used = information.lastPage + 1
    let size = FileSystem.status(ofDescriptor: dataDescriptor)?.size ?? 0
    // Blocks that another transaction has allocated ahead.
    let allocated = max(size / page - used, 0)
    if allocated >= limit { return limit }
    let available = FileSystem.availableBytes(ofDescriptor: dataDescriptor) / page
    let end = min(information.mapSize, ResourceLimits.fileSize ?? .max) / page
    return max(min(allocated + min(available, limit), end - used, limit), 0)
  }
}

extension WriteTransaction {
  /// Returns the number of free pages that this transaction can use once no reader needs them, at most
  /// about `limit`.
  ///
  /// - Complexity: O(*n*) in the transactions that have freed these pages.
  package func freePages(
    in environment: EnvironmentHandle, limit: Int
  ) throws(LMDBError) -> Int {
    let last = max(id, 2) - 2
    // LMDB refuses a cursor over the list to the transaction that changes it.
    let snapshot = try ReadTransaction(in: environment)
    var cursor = try Cursor(over: TableHandle(handle: 0, name: nil), in: snapshot)
    var pages = 0
    var found = try cursor.moveToFirst()
    while found, cursor.currentInteger <= last, pages < limit {
      // The value is a list of page numbers that begins with its length.
      pages &+= Int(clamping: cursor.currentValue.integer(at: 0, as: UInt64.self) ?? 0)
      found = try cursor.moveToNext()
    }
    return pages
  }
}
