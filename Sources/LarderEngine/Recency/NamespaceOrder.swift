// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// THE LIMITS OF A NAMESPACE
//
// The record of a namespace has a guaranteed minimum and a maximum in bytes, and a maximum in entries.
//
// An eviction for the store's budget spares an entry if its namespace would have less than its minimum
// without it. In the main queue such an entry moves to the end, like one that was used.
//
// A namespace with a maximum evicts from itself. The queues of the store name the entries of all
// namespaces, so it also has an order in the table `order`:
//
//   namespace u32 big-endian, sequence u64 big-endian -> hash u64
//
// A new entry is appended. The first entry of the order is the next victim, unless it was used: then
// it moves to the end with one use less (CLOCK). At most 64 entries move for a victim. An entry that is
// removed otherwise leaves its record, which is skipped when it is the first. If the records are more
// than twice the entries and 64, each put in the namespace removes or moves the first four.
//
// The order is complete before the maximum is stored: `setLimits` marks the namespace as ordered, from
// which on each new entry is appended, then appends those that are there, in steps, and then stores
// the maximum. An entry may have two records; the first one then costs it a turn.

extension StoreTransaction {
  private static var longestSearch: Int { 64 }
  private static var staleRecords: Int { 256 }
  private static var cleanedRecords: Int { 4 }
  private static var step: Int { 1000 }

  package static func orderKey(_ number: UInt32, _ sequence: UInt64) -> [UInt8] {
    var key: [UInt8] = []
    key.reserveCapacity(12)
    key.append(littleEndian: number.byteSwapped)
    key.append(littleEndian: sequence.byteSwapped)
    return key
  }

  /// Returns the record of a namespace in this transaction.
  mutating func namespaceRecord(_ number: UInt32) throws -> NamespaceRecord {
    try epoch(number)
    return namespaces[number]!
  }

  // MARK: The order

  /// Appends an entry to the order of its namespace, if it has one.
  mutating func appendToOrder(_ header: EntryHeader, hash: UInt64) throws {
    guard namespaces.read(header.namespace, { $0.isOrdered }) == true, !header.isPinned else {
      return
    }
    try append(hash, toOrderOf: header.namespace)
    let record = try namespaceRecord(header.namespace)
    guard record.orderCount > 2 * record.entries + 64 else { return }
    for _ in 0..<Self.cleanedRecords {
      guard let first = try takeFirst(inOrderOf: header.namespace) else { return }
      if try !entries(under: first, of: header.namespace).isEmpty {
        try append(first, toOrderOf: header.namespace)
      }
    }
  }

  mutating func append(_ hash: UInt64, toOrderOf number: UInt32) throws {
    var sequence: UInt64 = 0
    try changeNamespace(number) { record in
      sequence = record.nextSequence
      record.nextSequence += 1
      record.orderCount += 1
    }
    var value: [UInt8] = []
    value.append(littleEndian: hash)
    try value.withRawSpan { value throws(LMDBError) in
      try transaction.put(
        value, RawSpan(), RawSpan(), forKey: Self.orderKey(number, sequence),
        in: generation.order)
    }
  }

  /// Removes and returns the first hash of a namespace's order, or returns `nil` if it is empty.
  mutating func takeFirst(inOrderOf number: UInt32) throws -> UInt64? {
    var first: (key: [UInt8], hash: UInt64)?
    do {
      var cursor = try Cursor(over: generation.order, in: transaction)
      if try cursor.move(atLeast: Self.orderKey(number, 0)),
        cursor.currentKey.integer(at: 0, as: UInt32.self)?.byteSwapped == number
      {
        first = (cursor.currentKey.copied(), cursor.currentValue.integer(at: 0) ?? 0)
      }
    }
    guard let first else { return nil }
    try transaction.remove(key: first.key, in: generation.order)
    try changeNamespace(number) { $0.orderCount -= min($0.orderCount, 1) }
    return first.hash
  }

  private mutating func entries(
    under hash: UInt64, of number: UInt32
  ) throws -> [RecordEntry] {
    try readableItems(hash: hash).filter {
      $0.header.namespace == number && !$0.header.isPinned
    }
  }

  // MARK: Eviction

  /// Evicts entries of a namespace until another one of `cost` bytes fits into its maximum.
  mutating func makeRoom(for cost: Int, inNamespace number: UInt32) throws {
    guard namespaces.read(number, { $0.hasMaximum }) == true else { return }
    let before = try namespaceRecord(number)
    // A process that lowered the maximum was killed before the namespace fitted it.
    let wasOver = before.isOver(adding: 0, entries: 0)
    var count = 0
    while try namespaceRecord(number).isOver(adding: cost, entries: 1) {
      guard try evictFirst(inOrderOf: number) else {
        throw StoreError(
          .valueTooLarge, during: "set", path: generation.path,
          "The entry has \(ByteCount(bytes: cost)), which does not fit into the maximum of its "
            + "namespace together with entries that cannot be evicted. Raise the maximum, or remove pinned "
            + "entries.")
      }
      count += 1
      if wasOver, count >= Self.step { break }
    }
  }

  /// Evicts entries of a namespace towards a lower maximum.
  ///
  /// - Returns: Whether the namespace fits.
  mutating func trim(namespace number: UInt32) throws -> Bool {
    for _ in 0..<Self.step {
      guard try namespaceRecord(number).isOver(adding: 0, entries: 0) else { return true }
      guard try evictFirst(inOrderOf: number) else { return true }
    }
    return false
  }

  /// Evicts the next entry of a namespace's order.
  ///
  /// - Returns: Whether there was one.
  private mutating func evictFirst(inOrderOf number: UInt32) throws -> Bool {
    var moved = 0
    var stale = 0
    while stale < Self.staleRecords, let hash = try takeFirst(inOrderOf: number) {
      let items = try entries(under: hash, of: number)
      if items.isEmpty {
        stale += 1
        continue
      }
      let uses = generation.table.uses.uses(hashPrefix(hash))
      let isOwn = items.contains { $0.header.commitVersion == commitVersion }
      if uses > 0 || isOwn && sparesOwn, moved < Self.longestSearch {
        if uses > 0 { generation.table.uses.setUses(hashPrefix(hash), uses - 1) }
        try append(hash, toOrderOf: number)
        moved += 1
        continue
      }
      // Of entries with the same hash, each has a record of the order.
      try evict(items[0].header, at: items[0].offset, hash: hash)
      return true
    }
    // Many stale records: go on in the next round, or search the namespace's entries no further.
    return stale == Self.staleRecords
  }

  /// Returns whether an eviction for the budget of the store spares an entry: its namespace would have
  /// less than its guaranteed minimum without it.
  mutating func isGuaranteed(_ header: EntryHeader) throws -> Bool {
    try epoch(header.namespace)
    return namespaces.read(header.namespace) { $0.isGuaranteed(header) } ?? false
  }
}
