// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// A Larder store consists of more than its LMDB files: a shared-memory table contains the stamp of
// every changed key, and records contain the counters. After a transaction that bypasses them,
// other processes would serve stale values from memory. So this module recognises the files and
// rejects them.

/// Recognises the files of a Larder store.
enum LarderStoreDetector {
  /// Returns the file name that marks the directory as a store's root or a part of one, or `nil`.
  static func found(in directory: String) throws(SystemError) -> String? {
    let names = try FileSystem.names(in: directory)
    if names.contains("CURRENT") { return "CURRENT" }
    // A generation: its data file is next to the shared-memory table.
    if names.contains("shared.table") { return "shared.table" }
    // A store that lost its CURRENT, and the directory of a cache's files.
    for name in names where isGeneration(name) || isVersion(name) {
      // A name alone is not enough: other programs may use it.
      let inside = (try? FileSystem.names(in: "\(directory)/\(name)")) ?? []
      if inside.contains("shared.table") || isVersion(name) && inside.contains("CURRENT") {
        return name
      }
    }
    return nil
  }

  private static func isGeneration(_ name: String) -> Bool { isNumber(name, after: "g-") }
  private static func isVersion(_ name: String) -> Bool { isNumber(name, after: "v") }

  private static func isNumber(_ name: String, after prefix: String) -> Bool {
    name.hasPrefix(prefix) && UInt64(name.dropFirst(prefix.utf8.count)) != nil
  }

  /// Returns whether a data file, at any path, contains the record that marks a store.
  static func stand(in environment: EnvironmentHandle) throws(LMDBError) -> Bool {
    let transaction = try ReadTransaction(in: environment)
    guard let record = try transaction.value(forKey: Array("meta".utf8), in: .main) else {
      return false
    }
    // StoreRecords.swift of the engine describes it: the checksum at 88 covers bytes 0 to 87.
    guard let checksum: UInt64 = record.integer(at: 88), let bytes = record.slice(0..<88) else {
      return false
    }
    return XXH64.hash(bytes) == checksum
  }
}
