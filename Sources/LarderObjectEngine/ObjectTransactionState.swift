// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB

/// The state of the object layer during one write transaction.
package final class ObjectTransactionState {
  /// The records of the object types in use, by name, each with the declaration that last matched
  /// it, if any.
  package var types: [String: (record: ObjectTypeRecord, declarer: ObjectIdentifier?)] = [:]
  /// The number of times a type record was stored or removed.
  package internal(set) var typeChanges = 0
  /// The layouts of the types in use, by identifier.
  var layouts: [UInt32: ObjectLayouts?] = [:]
  /// The counters of the object types in use, and whether they changed.
  var books: [UInt32: (books: ObjectTypeCounters, isChanged: Bool)] = [:]
  /// The counters of each type before its first use in this transaction.
  var booksBefore: [UInt32: ObjectTypeCounters] = [:]
  /// The keys of unique indexes that an object was stored with while another had them, with the
  /// id of the object; see ``StoreTransaction/firstConflict()``.
  var conflicts: [(key: ObjectIndexKey, id: [UInt8], type: UInt32)] = []
  /// The types whose slots are touched.
  var touchedTypes: Set<UInt32> = []
  /// The buffered index entries, or `nil` if entries are written directly.
  var heldEntries: IndexEntryBuffer?
  /// The changes of full-text indexes that are not merged yet.
  var postings = PostingBuffer()

  /// Enforces the budgets of types and of the store, and writes postings and the counters of types.
  func finish(_ transaction: inout StoreTransaction) throws {
    try transaction.evictObjects()
    try transaction.makeRoomForObjects()
    try transaction.mergePostings()
    for (number, entry) in books where entry.isChanged {
      try transaction.transaction.put(
        entry.books.encoded(), forKey: ObjectTypeCounters.key(number), in: .main)
    }
  }
}

extension StoreTransaction {
  /// The state of the object layer in this transaction.
  package var objects: ObjectTransactionState {
    mutating get {
      if let state = layer?.state as? ObjectTransactionState { return state }
      let state = ObjectTransactionState()
      layer = TransactionLayer(state) { [unowned state] in try state.finish(&$0) }
      return state
    }
  }
}
