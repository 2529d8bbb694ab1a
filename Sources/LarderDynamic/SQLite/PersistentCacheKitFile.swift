// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderCoding
package import LarderEngine

/// The rows of the SQLite file of `PersistentCacheKit`, as entries.
///
/// Its table is `cache_storage (key TEXT PRIMARY KEY NOT NULL, data BLOB, createdAt INTEGER)`. A key is
/// the namespace and the description of the cache's key, with nothing in between; the data is a binary
/// property list of a dictionary with `value` and perhaps `expiration`, or nothing where a value was
/// removed.
package struct PersistentCacheKitFile {
  /// What became of the rows.
  package struct Tally: Sendable {
    /// Given as entries.
    package var taken = 0
    /// Removed values, which the file keeps as rows without data.
    package var removed = 0
    /// Keys of other namespaces, or that are no key of the type.
    package var others = 0
    /// Data that is no item.
    package var unreadable = 0
  }

  private let table: SQLiteTable

  /// - Throws: ``DynamicObjectError``.
  package init(_ file: [UInt8]) throws(DynamicObjectError) {
    table = try SQLiteTable("cache_storage", in: file)
  }

  /// Gives each value that was not removed.
  ///
  /// - Parameters:
  ///   - namespace: Only keys that begin with it, which are given without it.
  ///   - type: What keys are; those that are not of the type are left out.
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
