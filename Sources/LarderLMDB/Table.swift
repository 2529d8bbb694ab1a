// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// One B-tree of an environment, ordered by key (a "database" in LMDB's terms).
///
/// ```swift
/// let people = try environment.table("people")
/// let byNumber = try environment.table("people by number", keys: .integers)
/// ```
///
/// ``Environment/table(_:keys:)`` opens it; every process uses the same name and kind of keys. A
/// `Table` can be stored and passed between threads, and is valid as long as the environment is
/// open. It belongs to one environment; any other environment throws
/// ``LMDBError/Code/wrongEnvironment``.
public struct Table: Hashable, Sendable {
  /// The kind of the keys of a table, which determines their order.
  public enum Keys: Sendable {
    /// Keys of 1 to 511 bytes in byte order; a key comes before the longer keys that begin with it.
    case bytes
    /// 64-bit integers in numeric order: eight bytes, one comparison per step.
    case integers

    var flags: UInt32 { self == .integers ? UInt32(MDB_INTEGERKEY) : 0 }
  }

  /// The name, or `nil` for the unnamed table.
  public var name: String? { handle.name }
  /// The kind of the keys.
  public let keys: Keys

  let handle: TableHandle
  /// The serial number of the opened environment; unique in the process.
  let serial: UInt
}

/// LMDB's handle of a table. The engine uses it directly: it opens its own tables and never uses
/// one with another environment.
///
/// It is opened once after the environment, in a transaction that commits, and stays open until the
/// environment is closed.
package struct TableHandle: Hashable, Sendable {
  let handle: UInt32
  package let name: String?

  /// The unnamed table that also contains the roots of the named ones.
  package static var main: TableHandle { TableHandle(handle: 1, name: nil) }
}

/// The size and shape of one table in one snapshot.
public struct TableStatistics: Hashable, Sendable {
  /// The number of entries.
  public let entries: Int
  /// The number of levels of the tree; zero for an empty table.
  public let depth: Int
  /// The number of branch pages, which refer to other pages.
  public let branchPages: Int
  /// The number of leaf pages, which contain entries.
  public let leafPages: Int
  /// The number of overflow pages, which contain values too large for a page of the tree.
  public let overflowPages: Int
  /// The size of a page in bytes.
  public let pageSize: Int

  init(_ stat: MDB_stat) {
    entries = stat.ms_entries
    depth = Int(stat.ms_depth)
    branchPages = stat.ms_branch_pages
    leafPages = stat.ms_leaf_pages
    overflowPages = stat.ms_overflow_pages
    pageSize = Int(stat.ms_psize)
  }

  /// The number of all pages of the table.
  public var pages: Int { branchPages + leafPages + overflowPages }
  /// The size of all pages of the table in bytes.
  public var bytes: Int { pages * pageSize }
}
