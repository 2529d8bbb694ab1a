// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem
internal import Synchronization

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
  private(set) var namespaces = NamespaceRecordCache()
  /// The namespaces used by name, so that each is hashed and looked up once.
  private var spaces: [NamespaceHandle] = []
  /// Slots whose keys were written or removed: stamped before the commit.
  package private(set) var touchedSlots = TouchedSlots()
  var clearedNamespaces: [UInt32] = []
  var raisesFloor = false
  private var newNumbers: [(NamespaceHandle, UInt32)] = []
  /// The records of the object types that were used, by name; and whose declaration was found to fit
  /// last, if any was.
  package var objectTypes: [String: (record: ObjectTypeRecord, declarer: ObjectIdentifier?)] = [:]
  /// How often a record of a type was stored or removed.
  package internal(set) var objectTypeChanges = 0
  /// The books of the object types that were touched, and whether they changed.
  var objectBooks: [UInt32: (books: ObjectTypeCounters, isChanged: Bool)] = [:]
  /// The books as they were when a type was first touched.
  var objectsBefore: [UInt32: ObjectTypeCounters] = [:]
  /// Index entries that wait for others; `nil`: none have to.
  var heldEntries: IndexEntryBuffer?
  private var isForced = false
  /// Whether LMDB has something to commit whatever becomes of the books.
  var hasWrittenEntries = false
  var evicted: UInt64 = 0
  var expired: UInt64 = 0
  var bytesWritten: UInt64 = 0
  var random = SystemRandomNumberGenerator()

  init(
    _ transaction: consuming WriteTransaction, in generation: Generation, label: UInt64, now: Int64
  ) throws {
    let before = transaction.id &- 1
    let known = generation.books.withLock { $0?.transaction == before ? $0 : nil }
    if let namespace = known?.namespace { namespaces.learn(namespace.number, namespace.record) }
    var totals = known?.totals
    if totals == nil, let record = try transaction.value(forKey: StoreTotals.key, in: .main) {
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
    isForced || !touchedSlots.isEmpty || namespaces.hasChanges || totals != storedTotals
  }

  /// Makes the transaction commit although nothing changed: what a bump is.
  mutating func force() { isForced = true }

  mutating func touch(hash: UInt64) {
    touchedSlots.append(Int(hash & UInt64(SharedTableLayout.stampCount - 1)))
  }

  /// Why an entry cannot be stored under the budget in force now; `nil`: it can.
  func refusal(of content: EntryContent, for key: EncodedKey) -> StoreError? {
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
  mutating func space(named name: String) throws(StoreError) -> NamespaceHandle {
    for space in spaces where space.name == name { return space }
    let space = try NamespaceHandle(name: name)
    // Few are usual; a transaction over very many must not search for long.
    if spaces.count >= 16 { spaces.removeAll(keepingCapacity: true) }
    spaces.append(space)
    return space
  }

  /// The number of a namespace, giving it one if it has none.
  mutating func number(of space: NamespaceHandle) throws -> UInt32 {
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
      namespaces.learn(created, NamespaceRecord(name: space.nameBytes))
      namespaces.change(created) { _ in }
      number = created
    }
    newNumbers.append((space, number!))
    return number!
  }

  /// The epoch of a namespace by its number, whose record is known from then on.
  @discardableResult
  mutating func epoch(_ number: UInt32) throws -> UInt32 {
    if let known = namespaces.epoch(of: number) { return known }
    var found: NamespaceRecord?
    try withByteScratch(NamespaceRecord.keySize) { key in
      NamespaceRecord.writeKey(number, to: &key)
      if let bytes = try transaction.value(forKey: key.span, in: .main) {
        found = NamespaceRecord(bytes)
        if found == nil { throw LMDBError(.corrupted, during: "a namespace's record") }
      }
    }
    let record = found ?? NamespaceRecord(name: [])
    namespaces.learn(number, record)
    return record.epoch
  }

  @inline(__always)
  mutating func changeNamespace(_ number: UInt32, _ body: (inout NamespaceRecord) -> Void) throws {
    try epoch(number)
    namespaces.change(number, body)
  }

  // MARK: Accounting

  /// Takes a stored entry out of the books.
  mutating func account(removing header: EntryHeader) throws {
    totals.bytes -= min(totals.bytes, UInt64(header.cost))
    totals.entries -= min(totals.entries, 1)
    if try epoch(header.namespace) == header.epoch {
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
    bytesWritten += UInt64(header.cost)
    if old.cost == header.cost { return }
    totals.bytes -= min(totals.bytes, UInt64(old.cost))
    totals.bytes += UInt64(header.cost)
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
        entry.books.encoded(), forKey: ObjectTypeCounters.key(number), in: .main)
    }
    try namespaces.forEachChanged { number, namespace in
      try withByteScratch(NamespaceRecord.keySize) { key in
        NamespaceRecord.writeKey(number, to: &key)
        try withByteScratch(namespace.encodedSize) { record in
          namespace.write(to: &record)
          try transaction.put(record.span, forKey: key.span, in: .main)
        }
      }
    }
    // An empty transaction is none to LMDB: its number would be given to the next one as well.
    if hasWrittenEntries, totals == storedTotals { return }
    try withByteScratch(StoreTotals.size) { record in
      totals.write(to: &record)
      try StoreTotals.key.withRawSpan { key throws(LMDBError) in
        try transaction.put(record.span, forKey: key, in: .main)
      }
    }
  }

  /// What the next transaction finds, once this one is committed.
  var knownBooks: CachedTotals {
    CachedTotals(transaction: transaction.id, totals: totals, namespace: namespaces.single)
  }

  /// To run after the commit: what was given out here is true then.
  func postCommitUpdates() -> [() -> Void] {
    if newNumbers.isEmpty { return [] }
    return newNumbers.map { space, number in
      { [generation] in space.learn(number: number, in: generation) }
    }
  }
}
