// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem

/// One write transaction of a store: everything in it becomes visible at once, or nothing does.
///
/// ```swift
/// try store.write { transaction in
///   try transaction.setBytes([1], forKey: "a", in: "accounts")
///   try transaction.setBytes([2], forKey: "b", in: "accounts")
/// }
/// ```
///
/// It is valid during the closure only, and belongs to its thread.
public struct StoreTransaction: ~Copyable {
  package var transaction: WriteTransaction
  package let generation: Generation
  /// The label of everything written here.
  package let label: UInt64
  package let now: Int64
  package let budget: UInt64

  var totals: StoreTotals
  private var storedTotals: StoreTotals
  var namespaces: [UInt32: NamespaceRecord] = [:]
  private var changedNamespaces: Set<UInt32> = []
  private var lastChanged: UInt32 = 0
  /// The namespaces used by name, so that each is hashed and looked up once.
  private var spaces: [Space] = []
  /// Slots whose keys were written or removed: stamped before the commit.
  package private(set) var touchedSlots: [Int] = []
  var clearedNamespaces: [UInt32] = []
  var raisesFloor = false
  private var newNumbers: [(Space, UInt32)] = []
  /// The records of the object types that were used, by name; and whose declaration was found to fit
  /// last, if any was.
  package var objectTypes: [String: (record: ObjectTypeRecord, declarer: ObjectIdentifier?)] = [:]
  /// How often a record of a type was stored or removed.
  package internal(set) var objectTypeChanges = 0
  /// The books of the object types that were touched, and whether they changed.
  var objectBooks: [UInt32: (books: ObjectTypeBooks, isChanged: Bool)] = [:]
  /// The books as they were when a type was first touched.
  var objectsBefore: [UInt32: ObjectTypeBooks] = [:]
  /// Index entries that wait for others; `nil`: none have to.
  var heldEntries: HeldIndexEntries?
  private var isForced = false
  var evicted: UInt64 = 0
  var expired: UInt64 = 0
  var bytesWritten: UInt64 = 0
  var random = SystemRandomNumberGenerator()

  init(
    _ transaction: consuming WriteTransaction, in generation: Generation, label: UInt64, now: Int64
  ) throws {
    var totals: StoreTotals?
    if let record = try transaction.value(forKey: StoreTotals.key, in: .main) {
      totals = StoreTotals(record)
    }
    guard let totals else {
      throw LMDBError(.corrupted, during: "the totals record")
    }
    self.transaction = transaction
    self.generation = generation
    self.label = label
    self.now = now
    self.budget = generation.table.budget
    self.totals = totals
    self.storedTotals = totals
  }

  /// Whether anything has to be committed.
  var hasChanges: Bool {
    isForced || !touchedSlots.isEmpty || !changedNamespaces.isEmpty || totals != storedTotals
  }

  /// Makes the transaction commit although nothing changed: what a bump is.
  mutating func force() { isForced = true }

  mutating func touch(hash: UInt64) {
    touchedSlots.append(Int(hash & UInt64(SharedTableLayout.stampCount - 1)))
  }

  /// Why an entry cannot be stored under the budget in force now; `nil`: it can.
  func refusal(of content: Content, for key: EncodedKey) -> StoreError? {
    do throws(StoreError) {
      try StoreCore.check(
        keyLength: key.bytes.count, payloadLength: content.payload.count, budget: budget)
      return nil
    } catch {
      return error
    }
  }

  // MARK: Namespaces

  /// The namespace of a name.
  mutating func space(named name: String) throws(StoreError) -> Space {
    for space in spaces where space.name == name { return space }
    let space = try Space(name: name)
    // Few are usual; a transaction over very many must not search for long.
    if spaces.count >= 16 { spaces.removeAll(keepingCapacity: true) }
    spaces.append(space)
    return space
  }

