// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import LMDBBaseline

/// The ways in which earlier Swift libraries keep values, each in the few lines that do it.
final class SeedContender: DataContender {
  let name: String
  let data: Dataset
  private let reading: (String) throws -> Data?
  private let write: (String, Data) throws -> Void
  private let values: [Data]

  private init(
    _ name: String, _ data: Dataset, read: @escaping (String) throws -> Data?,
    write: @escaping (String, Data) throws -> Void
  ) throws {
    (self.name, self.data, self.reading, self.write) = (name, data, read, write)
    values = data.values.map { Data($0) }
    for (key, value) in zip(data.keys, values) { try write(key, value) }
  }

  /// Shallows' DiskStorage: a file for each key, its name in Base64, written in place.
  static func shallows(in directory: String, _ data: Dataset) throws -> SeedContender {
    let folder = URL(fileURLWithPath: directory + "/shallows")
    try Files.make(folder.path)
    func url(_ key: String) -> URL {
      folder.appendingPathComponent(Data(key.utf8).base64EncodedString())
    }
    return try SeedContender("Shallows' way: files", data) { key in
      try Data(contentsOf: url(key))
    } write: { key, value in
      guard FileManager.default.createFile(atPath: url(key).path, contents: value) else {
        throw BenchFailure("A file could not be written.")
      }
    }
  }

  private struct Record: Codable {
    let id: String
    let value: Data
  }

  /// Papyrus: a file of JSON for each object, written in place.
  static func papyrus(in directory: String, _ data: Dataset) throws -> SeedContender {
    let folder = URL(fileURLWithPath: directory + "/papyrus")
    try Files.make(folder.path)
    return try SeedContender("Papyrus' way: JSON files", data) { key in
      let text = try Data(contentsOf: folder.appendingPathComponent(key))
      return try JSONDecoder().decode(Record.self, from: text).value
    } write: { key, value in
      try JSONEncoder().encode(Record(id: key, value: value))
        .write(to: folder.appendingPathComponent(key))
    }
  }

  /// PersistentCacheKit: a table of SQLite with SQLite's own settings, which sync each write.
  static func persistentCacheKit(in directory: String, _ data: Dataset) throws -> SeedContender {
    let queue = try DatabaseQueue(path: directory + "/cache-kit.sqlite")
    try queue.write { db in
      try db.execute(
        sql:
          "CREATE TABLE cache_storage (key TEXT PRIMARY KEY NOT NULL, data BLOB, createdAt INTEGER)"
      )
    }
    return try SeedContender("PersistentCacheKit's way: SQLite", data) { key in
      try queue.read { db in
        try Data.fetchOne(
          db.cachedStatement(sql: "SELECT data FROM cache_storage WHERE key = ?"),
          arguments: [key])
      }
    } write: { key, value in
      try queue.write { db in
        try db.cachedStatement(sql: "INSERT OR REPLACE INTO cache_storage VALUES (?, ?, ?)")
          .execute(arguments: [key, value, Int(bench_now())])
      }
    }
  }

  /// PropertyKit: properties in a suite of UserDefaults, which writes the suite's file on its own.
  static func propertyKit(in directory: String, _ data: Dataset) throws -> SeedContender {
    let name = "larder-bench-\(ProcessInfo.processInfo.processIdentifier)"
    // Not in the home of whoever runs this.
    setenv("CFFIXED_USER_HOME", directory, 1)
    guard let defaults = UserDefaults(suiteName: name) else {
      throw BenchFailure("There are no user defaults.")
    }
    return try SeedContender("PropertyKit's way: UserDefaults", data) { key in
      defaults.object(forKey: key) as? Data
    } write: { key, value in
      defaults.set(value, forKey: key)
    }
  }

  func read(_ key: String) throws -> Data? { try reading(key) }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    for key in keys {
      let (name, value) = (data.keys[Int(key)], values[(Int(key) + shift) % data.count])
      try recordingTimings(&times) { try write(name, value) }
    }
  }

  func value(_ key: Int) throws -> [UInt8] { try read(data.keys[key]).map(Array.init) ?? [] }
}
