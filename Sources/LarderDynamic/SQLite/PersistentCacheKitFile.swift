// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderCoding
package import LarderEngine

/// The SQLite file of `PersistentCacheKit`.
///
/// Its table is `cache_storage (key TEXT PRIMARY KEY NOT NULL, data BLOB, createdAt INTEGER)`. A
/// key is the concatenation of the namespace and the description of the cache's key. The data is a
/// binary property list of a dictionary with `value` and an optional `expiration`, or null for a
/// removed value.
package struct PersistentCacheKitFile {
  /// The numbers of rows by outcome.
  package struct Tally: Sendable {
    /// Rows that became entries.
    package var taken = 0
    /// Rows without data, which are removed values.
    package var removed = 0
    /// Rows with a key of another namespace or of another type.
    package var others = 0
    /// Rows whose data is not an item.
    package var unreadable = 0
  }

  private let table: SQLiteTable

  /// Opens a file.
  ///
  /// - Parameter file: The bytes of the file.
  /// - Throws: ``DynamicObjectError`` if the file is damaged or has no such table.
  package init(_ file: [UInt8]) throws(DynamicObjectError) {
    table = try SQLiteTable("cache_storage", in: file)
  }

  /// Calls `body` with each value that was not removed.
  ///
  /// - Parameters:
  ///   - namespace: The prefix of the keys, which is removed from them. Other keys are omitted.
  ///   - type: The type of the keys. Keys of another type are omitted.
  ///   - body: Receives an entry.
  /// - Returns: The numbers of rows by outcome.
  /// - Throws: ``DynamicObjectError`` if the file is damaged; the errors of `body`.
  package func entries(
    namespace: String, type: KeyTextFormat, _ body: (ExportedEntry) throws -> Void
  ) throws -> Tally {
    var tally = Tally()
    var failure: (any Error)?
    do {
      try table.forEach { row throws(DynamicObjectError) in
        guard row.count >= 2, case .text(let text) = row[0] else {
          tally.unreadable += 1
          return
        }
        guard text.starts(with: namespace.utf8),
          let name = String(validating: text.dropFirst(namespace.utf8.count), as: UTF8.self),
          let key = try? type.encode(name)
        else {
          tally.others += 1
          return
        }
        guard row[1] != .null else {
          tally.removed += 1
          return
        }
        guard case .blob(let data) = row[1], let item = PersistentCacheKitItem(data) else {
          tally.unreadable += 1
          return
        }
        do {
          try body(
            ExportedEntry(
              namespace: namespace, key: EncodedKey(tag: key.tag.rawValue, bytes: key.bytes),
              codec: CodecIdentifier.propertyList.rawValue, created: 0, expires: item.expires,
              payload: item.payload))
          tally.taken += 1
        } catch {
          failure = error
          throw DynamicObjectError(.interrupted, "\(error)")
        }
      }
    } catch {
      throw failure ?? error
    }
    return tally
  }
}
