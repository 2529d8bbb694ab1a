// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB

extension Generation {
  package static let entriesName = "entries"
  package static let chunksName = "chunks"
  package static let expiriesName = "expiries"
  package static let tagsName = "tags"
  package static let membersName = "members"
  package static let changesName = "changes"
  package static let objectsName = "objects"
  package static let idsName = "ids"
  package static let indexesName = "indexes"

  /// The tables of an environment, opened once.
  package struct Tables {
    package let entries: TableHandle
    package let chunks: TableHandle
    package let expiries: TableHandle
    package let tags: TableHandle
    package let members: TableHandle
    package let changes: TableHandle
    package let objects: TableHandle
    package let ids: TableHandle
    package let indexes: TableHandle

    /// All tables, in the order of their numbers in the redo log.
    package var all: [TableHandle] {
      [.main, entries, chunks, expiries, tags, members, changes, objects, ids, indexes]
    }

    /// Creates the tables in a new environment.
    package init(in transaction: inout WriteTransaction) throws(LMDBError) {
      entries = try transaction.makeTable(Generation.entriesName, keys: .integers)
      chunks = try transaction.makeTable(Generation.chunksName, keys: .integers)
      expiries = try transaction.makeTable(Generation.expiriesName, keys: .bytes)
      tags = try transaction.makeTable(Generation.tagsName, keys: .integers)
      members = try transaction.makeTable(Generation.membersName, keys: .bytes)
      changes = try transaction.makeTable(Generation.changesName, keys: .integers)
      objects = try transaction.makeTable(Generation.objectsName, keys: .bytes)
      ids = try transaction.makeTable(Generation.idsName, keys: .integers)
      indexes = try transaction.makeTable(Generation.indexesName, keys: .bytes)
    }

    /// Opens the tables, or returns `nil` if one is missing. The handles are valid after the
    /// caller calls `keepTables()`.
    init?(in transaction: borrowing ReadTransaction) throws(LMDBError) {
      guard
        let entries = try transaction.table(Generation.entriesName, keys: .integers),
        let chunks = try transaction.table(Generation.chunksName, keys: .integers),
        let expiries = try transaction.table(Generation.expiriesName, keys: .bytes),
        let tags = try transaction.table(Generation.tagsName, keys: .integers),
        let members = try transaction.table(Generation.membersName, keys: .bytes),
        let changes = try transaction.table(Generation.changesName, keys: .integers),
        let objects = try transaction.table(Generation.objectsName, keys: .bytes),
        let ids = try transaction.table(Generation.idsName, keys: .integers),
        let indexes = try transaction.table(Generation.indexesName, keys: .bytes)
      else { return nil }
      self.entries = entries
      self.chunks = chunks
      self.expiries = expiries
      self.tags = tags
      self.members = members
      self.changes = changes
      self.objects = objects
      self.ids = ids
      self.indexes = indexes
    }
  }
}
