// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// One named B-tree of an environment (LMDB says "database").
///
/// A handle is opened once after the environment, in a transaction that commits, and never closed
/// before the environment is.
package struct Table: Hashable, Sendable {
  let handle: UInt32
  package let name: String?

  package enum Keys: Sendable {
    /// Bytes, compared as bytes.
    case bytes
    /// 64-bit integers in native order: eight bytes, one comparison a step.
    case integers

    var flags: UInt32 { self == .integers ? UInt32(MDB_INTEGERKEY) : 0 }
  }

  /// The unnamed table that also holds the roots of the named ones.
  package static var main: Table { Table(handle: 1, name: nil) }
}

/// Size and shape of one B-tree.
package struct TableStatistics: Hashable, Sendable {
  package let entries: Int
  package let depth: Int
  package let branchPages: Int
  package let leafPages: Int
  package let overflowPages: Int

  init(_ stat: MDB_stat) {
    entries = stat.ms_entries
    depth = Int(stat.ms_depth)
    branchPages = stat.ms_branch_pages
    leafPages = stat.ms_leaf_pages
    overflowPages = stat.ms_overflow_pages
  }

  package var pages: Int { branchPages + leafPages + overflowPages }
}
