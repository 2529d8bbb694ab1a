// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// INDEX ENTRIES OF MANY OBJECTS
//
// Objects that are saved together are in the order of their sequences, but their index entries are
// in no order. If each entry is written at once, each goes to another page, and LMDB allocates
// pages for objects and indexes alternately. Then the written pages are scattered over the file,
// and so are the pages that every later transaction frees and writes again. If the entries are
// buffered and written in key order, the entries of a page are written together, and the pages of
// one table are contiguous, so later writes are sequential.

/// Bytes to be sorted.
struct OrderedKey {
  /// The first sixteen bytes, big-endian: most comparisons end here.
  private let first: UInt64
  private let second: UInt64
  let bytes: [UInt8]

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
    first = Self.word(bytes, 0)
    second = Self.word(bytes, 8)
  }

  private static func word(_ bytes: [UInt8], _ start: Int) -> UInt64 {
    if let word: UInt64 = bytes.integer(at: start) { return word.byteSwapped }
    var word: UInt64 = 0
    for offset in start..<start + 8 {
      word = word << 8 | (offset < bytes.count ? UInt64(bytes[offset]) : 0)
    }
    return word
  }

  static func precedes(_ left: OrderedKey, _ right: OrderedKey) -> Bool {
    if left.first != right.first { return left.first < right.first }
    if left.second != right.second { return left.second < right.second }
    return left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}

/// Index entries that are buffered, to be written in order.
struct IndexEntryBuffer {
  private var entries: [OrderedKey] = []

  /// The maximum number of buffered entries.
  private static let limit = 16_384

  var isFull: Bool { entries.count >= Self.limit }

  mutating func append(_ bytes: [UInt8]) { entries.append(OrderedKey(bytes)) }

  /// Removes and returns all entries in order.
  mutating func take() -> [[UInt8]] {
    let sorted = entries.sorted(by: OrderedKey.precedes)
    entries.removeAll(keepingCapacity: true)
    return sorted.map(\.bytes)
  }
}

extension StoreTransaction {
  /// Buffers the index entries of new objects until ``endIndexBatch()``. Until then, only
  /// ``save(_:type:keepsExisting:since:revise:)`` may read their indexes: it writes the entries
  /// first.
  package mutating func beginIndexBatch() { objects.heldEntries = IndexEntryBuffer() }

  /// Writes the buffered entries. Called after an error as well, because the transaction may
  /// continue.
  package mutating func endIndexBatch() throws {
    try putHeldEntries()
    objects.heldEntries = nil
  }

  mutating func putHeldEntries() throws {
    for entry in objects.heldEntries?.take() ?? [] {
      try transaction.put([], forKey: entry, in: generation.indexes)
    }
  }

  /// Adds a new object to the index of one of its keys, or buffers the entry.
  mutating func addNew(_ key: ObjectIndexKey, of sequence: UInt64) throws {
    guard objects.heldEntries != nil, !ObjectFormat.isText(key.index) else {
      return try add(key, of: sequence)
    }
    objects.heldEntries!.append(ObjectFormat.indexEntry(key, sequence: sequence))
    if objects.heldEntries!.isFull { try putHeldEntries() }
  }
}
