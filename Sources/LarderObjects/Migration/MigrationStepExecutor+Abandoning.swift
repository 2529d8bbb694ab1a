// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

extension MigrationStepExecutor {
  /// Deletes the state of a migration that is in progress.
  ///
  /// - Returns: Whether the migration was in progress.
  static func abandon(_ name: String, _ transaction: inout StoreTransaction) throws -> Bool {
    guard let record = try transaction.migration(named: name), !record.isApplied else {
      return false
    }
    if let target = record.target {
      try transaction.dropObjects(of: target)
      try transaction.dropObjectNumber(record.watch, isIndex: true)
      let types = try transaction.withSnapshot { try ObjectReading.types($0) }
      for var type in types where type.migration == name {
        if type.version == 0 {
          try transaction.dropObjects(of: type)
          try transaction.removeObjectType(named: type.name)
          continue
        }
        try transaction.changeObjectBooks(type.number) {
          $0.watch = 0
          $0.watchedTo = 0
        }
        type.migration = nil
        try transaction.putObjectType(type)
      }
    }
    try transaction.removeMigration(named: name)
    return true
  }
}
