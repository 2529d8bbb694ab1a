// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// The stored sizes of objects and of their indexes, keys included.
package struct ObjectSizes: Sendable {
  /// The records of a table that belong to a type or an index.
  package struct Use: Sendable, Hashable {
    package var count = 0
    package var bytes = 0
  }

  /// A type or an index.
  package struct Part: Sendable, Hashable {
    /// The name of the type.
    package let type: String
    /// The name of the index, or `nil` for the objects themselves.
    package let index: String?
    package let use: Use
  }

  package private(set) var parts: [Part] = []
  /// The records of dropped types and indexes, which are removed in steps.
  package private(set) var dropped = Use()

  /// Reads all keys of a snapshot's objects and indexes.
  package init(_ snapshot: borrowing Snapshot) throws {
    var objects = try Self.uses(of: snapshot.generation.objects, snapshot)
    var indexes = try Self.uses(of: snapshot.generation.indexes, snapshot)
    for type in try ObjectReading.types(snapshot) {
      if let use = objects.removeValue(forKey: type.number) {
        parts.append(Part(type: type.name, index: nil, use: use))
      }
      for index in type.indexes {
        guard let use = indexes.removeValue(forKey: index.number) else { continue }
        parts.append(Part(type: type.name, index: index.name, use: use))
      }
      let books = try ObjectReading.books(type.number, snapshot)
      for (number, name) in [(books.sample, "(for eviction)"), (books.watch, "(of a migration)")] {
        guard let use = indexes.removeValue(forKey: number) else { continue }
        parts.append(Part(type: type.name, index: name, use: use))
      }
    }
    for use in [objects, indexes].flatMap(\.values) {
      dropped.count += use.count
      dropped.bytes += use.bytes
    }
  }

  private static func uses(
    of table: TableHandle, _ snapshot: borrowing Snapshot
  ) throws -> [UInt32: Use] {
    var result: [UInt32: Use] = [:]
    var cursor = try Cursor(over: table, in: snapshot.transaction)
    var more = try cursor.moveToFirst()
    while more {
      let number = PackedKey(cursor.currentKey)?.number ?? 0
      result[number, default: Use()].count += 1
      result[number, default: Use()].bytes +=
        cursor.currentKey.byteCount + cursor.currentValue.byteCount
      more = try cursor.moveToNext()
    }
    return result
  }
}
