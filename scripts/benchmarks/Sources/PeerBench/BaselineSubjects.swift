// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import BaselineClients
import Foundation
import GRDB

/// A rival reached and timed in C.
final class CContender: BenchmarkSubject {
  let name: String
  private let data: Dataset
  private let peer: OpaquePointer

  private init(
    _ name: String, _ peer: OpaquePointer, _ data: Dataset, isNamed: Bool = false,
    loads: Bool = true
  ) {
    var version = [CChar](repeating: 0, count: 64)
    peer_version(peer, &version, version.count)
    let text = String(decoding: version.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self)
    let words = name.split(separator: ",", maxSplits: 1).map(String.init)
    self.name =
      isNamed
      ? name
      : "\(words[0]) \(text)" + (words.count > 1 ? "," + words[1] : "")
    self.data = data
    self.peer = peer
    if loads { peer_load(peer, data.forC) }
  }

  deinit { peer_close(peer) }

  static func redis(_ socket: String, _ data: Dataset, loads: Bool = true) -> CContender {
    CContender("Redis", peer_redis(socket), data, loads: loads)
  }

  static func memcached(_ socket: String, _ data: Dataset) -> CContender {
    CContender("memcached", peer_memcached(socket), data)
  }

  static func sqlite(
    in directory: String, _ data: Dataset, synchronous: Int32, loads: Bool = true
  ) -> CContender {
    let level = ["OFF", "NORMAL", "FULL"][Int(synchronous)]
    return CContender(
      "SQLite, C API, \(level)", peer_sqlite(directory + "/c-\(level).sqlite", synchronous), data,
      loads: loads)
  }

  static func lmdb(
    in directory: String, _ data: Dataset, isSynced: Bool, throughMap: Bool, loads: Bool = true
  ) throws -> CContender {
    let path = directory + "/lmdb-\(isSynced)"
    try Files.make(path)
    return CContender(
      "liblmdb in C" + (isSynced ? ", synced" : throughMap ? ", WRITEMAP" : ""),
      peer_lmdb(path, isSynced ? 1 : 0, throughMap ? 1 : 0), data, isNamed: true, loads: loads)
  }

  static func files(in directory: String, _ data: Dataset, isSynced: Bool) throws -> CContender {
    let path = directory + "/files-\(isSynced)"
    try Files.make(path)
    return CContender(
      "a file per key" + (isSynced ? ", synced" : ""), peer_files(path, isSynced ? 1 : 0), data,
      isNamed: true)
  }

  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64 {
    var sum: UInt64 = 0
    let before = times.count
    times.append(contentsOf: repeatElement(0, count: keys.count))
    times.withUnsafeMutableBufferPointer {
      peer_get(peer, data.forC, keys, keys.count, $0.baseAddress! + before, &sum)
    }
    return sum
  }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    let before = times.count
    times.append(contentsOf: repeatElement(0, count: keys.count))
    times.withUnsafeMutableBufferPointer {
      peer_set(
        peer, data.forC, keys, keys.count, UInt32(shift), $0.baseAddress! + before)
    }
  }

  func value(_ key: Int) throws -> [UInt8] {
    var target = [UInt8](repeating: 0, count: 2 << 20)
    return Array(target[..<peer_value(peer, UInt32(key), &target, target.count)])
  }

  private var small = [UInt8](repeating: 0, count: 4096)

  /// Whether there is a value, of at most 4 kB; nothing is made of it.
  func has(_ key: Int) -> Bool { peer_value(peer, UInt32(key), &small, small.count) > 0 }

  /// A thousand sets in a transaction, or sent together; the data has so many.
  func setAll(_ data: Dataset) { peer_load(peer, data.forC) }

  /// Redis only: what is set from now on lives so long; and a command that answers OK.
  func setLife(milliseconds: Int32) { peer_redis_life(peer, milliseconds) }
  func command(_ text: String) { peer_redis_command(peer, text) }

  /// Redis only: a number is set, and told to who subscribed.
  func publish(_ number: Int) { peer_redis_publish(peer, number) }
  func subscribe() { peer_redis_subscribe(peer) }
  func nextPublished() -> Int { peer_redis_next(peer) }
}

/// GRDB's pool in WAL mode, statements prepared once.
final class GRDBContender: DataContender {
  let name: String
  let data: Dataset
  private let values: [Data]
  private let pool: DatabasePool

  /// - Parameter synchronous: OFF, NORMAL or FULL.
  /// - Parameter loads: Whether the table is made and filled; otherwise both are there.
  init(
    in directory: String, _ data: Dataset, synchronous: String, loads: Bool = true
  ) throws {
    self.data = data
    values = data.values.map { Data($0) }
    name = "GRDB 7.10.0, \(synchronous)"
    var configuration = Configuration()
    // Other processes write as well: it waits for them.
    configuration.busyMode = .timeout(60)
    configuration.prepareDatabase { db in
      // Everything the figures touch stays in SQLite's cache, or in its map.
      try db.execute(sql: "PRAGMA cache_size = -65536")
      try db.execute(sql: "PRAGMA mmap_size = 1073741824")
    }
    pool = try DatabasePool(
      path: directory + "/grdb-\(synchronous).sqlite", configuration: configuration)
    // Opening a pool sets NORMAL after all that the configuration says; so it is set, and looked
    // at, afterwards.
    let level = try pool.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA synchronous = \(synchronous)")
      return try Int.fetchOne(db, sql: "PRAGMA synchronous")
    }
    guard level == ["OFF", "NORMAL", "FULL"].firstIndex(of: synchronous) else {
      throw BenchFailure("SQLite did not take synchronous = \(synchronous).")
    }
    guard loads else { return }
    let (keys, values) = (data.keys, values)
    try pool.write { db in
      try db.execute(
        sql: "CREATE TABLE entry (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
      let statement = try db.cachedStatement(sql: Self.insert)
      for (key, value) in zip(keys, values) { try statement.execute(arguments: [key, value]) }
    }
    try pool.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
  }

  private static let insert = "REPLACE INTO entry VALUES (?, ?)"
  private static let select = "SELECT value FROM entry WHERE key = ?"

  func has(_ key: String) throws -> Bool { try read(key) != nil }

  /// All in one transaction.
  func setAll(_ data: Dataset, _ values: [Data]) throws {
    try pool.write { db in
      let statement = try db.cachedStatement(sql: Self.insert)
      for (key, value) in zip(data.keys, values) { try statement.execute(arguments: [key, value]) }
    }
  }

  /// Sets keys in one transaction.
  func setTogether(_ keys: [UInt32], shift: Int) throws {
    try pool.write { db in
      let statement = try db.cachedStatement(sql: Self.insert)
      for key in keys {
        try statement.execute(
          arguments: [data.keys[Int(key)], values[(Int(key) + shift) % data.count]])
      }
    }
  }

  func read(_ key: String) throws -> Data? {
    try pool.read { db in
      try Data.fetchOne(db.cachedStatement(sql: Self.select), arguments: [key])
    }
  }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    for key in keys {
      let (name, value) = (data.keys[Int(key)], values[(Int(key) + shift) % data.count])
      try recordingTimings(&times) {
        try pool.write { db in
          try db.cachedStatement(sql: Self.insert).execute(arguments: [name, value])
        }
      }
    }
  }

  func value(_ key: Int) throws -> [UInt8] { try read(data.keys[key]).map(Array.init) ?? [] }
}
