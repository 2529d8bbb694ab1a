// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// One B-tree of an environment, ordered by key (LMDB says "database").
///
/// ```swift
/// let people = try environment.table("people")
/// let byNumber = try environment.table("people by number", keys: .integers)
/// ```
///
/// ``Environment/table(_:keys:)`` opens it, in every process under the same name and with the same
/// kind of keys. Like a name, it can be kept and passed on; what it names lasts as long as the
/// environment is open. It belongs to that one environment, and is a typed error in any other.
public struct Table: Hashable, Sendable {
  /// What the keys of a table are, which decides on their order.
  public enum Keys: Sendable {
    /// 1 to 511 bytes, ordered as bytes: the shorter one first where one begins with the other.
    case bytes
    /// 64-bit integers, ordered as numbers: eight bytes, one comparison a step.
    case integers

    var flags: UInt32 { self == .integers ? UInt32(MDB_INTEGERKEY) : 0 }
  }

  /// Its name; `nil` for the one that has none.
  public var name: String? { handle.name }
  /// What its keys are.
  public let keys: Keys

  let handle: TableHandle
  /// Which opening of which environment it belongs to; never used twice in a process.
  let serial: UInt
}

/// What LMDB knows a table by. The engine works with it, which opens its tables by itself and never
/// mixes them up.
///
/// It is opened once after the environment, in a transaction that commits, and never closed before
/// the environment is.
package struct TableHandle: Hashable, Sendable {
  let handle: UInt32
  package let name: String?

  /// The unnamed table that also holds the roots of the named ones.
  package static var main: TableHandle { TableHandle(handle: 1, name: nil) }
}

/// Size and shape of one table, as one snapshot has it.
public struct TableStatistics: Hashable, Sendable {
  /// How many entries there are.
  public let entries: Int
  /// The levels of its tree; zero when it is empty.
  public let depth: Int
  /// Pages that only lead to others.
  public let branchPages: Int
  /// Pages that hold entries.
  public let leafPages: Int
  /// Pages that hold values too large for a page of the tree.
  public let overflowPages: Int

  init(_ stat: MDB_stat) {
    entries = stat.ms_entries
    depth = Int(stat.ms_depth)
    branchPages = stat.ms_branch_pages
    leafPages = stat.ms_leaf_pages
    overflowPages = stat.ms_overflow_pages
  }

  /// All its pages.
  public var pages: Int { branchPages + leafPages + overflowPages }
}
