// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB

/// The bytes that large values leave unused in the overflow pages in which LMDB stores them.
package struct PageFit: Sendable, Hashable {
  /// An entry with at most this many bytes above a limit of a page counts in ``slightlyTooLong``.
  package static let slight = 128

  /// The number of entries with overflow pages.
  package private(set) var entries = 0
  /// The bytes of their pages that contain nothing.
  package private(set) var unusedBytes = 0
  /// The entries that would need one page less if they were up to 128 bytes shorter.
  package private(set) var slightlyTooLong = 0

  /// Creates counts of zero.
  package init() {}

  /// Adds an entry.
  ///
  /// - Parameters:
  ///   - bytes: The cost of the entry against the budget.
  ///   - pageSize: The size of LMDB's pages.
  package mutating func add(entryOf bytes: Int, pageSize: Int) {
    // The first chunks of a large entry fill their pages.
    var bytes = bytes
    if bytes > EntryHeader.inlineLimit {
      bytes = (bytes - EntryHeader.size) % EntryHeader.chunkDataSize + 8
    }
    guard let pages = OverflowPages(ofValue: bytes, keyBytes: 8, pageSize: pageSize) else { return }
    entries += 1
    unusedBytes += pages.unused
    if pages.excess <= Self.slight { slightlyTooLong += 1 }
  }
}

extension StoreCore {
  /// The size of the pages of the store's file.
  package var pageSize: Int {
    get throws { try generation().whileOpen { $0.information.pageSize } }
  }
}