  /// The number of a namespace, giving it one if it has none.
  mutating func number(of space: Space) throws -> UInt32 {
    let known = space.number(in: generation)
    if known != 0 { return known }
    if let found = newNumbers.first(where: { $0.0 === space }) { return found.1 }
    let key = NamespaceRecord.nameKey(space.nameBytes)
    var number: UInt32?
    if let bytes = try transaction.value(forKey: key, in: .main) {
      number = NamespaceRecord.number(in: bytes, name: space.nameBytes)
      if number == nil { throw LMDBError(.corrupted, during: "a namespace's name") }
    }
    if number == nil {
      let created = totals.nextNamespace
      totals.nextNamespace += 1
      try transaction.put(
        NamespaceRecord.nameRecord(created, name: space.nameBytes), forKey: key, in: .main)
      namespaces[created] = NamespaceRecord(name: space.nameBytes)
      changedNamespaces.insert(created)
      number = created
    }
    newNumbers.append((space, number!))
    return number!
  }

  /// The record of a namespace by its number.
  mutating func namespace(_ number: UInt32) throws -> NamespaceRecord {
    if let known = namespaces[number] { return known }
    var found: NamespaceRecord?
    if let bytes = try transaction.value(forKey: NamespaceRecord.key(number), in: .main) {
      found = NamespaceRecord(bytes)
      if found == nil { throw LMDBError(.corrupted, during: "a namespace's record") }
    }
    let record = found ?? NamespaceRecord(name: [])
    namespaces[number] = record
    return record
  }

  @inline(__always)
  mutating func changeNamespace(_ number: UInt32, _ body: (inout NamespaceRecord) -> Void) throws {
    if lastChanged != number || number == 0 {
      _ = try namespace(number)
      changedNamespaces.insert(number)
      lastChanged = number
    }
    body(&namespaces[number]!)
  }

  // MARK: Accounting

  /// Takes a stored entry out of the books.
  mutating func account(removing header: EntryHeader) throws {
    totals.bytes -= min(totals.bytes, UInt64(header.cost))
    totals.entries -= min(totals.entries, 1)
    if try namespace(header.namespace).epoch == header.epoch {
      try changeNamespace(header.namespace) {
        $0.bytes -= min($0.bytes, UInt64(header.cost))
        $0.entries -= min($0.entries, 1)
      }
    }
  }

  /// Books a new entry in for the old one of its key.
  mutating func account(replacing old: EntryHeader, with header: EntryHeader) throws {
    guard old.epoch == header.epoch, old.namespace == header.namespace else {
      try account(removing: old)
      return try account(adding: header)
    }
    totals.bytes -= min(totals.bytes, UInt64(old.cost))
    totals.bytes += UInt64(header.cost)
    bytesWritten += UInt64(header.cost)
    try changeNamespace(header.namespace) {
      $0.bytes -= min($0.bytes, UInt64(old.cost))
      $0.bytes += UInt64(header.cost)
    }
  }

  mutating func account(adding header: EntryHeader) throws {
    totals.bytes += UInt64(header.cost)
    totals.entries += 1
    bytesWritten += UInt64(header.cost)
    try changeNamespace(header.namespace) {
      $0.bytes += UInt64(header.cost)
      $0.entries += 1
    }
  }

  // MARK: End

  /// Writes the books. Nothing may be changed afterwards.
  mutating func finish() throws {
    try evictObjects()
    for (number, entry) in objectBooks where entry.isChanged {
      try transaction.put(
        entry.books.encoded(), forKey: ObjectTypeBooks.key(number), in: .main)
    }
    for number in changedNamespaces {
      try transaction.put(
        namespaces[number]!.encoded(), forKey: NamespaceRecord.key(number), in: .main)
    }
    try transaction.put(totals.encoded(), forKey: StoreTotals.key, in: .main)
  }

  /// To run after the commit: what was given out here is true then.
  func learners() -> [() -> Void] {
    newNumbers.map { space, number in
      { [generation] in space.learn(number: number, in: generation) }
    }
  }
}
