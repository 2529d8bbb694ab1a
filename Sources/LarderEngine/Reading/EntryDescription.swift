// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The properties of one visible entry, without its value.
package struct EntryDescription: Sendable {
  package let codec: UInt16
  package let commitVersion: UInt64
  package let created: Int64
  package let expires: Int64
  /// The time of the last use, in milliseconds since 1970.
  package let lastUse: Int64
  /// The cost of the entry against the budget, in bytes.
  package let bytes: Int
  /// The size of the value alone, in bytes.
  package let valueBytes: Int
  package let tagCount: Int
  package let isPinned: Bool
  package let isAbsent: Bool
}

extension StoreCore {
  /// Returns the properties of a key's entry, or `nil` if it has none. This is no use of the entry.
  package func description(
    of key: EncodedKey, in space: NamespaceHandle
  ) throws -> EntryDescription? {
    try flush()
    return try withSnapshot("explain") { snapshot in
      let place = space.place(of: key, in: snapshot.generation)
      guard let number = try number(of: space, snapshot),
        let record = try snapshot.transaction.value(
          forKey: place.hash, in: snapshot.generation.entries)
      else { return nil }
      for item in try items(of: record, in: space) where item.header.namespace == number {
        let header = item.header
        guard header.keyTag == key.tag,
          try isAlive(header, in: record, at: item.offset, snapshot, hash: place.hash),
          try snapshot.content(of: header, in: record, at: item.offset, length: header.keyLength)
            == key.bytes
        else { continue }
        let table = snapshot.generation.table
        let used = SharedTable.milliseconds(ofTick: table.lastUse(hash: place.hash))
        return EntryDescription(
          codec: header.codec, commitVersion: header.commitVersion, created: header.created,
          expires: table.deadline(of: header, hash: place.hash, at: now),
          lastUse: max(header.created, used), bytes: header.cost, valueBytes: header.payloadLength,
          tagCount: header.tagCount, isPinned: header.isPinned, isAbsent: header.isAbsent)
      }
      return nil
    }
  }

  private func items(of record: RawSpan, in space: NamespaceHandle) throws -> [RecordEntry] {
    do throws(EntryHeader.Defect) {
      return try Record.items(in: record)
    } catch {
      throw StoreError.unreadable("it is damaged", in: space.name)
    }
  }
}
