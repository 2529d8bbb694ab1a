// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import GRDB
import Larder
import LarderObjects

/// The same parts in a store and in a database of GRDB's, with equal schema and indexes. Both have
/// every commit on the disk when it returns: `.durable` there, WAL with `synchronous = FULL` here.
final class ObjectPopulation {
  let count: Int
  let path: String
  let store: ObjectStore
  let pool: DatabasePool

  init(in directory: String, count: Int) throws {
    try Files.make(directory)
    self.count = count
    path = directory + "/parts"
    store = try ObjectStore(at: path)
    pool = try Self.open(directory + "/parts.sqlite")
    try pool.write { try PartRow.createTable($0) }
    for start in stride(from: 0, to: count, by: 5000) {
      let parts = (start..<start + 5000).map(Part.sample)
      try store.save(parts)
      let rows = parts.map(\.row)
      try pool.write { db in for row in rows { try row.insert(db) } }
    }
    // As a database is after some use: the planner knows its statistics, the log is short.
    try pool.write { try $0.execute(sql: "ANALYZE") }
    try pool.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
    try verify()
  }

  deinit { store.close() }

  private static func open(_ path: String) throws -> DatabasePool {
    var configuration = Configuration()
    configuration.prepareDatabase { db in
      // Everything the figures touch stays in SQLite's cache, or in its map.
      try db.execute(sql: "PRAGMA cache_size = -65536")
      try db.execute(sql: "PRAGMA mmap_size = 1073741824")
    }
    let pool = try DatabasePool(path: path, configuration: configuration)
    // Opening a pool sets NORMAL, under which a commit does not wait for the disk, after all that the
    // configuration says; so it is set, and looked at, afterwards.
    let level = try pool.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA synchronous = FULL")
      return try Int.fetchOne(db, sql: "PRAGMA synchronous")
    }
    guard level == 2 else { throw BenchFailure("SQLite does not sync every commit.") }
    return pool
  }

  /// All numbers, shuffled.
  func order(_ round: Int) -> [Int] {
    var numbers = Numbers(seed: UInt64(round) + 17)
    return (0..<count).shuffled(using: &numbers)
  }

  /// Throws unless both hold the same parts, in the same order.
  func verify() throws {
    let own = try store.objects(Part.self).sorted(by: \.id).fetch().map(\.row)
    let theirs = try pool.read { try PartRow.order(Column("id")).fetchAll($0) }
    guard own == theirs, own.count >= count else {
      throw BenchFailure("The store and GRDB hold different parts.")
    }
  }
}
