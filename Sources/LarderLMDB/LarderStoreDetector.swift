// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// A Larder store is more than its LMDB files: a mapped table tells every process which keys a commit
// has touched, and records tell how much is stored. A transaction past all that would have other
// processes serve stale values from memory. So its files are recognised and never opened here.

/// Recognises the files of a Larder store.
enum LarderStoreDetector {
  /// What tells that a directory is a store's root, or a part of one; `nil`: it is not.
  static func found(in directory: String) throws(SystemError) -> String? {
    let names = try FileSystem.names(in: directory)
    if names.contains("CURRENT") { return "CURRENT" }
    // A generation: its data file stands beside the table that all processes map.
    if names.contains("shared.table") { return "shared.table" }
    // A store that lost its CURRENT, and the place of a cache's files.
    for name in names where isGeneration(name) || isVersion(name) {
      // A file of that name is nobody's mark.
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

  /// Whether a data file, wherever it stands, carries the record that says what a store is.
  static func stand(in environment: EnvironmentHandle) throws(LMDBError) -> Bool {
    let transaction = try ReadTransaction(in: environment)
    guard let record = try transaction.value(forKey: Array("meta".utf8), in: .main) else {
      return false
    }
    // StoreRecords.swift of the engine describes it: the checksum at 80 is of what is before.
    guard let checksum: UInt64 = record.integer(at: 80), let bytes = record.slice(0..<80) else {
      return false
    }
    return XXH64.hash(bytes) == checksum
  }
}
