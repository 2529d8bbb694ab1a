// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The removal of entries that were not used for long.
extension StoreCore {
  /// The distance of two recorded times of uses, in milliseconds, in a store that does not evict by
  /// recency (`SharedTable+Recency.swift`).
  private static var useGranularity: Int64 { 16_384 }
  private static var pageSize: Int { 500 }

  /// Removes the entries whose last use was before a time, in bounded transactions. Pinned entries stay.
  ///
  /// - Parameters:
  ///   - space: The namespace, or `nil` for all.
  ///   - time: The time in milliseconds since 1970.
  /// - Returns: The number of removed entries.
  package func removeUnused(in space: NamespaceHandle?, since time: Int64) throws -> Int {
    // A recorded time may be earlier than the use by one step.
    let limit = time - Self.useGranularity
    var removed = 0
    var position: UInt64? = 0
    while let start = position {
      let page = try page(of: space, from: start, limit: Self.pageSize, includesAbsent: true)
      let unused = page.entries.filter { $0.lastUse < limit && !$0.isPinned }
      if !unused.isEmpty {
        removed += try runExclusively { core in
          try core.withGeneration { generation in
            try core.transact(in: generation) { try $0.removeUnused(unused, before: limit) }.result
          }
        }
      }
      position = page.next
    }
    return removed
  }

  /// Returns the time at which a key with a live entry was last used by any process, in milliseconds
  /// since 1970, or `nil` if it has none.
  package func lastUse(of key: EncodedKey, in space: NamespaceHandle) throws -> Int64? {
    try withSnapshot("read") { snapshot in
      let place = space.place(of: key, in: snapshot.generation)
      guard
        case .found(let value) = try find(
          key, at: place, in: space, snapshot, .init(), readVersion: snapshot.readVersion)
      else { return nil }
      let tick = snapshot.generation.table.lastUse(hash: place.hash)
      return max(value.created, SharedTable.milliseconds(ofTick: tick))
    }
  }
}

extension StoreTransaction {
  /// Removes entries that a page has listed, unless they were used or written since.
  fileprivate mutating func removeUnused(_ entries: [EntryInfo], before limit: Int64) throws -> Int
  {
    var removed = 0
    for hash in Set(entries.map(\.hash)) {
      let tick = generation.table.lastUse(hash: hash)
      guard SharedTable.milliseconds(ofTick: tick) < limit else { continue }
      let namespaces = Set(entries.lazy.filter { $0.hash == hash }.map(\.namespace))
      removed += try removeItems(hash: hash, .unused) { item in
        item.header.created < limit && !item.header.isPinned
          && namespaces.contains(item.header.namespace)
      }
    }
    return removed
  }
}
