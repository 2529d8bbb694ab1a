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

/// The position of byte strings in a list, for a sort. A sort of the strings themselves would count
/// their references in each step.
struct SortKey {
  /// The first sixteen bytes, big-endian: most comparisons end here.
  private let first: UInt64
  private let second: UInt64
  private let position: Int

  private init(_ bytes: [UInt8], at position: Int) {
    self.position = position
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

  /// Returns byte strings in ascending order.
  static func sorted(_ strings: [[UInt8]]) -> [[UInt8]] {
    var keys = strings.indices.map { SortKey(strings[$0], at: $0) }
    keys.sort { left, right in
      if left.first != right.first { return left.first < right.first }
      if left.second != right.second { return left.second < right.second }
      return strings[left.position].lexicographicallyPrecedes(strings[right.position])
    }
    return keys.map { strings[$0.position] }
  }
}

/// Index entries that are buffered, to be written in order.
struct IndexEntryBuffer {
  private var entries: [[UInt8]] = []

  /// The maximum number of buffered entries.
  private static let limit = 16_384

  var isFull: Bool { entries.count >= Self.limit }

  mutating func append(_ bytes: [UInt8]) { entries.append(bytes) }

  /// Removes and returns all entries in order.
  mutating func take() -> [[UInt8]] {
    let sorted = SortKey.sorted(entries)
    entries.removeAll(keepingCapacity: true)
    return sorted
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
