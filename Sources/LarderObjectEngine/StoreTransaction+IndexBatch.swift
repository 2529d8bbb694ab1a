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

  init(_ bytes: [UInt8], in range: Range<Int>, at position: Int) {
    self.position = position
    first = Self.word(bytes, range.lowerBound, range.upperBound)
    second = Self.word(bytes, range.lowerBound + 8, range.upperBound)
  }

  private static func word(_ bytes: [UInt8], _ start: Int, _ end: Int) -> UInt64 {
    if start + 8 <= end, let word: UInt64 = bytes.integer(at: start) { return word.byteSwapped }
    var word: UInt64 = 0
    for offset in start..<start + 8 {
      word = word << 8 | (offset < end ? UInt64(bytes[offset]) : 0)
    }
    return word
  }

  /// Returns the positions of keys in ascending order.
  ///
  /// - Parameter precedes: Compares the byte strings of two positions whose first sixteen bytes are
  ///   equal.
  static func order(_ keys: [SortKey], _ precedes: (Int, Int) -> Bool) -> [Int] {
    let sorted = keys.sorted { left, right in
      if left.first != right.first { return left.first < right.first }
      if left.second != right.second { return left.second < right.second }
      return precedes(left.position, right.position)
    }
    return sorted.map(\.position)
  }

  /// Returns byte strings in ascending order.
  static func sorted(_ strings: [[UInt8]]) -> [[UInt8]] {
    let keys = strings.indices.map { SortKey(strings[$0], in: strings[$0].indices, at: $0) }
    return order(keys) { strings[$0].lexicographicallyPrecedes(strings[$1]) }.map { strings[$0] }
  }
}

/// Index entries that are buffered, to be written in order. They are in one array of bytes, because
/// an array for each would cost more than the entry.
struct IndexEntryBuffer {
  private(set) var bytes: [UInt8] = []
  private var places: [Range<Int>] = []
  private var keys: [SortKey] = []

  /// The maximum number of buffered entries.
  private static let limit = 16_384

  var isFull: Bool { places.count >= Self.limit }

  mutating func append(_ key: ObjectIndexKey, of sequence: UInt64) {
    let start = bytes.count
    ObjectFormat.append(key, sequence: sequence, to: &bytes)
    let place = start..<bytes.count
    keys.append(SortKey(bytes, in: place, at: places.count))
    places.append(place)
  }

  /// The places of all entries in ``bytes``, in the order of the entries.
  var ordered: [Range<Int>] {
    let order = SortKey.order(keys) { left, right in
      bytes[places[left]].lexicographicallyPrecedes(bytes[places[right]])
    }
    return order.map { places[$0] }
  }

  mutating func removeAll() {
    bytes.removeAll(keepingCapacity: true)
    places.removeAll(keepingCapacity: true)
    keys.removeAll(keepingCapacity: true)
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
    guard let held = objects.heldEntries, !held.bytes.isEmpty else { return }
    objects.heldEntries!.removeAll()
    try transaction.putKeys(held.ordered, of: held.bytes, in: generation.indexes)
  }

  /// Adds a new object to the index of one of its keys, or buffers the entry.
  mutating func addNew(_ key: ObjectIndexKey, of sequence: UInt64) throws {
    guard objects.heldEntries != nil, !ObjectFormat.isText(key.index) else {
      return try add(key, of: sequence)
    }
    objects.heldEntries!.append(key, of: sequence)
    if objects.heldEntries!.isFull { try putHeldEntries() }
  }
}
