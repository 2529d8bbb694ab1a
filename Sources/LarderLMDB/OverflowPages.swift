// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The overflow pages of a value that does not fit into a leaf page.
package struct OverflowPages: Sendable, Hashable {
  /// The number of pages.
  package let count: Int
  /// The bytes of the last page that the value leaves unused.
  package let unused: Int
  /// The bytes by which a shorter value would need one page less.
  package let excess: Int

  /// Returns `nil` if LMDB stores the value in the leaf page.
  package init?(ofValue bytes: Int, keyBytes: Int, pageSize: Int) {
    let largest =
      LMDBFormat.maximumNodeBytes(pageSize: pageSize) - LMDBFormat.nodeHeaderBytes - keyBytes
    guard LMDBFormat.pageSizes.contains(pageSize), bytes > largest else { return nil }
    count = Int(LMDBFormat.overflowPages(bytes: bytes, pageSize: pageSize))
    unused = count * pageSize - LMDBFormat.pageHeaderBytes - bytes
    excess = count == 1 ? bytes - largest : pageSize - unused
  }
}
