// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// INDEX ENTRIES OF MANY OBJECTS
//
// Objects that are saved together come in the order of their sequences, and their index entries in
// none. Entry by entry, each goes to another page, and LMDB gives new pages to objects and indexes in
// turn: what is written then lies scattered over the file, and so does what is freed and written
// anew by every later transaction. Held back and put in the order of their keys, the entries of a
// page are put together, and pages of one kind lie side by side, which the disk is glad of.

/// Index entries that are held back, to be put in order.
struct IndexEntryBuffer {
  private struct Entry {
    /// The first sixteen bytes, big-endian: most comparisons end here.
    let first: UInt64
    let second: UInt64
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

    static func precedes(_ left: Entry, _ right: Entry) -> Bool {
      if left.first != right.first { return left.first < right.first }
      if left.second != right.second { return left.second < right.second }
      return left.bytes.lexicographicallyPrecedes(right.bytes)
    }
  }

  private var entries: [Entry] = []

  /// So many are held at most, whatever is saved.
  private static let limit = 16_384

  var isFull: Bool { entries.count >= Self.limit }

  mutating func append(_ bytes: [UInt8]) { entries.append(Entry(bytes)) }

  /// All of them in order; none are left.
  mutating func take() -> [[UInt8]] {
    let sorted = entries.sorted(by: Entry.precedes)
    entries.removeAll(keepingCapacity: true)
    return sorted.map(\.bytes)
  }
}

extension StoreTransaction {
  /// Holds the index entries of new objects back until ``endIndexBatch()``. Until then nothing may
  /// look into an index of theirs but ``save(_:type:keepsExisting:)``, which puts them before it does.
  package mutating func beginIndexBatch() { heldEntries = IndexEntryBuffer() }

  /// Puts what was held back; also after an error, for whoever goes on with the transaction.
  package mutating func endIndexBatch() throws {
    try putHeldEntries()
    heldEntries = nil
  }

  mutating func putHeldEntries() throws {
    for entry in heldEntries?.take() ?? [] {
      try transaction.put([], forKey: entry, in: generation.indexes)
    }
  }

  /// Puts an index entry of a new object, now or with others.
  mutating func putNewEntry(_ entry: [UInt8]) throws {
    guard heldEntries != nil else {
      return try transaction.put([], forKey: entry, in: generation.indexes)
    }
    heldEntries!.append(entry)
    if heldEntries!.isFull { try putHeldEntries() }
  }
}
