// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB

/// The state of the object layer during one write transaction.
///
/// Arrays, because a transaction uses few types, and most use one.
package final class ObjectTransactionState {
  /// The state of an object type, or of an index, in the transaction.
  final class NumberState {
    let number: UInt32
    /// The counters, and those that are stored; `nil` before the first use.
    var books: (books: ObjectTypeCounters, stored: ObjectTypeCounters)?
    /// Whether any object changed.
    var isChanged = false
    /// The counters before the first use in this transaction.
    var booksBefore: ObjectTypeCounters?
    /// The layouts; `nil` if they are not read yet.
    var layouts: ObjectLayouts??
    /// Whether the slot of the type is touched.
    var isTouched = false

    fileprivate init(_ number: UInt32) { self.number = number }
  }

  /// The records of the object types in use, each with the declaration that last matched it, if any.
  private var types: [(record: ObjectTypeRecord, declarer: ObjectIdentifier?)] = []
  /// The number of times a type record was stored or removed.
  package internal(set) var typeChanges = 0
  private(set) var numbers: [NumberState] = []
  /// The keys of unique indexes that an object was stored with while another had them, with the
  /// id of the object; see ``StoreTransaction/firstConflict()``.
  var conflicts: [(key: ObjectIndexKey, id: [UInt8], type: UInt32)] = []
  /// The buffered index entries, or `nil` if entries are written directly.
  var heldEntries: IndexEntryBuffer?
  /// The changes of full-text indexes that are not merged yet.
  var postings = PostingBuffer()

  /// Returns the record of a type in use.
  package func type(named name: String) -> (record: ObjectTypeRecord, declarer: ObjectIdentifier?)?
  {
    types.first { $0.record.name == name }
  }

  /// Returns the record of a type in use.
  func type(_ number: UInt32) -> ObjectTypeRecord? {
    types.first { $0.record.number == number }?.record
  }

  /// Keeps the record of a type.
  package func keep(_ record: ObjectTypeRecord, declarer: ObjectIdentifier?) {
    removeType(named: record.name)
    types.append((record, declarer))
  }

  func removeType(named name: String) { types.removeAll { $0.record.name == name } }

  subscript(number: UInt32) -> NumberState {
    if let known = numbers.first(where: { $0.number == number }) { return known }
    let new = NumberState(number)
    numbers.append(new)
    return new
  }

  /// Enforces the budgets of types and of the store, and writes postings and the counters of types.
  func finish(_ transaction: inout StoreTransaction) throws {
    try transaction.evictObjects()
    try transaction.makeRoomForObjects()
    try transaction.mergePostings()
    for state in numbers {
      guard let (books, stored) = state.books, books != stored else { continue }
      try transaction.transaction.put(
        books.encoded(), forKey: ObjectTypeCounters.key(state.number), in: .main)
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
